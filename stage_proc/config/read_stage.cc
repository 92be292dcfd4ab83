#include <filesystem>

#include "stage_proc/config/readers.h"
#include "stage_proc/config/unsupported.h"

namespace omnistage::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEnvCountMax = 64;
constexpr size_t kEnvBytesMax = 4096;
constexpr size_t kPathBytesMax = 4096;

bool is_env_name(const std::string& name) {
  if (name.empty() || name.size() > limits::kNameBytesMax || (name[0] >= '0' && name[0] <= '9'))
    return false;
  return name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
         std::string::npos;
}

void read_env(Fields* fields, std::map<std::string, std::string>* out) {
  const Value* found = fields->get("env");
  if (found == nullptr) return;
  if (!found->is_map() || found->map.size() > kEnvCountMax) {
    fields->problems().add(
        *found, "must be a map of at most " + std::to_string(kEnvCountMax) + " variables, got " +
                    (found->is_map() ? std::to_string(found->map.size()) : describe(*found)));
    return;
  }
  for (const auto& [name, value] : found->map) {
    if (!is_env_name(name)) {
      fields->problems().add(value, "'" + name + "' is no name of an environment variable");
    } else if (value.is_list() || value.is_map() || value.scalar.size() > kEnvBytesMax ||
               value.scalar.find('\0') != std::string::npos) {
      fields->problems().add(value, "must be text of at most " + std::to_string(kEnvBytesMax) +
                                        " bytes, got " + describe(value));
    } else {
      (*out)[name] = value.scalar;
    }
  }
}

void read_restart(Fields* fields, RestartBudget* out) {
  const Value* found = fields->get("restart");
  if (found == nullptr) return;
  if (!found->is_map()) {
    fields->problems().add(*found, "must be a map, got " + describe(*found));
    return;
  }
  Fields restart(*found, &fields->problems());
  restart.read_int("max_restarts", 0, kRestartsMax, &out->max_restarts);
  restart.read_int("window_s", 1, kTimeoutSecondsMax, &out->window_s);
  restart.read_int("backoff_ms", 0, 30000, &out->backoff_ms);
  restart.finish("restart");
}

void read_execution_type(Fields* fields, ExecutionType* out) {
  const Value* found = fields->get("execution_type");
  if (found == nullptr) return;
  const std::string text = found->is_scalar() ? found->scalar : std::string();
  if (text == "llm_ar")
    *out = ExecutionType::kLlmAr;
  else if (text == "llm_generation")
    *out = ExecutionType::kLlmGeneration;
  else if (text == "diffusion")
    fields->problems().add(*found, "diffusion stages are not supported in this release",
                           StatusCode::kUnsupported);
  else
    fields->problems().add(*found, "must be llm_ar or llm_generation, got " + describe(*found));
}

void read_family(Fields* fields, StageConfig* out) {
  fields->read_text("family", limits::kNameBytesMax, &out->family);
  const Value* at = fields->get("family");
  if (at == nullptr) at = &fields->value();
  const FamilyInfo* family = find_family(out->family);
  if (out->family.empty()) {
    fields->problems().add(*at, "needs a family: " + family_names());
  } else if (family == nullptr) {
    fields->problems().add(
        *at, "unknown model family; must be one of " + family_names() + ", got " + out->family);
  } else if (!(out->execution_type == ExecutionType::kLlmAr ? family->llm_ar
                                                            : family->llm_generation)) {
    fields->problems().add(*at, "family " + out->family + " cannot run as execution_type " +
                                    to_string(out->execution_type));
  }
}

// Absolute, or below the model cache, or beside the YAML that names it.
void resolve_model(Fields* fields, const LoadOptions& options, StageConfig* out) {
  fields->read_text("model", kPathBytesMax, &out->model);
  const FamilyInfo* family = find_family(out->family);
  if (family == nullptr) return;
  const Value* written = fields->get("model");
  const Value& at = written != nullptr ? *written : fields->value();
  if (!family->needs_model && out->model.empty()) return;
  if (out->model.empty()) {
    fields->problems().add(at, "family " + out->family + " needs a model");
    return;
  }
  const fs::path name = out->model;
  const fs::path models = options.models_dir.empty() ? fs::path(default_cache_dir()) / "models"
                                                     : fs::path(options.models_dir);
  std::error_code ignored;
  fs::path chosen = name;
  if (name.is_relative()) {
    const fs::path in_cache = models / name;
    const fs::path beside = fs::absolute(fs::path(*at.file).parent_path() / name, ignored);
    const bool explicit_relative =
        out->model.rfind("./", 0) == 0 || out->model.rfind("../", 0) == 0;
    chosen = !explicit_relative && (fs::exists(in_cache, ignored) || !fs::exists(beside, ignored))
                 ? in_cache
                 : beside;
  }
  if (options.require_models && !fs::exists(chosen, ignored))
    fields->problems().add(at,
                           "model " + out->model + " is not at " +
                               chosen.lexically_normal().string() +
                               "; run scripts/setup or write an absolute path",
                           StatusCode::kNotFound);
  out->model_path = fs::absolute(chosen, ignored).lexically_normal().string();
}

