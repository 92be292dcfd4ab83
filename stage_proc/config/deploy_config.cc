#include "stage_proc/config/deploy_config.h"

#include <algorithm>
#include <cstdlib>

#include "stage_proc/config/merge.h"
#include "stage_proc/config/readers.h"
#include "stage_proc/config/unsupported.h"
#include "stage_proc/config/wiring.h"

namespace omnistage::config {
namespace {

const PipelineTopology* read_pipeline(Fields* fields, DeployConfig* out) {
  if (!fields->read_text("pipeline", limits::kNameBytesMax, &out->pipeline)) return nullptr;
  const PipelineTopology* topology = find_pipeline(out->pipeline);
  if (topology == nullptr)
    fields->problems().add(
        *fields->get("pipeline"),
        "unknown pipeline; must be one of " + pipeline_names() + ", got " + out->pipeline);
  return topology;
}

Result<std::vector<StageEntry>> read_stages(Fields* fields, const PipelineTopology* topology,
                                            const LoadOptions& options) {
  std::vector<StageEntry> entries;
  const Value* found = fields->get("stages");
  if (found == nullptr || !found->is_list() || found->list.empty() ||
      found->list.size() > limits::kStagesMax) {
    const Value& at = found != nullptr ? *found : fields->value();
    fields->problems().add(at, "`stages` must be a list of 1.." +
                                   std::to_string(limits::kStagesMax) + " stages, got " +
                                   (found == nullptr   ? "nothing"
                                    : found->is_list() ? std::to_string(found->list.size())
                                                       : describe(*found)));
    return entries;
  }
  for (const Value& item : found->list) {
    if (!item.is_map()) {
      fields->problems().add(item, "a stage must be a map, got " + describe(item));
      continue;
    }
    OMS_ASSIGN_OR_RETURN(Value flat, flatten_stage(item));
    entries.push_back(read_stage(flat, topology, options, &fields->problems()));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const StageEntry& a, const StageEntry& b) {
    return a.config.stage_id < b.config.stage_id;
  });
  return entries;
}

// A pipeline of the registry is only what it says it is with all of its stages.
void check_complete(const Value& document, const PipelineTopology& topology,
                    const std::vector<StageEntry>& entries, Problems* problems) {
  for (const StageTopology& known : topology.stages) {
    const bool present = std::any_of(entries.begin(), entries.end(), [&](const StageEntry& entry) {
      return entry.config.stage_id == known.stage_id;
    });
    if (!present) {
      const Value* at = document.find("stages");
      problems->add(at != nullptr ? *at : document, "pipeline " + std::string(topology.name) +
                                                        " also needs stage " +
                                                        std::to_string(known.stage_id) + " (" +
                                                        std::string(known.model_stage) + ")");
    }
  }
}

Result<DeployConfig> build(const Value& document, const std::string& path,
                           const LoadOptions& options) {
  DeployConfig out;
  out.path = path;
  Problems problems;
  Fields fields(document, &problems);
  refuse_unsupported(Scope::kTop, &fields);
  const PipelineTopology* topology = read_pipeline(&fields, &out);
  fields.read_bool("async_chunk", &out.async_chunk);
  fields.read_int("stage_init_timeout_s", 1, kTimeoutSecondsMax, &out.stage_init_timeout_s);
  fields.read_int("shutdown_timeout_s", 1, kTimeoutSecondsMax, &out.shutdown_timeout_s);
  fields.read_int("input_wait_timeout_s", 0, kTimeoutSecondsMax, &out.input_wait_timeout_s);
  OMS_ASSIGN_OR_RETURN(std::vector<StageEntry> entries, read_stages(&fields, topology, options));
  for (const char* key : {"connectors", "edges", "base_config", "platforms"})
    fields.mark_known(key);
  fields.finish("a deploy file");
  // The graph is only checked when every stage is readable: its messages would follow from the
  // first fault.
  if (problems.empty()) {
    if (topology != nullptr) check_complete(document, *topology, entries, &problems);
    wire_stages(document, &entries, &problems, &out.edges);
  }
  if (!problems.empty()) return problems.first();
  out.async_chunk = out.async_chunk && entries.size() > 1;
  for (StageEntry& entry : entries) {
    entry.config.async_chunk = entry.config.async_chunk && out.async_chunk;
    out.stages.push_back(std::move(entry.config));
  }
  return out;
}

}  // namespace

const char* to_string(ExecutionType type) {
  return type == ExecutionType::kLlmAr ? "llm_ar" : "llm_generation";
}

const StageConfig* DeployConfig::stage(int stage_id) const {
  for (const StageConfig& item : stages)
    if (item.stage_id == stage_id) return &item;
  return nullptr;
}

const EdgeConfig* DeployConfig::edge(int from, int to) const {
  for (const EdgeConfig& item : edges)
    if (item.from == from && item.to == to) return &item;
  return nullptr;
}

std::vector<int> DeployConfig::consumers_of(int stage_id) const {
  std::vector<int> ids;
  for (const EdgeConfig& item : edges)
    if (item.from == stage_id) ids.push_back(item.to);
  return ids;
}

std::vector<int> DeployConfig::entry_stages() const {
  std::vector<int> ids;
  for (const StageConfig& item : stages)
    if (item.input_sources.empty()) ids.push_back(item.stage_id);
  return ids;
}

std::string default_cache_dir() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (std::string dir = variable("OMNISTAGE_CACHE"); !dir.empty()) return dir;
  if (std::string dir = variable("XDG_CACHE_HOME"); !dir.empty()) return dir + "/omnistage";
  return variable("HOME") + "/.cache/omnistage";
}

Result<DeployConfig> parse_deploy(const std::string& yaml, const std::string& path,
                                  const LoadOptions& options) {
  try {  // std::filesystem and std::string may throw on hostile paths or out of memory
    OMS_ASSIGN_OR_RETURN(Value raw, parse_yaml(yaml, path));
    OMS_ASSIGN_OR_RETURN(Value merged, resolve_base_config(std::move(raw)));
    OMS_ASSIGN_OR_RETURN(Value document, apply_platform(std::move(merged), options.platform));
    return build(document, path, options);
  } catch (const std::exception& error) {
    return invalid(path + ": cannot be read: " + error.what());
  }
}

Result<DeployConfig> load_deploy(const std::string& path, const LoadOptions& options) {
  try {
    OMS_ASSIGN_OR_RETURN(Value raw, load_yaml(path));
    OMS_ASSIGN_OR_RETURN(Value merged, resolve_base_config(std::move(raw)));
    OMS_ASSIGN_OR_RETURN(Value document, apply_platform(std::move(merged), options.platform));
    return build(document, path, options);
  } catch (const std::exception& error) {
    return invalid(path + ": cannot be read: " + error.what());
  }
}

}  // namespace omnistage::config
