// to_yaml: the effective configuration, every default written out, in the words load_deploy
// understands.
#include <yaml-cpp/yaml.h>

#include <set>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::config {
namespace {

template <typename T>
void pair(YAML::Emitter& out, const char* key, const T& value) {
  out << YAML::Key << key << YAML::Value << value;
}

// Text is always quoted: "12" or "true" must come back as text.
void text(YAML::Emitter& out, const std::string& key, const std::string& value) {
  out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
}

template <typename T>
void optional(YAML::Emitter& out, const char* key, const std::optional<T>& value) {
  if (value) pair(out, key, *value);
}

void emit_sampling(YAML::Emitter& out, const SamplingDefaults& sampling) {
  out << YAML::Key << "default_sampling_params" << YAML::Value << YAML::BeginMap;
  optional(out, "temperature", sampling.temperature);
  optional(out, "top_k", sampling.top_k);
  optional(out, "top_p", sampling.top_p);
  optional(out, "min_p", sampling.min_p);
  optional(out, "repetition_penalty", sampling.repetition_penalty);
  optional(out, "presence_penalty", sampling.presence_penalty);
  optional(out, "frequency_penalty", sampling.frequency_penalty);
  optional(out, "seed", sampling.seed);
  optional(out, "min_tokens", sampling.min_tokens);
  optional(out, "max_tokens", sampling.max_tokens);
  optional(out, "ignore_eos", sampling.ignore_eos);
  optional(out, "include_stop_str_in_output", sampling.include_stop_str_in_output);
  if (!sampling.stop.empty()) {
    out << YAML::Key << "stop" << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const std::string& item : sampling.stop) out << YAML::DoubleQuoted << item;
    out << YAML::EndSeq;
  }
  if (!sampling.stop_token_ids.empty())
    out << YAML::Key << "stop_token_ids" << YAML::Value << YAML::Flow << sampling.stop_token_ids;
  out << YAML::EndMap;
}

void emit_stage(YAML::Emitter& out, const DeployConfig& config, const StageConfig& stage) {
  out << YAML::BeginMap;
  pair(out, "stage_id", stage.stage_id);
  text(out, "model_stage", stage.name);
  text(out, "family", stage.family);
  if (!stage.model_path.empty()) text(out, "model", stage.model_path);
  pair(out, "execution_type", to_string(stage.execution_type));
  out << YAML::Key << "input_sources" << YAML::Value << YAML::Flow << stage.input_sources;
  pair(out, "final_output", stage.final_output);
  if (stage.final_output) text(out, "final_output_type", stage.final_output_type);
  pair(out, "async_chunk", stage.async_chunk);
  pair(out, "max_num_seqs", stage.max_num_seqs);
  pair(out, "max_num_batched_tokens", stage.max_num_batched_tokens);
  pair(out, "max_model_len", stage.max_model_len);
  pair(out, "num_replicas", stage.num_replicas);
  pair(out, "threads", stage.threads);
  out << YAML::Key << "env" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, value] : stage.env) text(out, name, value);
  out << YAML::EndMap;
  emit_sampling(out, stage.default_sampling_params);
  out << YAML::Key << "restart" << YAML::Value << YAML::BeginMap;
  pair(out, "max_restarts", stage.restart.max_restarts);
  pair(out, "window_s", stage.restart.window_s);
  pair(out, "backoff_ms", stage.restart.backoff_ms);
  out << YAML::EndMap;
  if (!stage.input_sources.empty()) {
    out << YAML::Key << "input_connectors" << YAML::Value << YAML::BeginMap;
    for (int source : stage.input_sources)
      if (const EdgeConfig* edge = config.edge(source, stage.stage_id))
        text(out, "from_stage_" + std::to_string(source), edge->connector.name);
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
}

void emit_connectors(YAML::Emitter& out, const DeployConfig& config) {
  std::set<std::string> done;
  out << YAML::Key << "connectors" << YAML::Value << YAML::BeginMap;
  for (const EdgeConfig& edge : config.edges) {
    const ConnectorConfig& connector = edge.connector;
    if (!done.insert(connector.name).second) continue;
    out << YAML::Key << YAML::DoubleQuoted << connector.name << YAML::Value << YAML::BeginMap;
    pair(out, "name", connector.kind);
    out << YAML::Key << "extra" << YAML::Value << YAML::BeginMap;
    pair(out, "codec_chunk_frames", connector.codec_chunk_frames);
    pair(out, "initial_codec_chunk_frames", connector.initial_codec_chunk_frames);
    pair(out, "codec_left_context_frames", connector.codec_left_context_frames);
    if (!connector.codec_chunk_ramp.empty())
      out << YAML::Key << "codec_chunk_ramp" << YAML::Value << YAML::Flow
          << connector.codec_chunk_ramp;
    pair(out, "ring_bytes", connector.ring_bytes);
    out << YAML::EndMap << YAML::EndMap;
  }
  out << YAML::EndMap;
}

}  // namespace

std::string to_yaml(const DeployConfig& config) {
  YAML::Emitter out;
  out.SetDoublePrecision(17);
  out << YAML::BeginMap;
  if (!config.pipeline.empty()) text(out, "pipeline", config.pipeline);
  pair(out, "async_chunk", config.async_chunk);
  pair(out, "stage_init_timeout_s", config.stage_init_timeout_s);
  pair(out, "shutdown_timeout_s", config.shutdown_timeout_s);
  pair(out, "input_wait_timeout_s", config.input_wait_timeout_s);
  if (!config.edges.empty()) emit_connectors(out, config);
  out << YAML::Key << "stages" << YAML::Value << YAML::BeginSeq;
  for (const StageConfig& stage : config.stages) emit_stage(out, config, stage);
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace omnistage::config