void read_final_output(Fields* fields, StageConfig* out) {
  fields->read_bool("final_output", &out->final_output);
  const FamilyInfo* family = find_family(out->family);
  const Value* at = fields->get("final_output_type");
  fields->read_text("final_output_type", limits::kNameBytesMax, &out->final_output_type);
  if (family == nullptr) return;
  if (!out->final_output) {
    if (at != nullptr) fields->problems().add(*at, "needs final_output: true");
    return;
  }
  if (family->output.empty()) {
    const Value* flag = fields->get("final_output");
    fields->problems().add(flag != nullptr ? *flag : fields->value(),
                           "family " + out->family + " has no output for clients");
  } else if (out->final_output_type.empty()) {
    out->final_output_type = family->output;
  } else if (out->final_output_type != family->output && at != nullptr) {
    fields->problems().add(*at, "family " + out->family + " makes " + std::string(family->output) +
                                    ", got " + out->final_output_type);
  }
}

void apply_topology(const StageTopology& topology, StageConfig* out) {
  out->name = topology.model_stage;
  out->family = topology.family;
  out->model = topology.model;
  out->execution_type = topology.execution_type;
  out->input_sources = topology.input_sources;
  out->final_output = topology.final_output;
}

void read_sizes(Fields* fields, StageConfig* out) {
  fields->read_int("max_num_seqs", 1, kMaxNumSeqsMax, &out->max_num_seqs);
  fields->read_int("max_num_batched_tokens", 1, kMaxBatchedTokensMax, &out->max_num_batched_tokens);
  fields->read_int("max_model_len", 1, kMaxModelLenMax, &out->max_model_len);
  fields->read_int("threads", 0, kThreadsMax, &out->threads);
  if (out->max_num_batched_tokens < out->max_num_seqs) {
    const Value* at = fields->get("max_num_batched_tokens");
    if (at == nullptr) at = fields->get("max_num_seqs");
    fields->problems().add(
        at != nullptr ? *at : fields->value(),
        "max_num_batched_tokens (" + std::to_string(out->max_num_batched_tokens) +
            ") must not be below max_num_seqs (" + std::to_string(out->max_num_seqs) + ")");
  }
  if (const Value* found = fields->get("num_replicas")) {
    const std::optional<int64_t> count = as_int(*found);
    if (count && *count > 1)
      fields->problems().add(
          *found, describe(*found) + " is not supported: a stage is one process in this release",
          StatusCode::kUnsupported);
    else
      fields->read_int("num_replicas", 1, 1, &out->num_replicas);
  }
}

}  // namespace

StageEntry read_stage(const Value& value, const PipelineTopology* topology,
                      const LoadOptions& options, Problems* problems) {
  StageEntry entry;
  entry.value = value;
  StageConfig& out = entry.config;
  Fields fields(entry.value, problems);
  if (fields.get("stage_id") == nullptr) {
    problems->add(value, "needs a stage_id");
  } else if (fields.read_int("stage_id", 0, limits::kStagesMax - 1, &out.stage_id) &&
             topology != nullptr) {
    const StageTopology* known = topology->stage(out.stage_id);
    if (known == nullptr)
      problems->add(*fields.get("stage_id"), "pipeline " + std::string(topology->name) +
                                                 " has no stage " + std::to_string(out.stage_id) +
                                                 "; leave `pipeline` out to describe your own");
    else
      apply_topology(*known, &out);
  }
  refuse_unsupported(Scope::kStage, &fields);
  fields.read_text("model_stage", limits::kNameBytesMax, &out.name);
  if (out.name.empty()) out.name = "stage" + std::to_string(out.stage_id);
  read_execution_type(&fields, &out.execution_type);
  read_family(&fields, &out);
  resolve_model(&fields, options, &out);
  entry.sources_given = fields.read_ints("input_sources", 0, limits::kStagesMax - 1,
                                         limits::kStagesMax, &out.input_sources);
  read_final_output(&fields, &out);
  fields.read_bool("async_chunk", &out.async_chunk);
  read_sizes(&fields, &out);
  read_env(&fields, &out.env);
  read_restart(&fields, &out.restart);
  if (const Value* sampling = fields.get("default_sampling_params"))
    out.default_sampling_params = read_sampling(*sampling, problems);
  fields.mark_known("input_connectors");
  fields.mark_known("output_connectors");
  fields.finish("a stage");
  return entry;
}

}  // namespace omnistage::config
