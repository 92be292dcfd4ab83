#include "stage_proc/supervisor/pipeline_graph.h"

#include <set>

#include "stage_proc/engine/request.h"

namespace omnistage {

uint32_t modality_bit(const std::string& output_type) {
  if (output_type == "text") return engine::kModalityText;
  if (output_type == "audio") return engine::kModalityAudio;
  if (output_type == "tensor") return engine::kModalityTensor;
  return 0;
}

uint32_t final_output_bits(const config::StageConfig& stage) {
  return stage.final_output ? modality_bit(stage.final_output_type) : 0;
}

uint32_t reachable_outputs(const config::DeployConfig& config, int stage_id) {
  uint32_t bits = 0;
  std::set<int> seen;
  std::vector<int> todo = {stage_id};
  while (!todo.empty()) {
    const int id = todo.back();
    todo.pop_back();
    const config::StageConfig* stage = config.stage(id);
    if (stage == nullptr || !seen.insert(id).second) continue;
    bits |= final_output_bits(*stage);
    for (int next : config.consumers_of(id)) todo.push_back(next);
  }
  return bits;
}

bool has_client_link(const config::StageConfig& stage) {
  return stage.input_sources.empty() || final_output_bits(stage) != 0;
}

Status check_runnable(const config::DeployConfig& config) {
  if (config.stages.size() > limits::kStagesMax) {
    return Status(StatusCode::kUnsupported,
                  config.path + ": stages: " + std::to_string(config.stages.size()) +
                      " stages, limit " + std::to_string(limits::kStagesMax));
  }
  for (const config::StageConfig& stage : config.stages) {
    if (stage.input_sources.size() > 1) {
      return Status(StatusCode::kUnsupported,
                    config.path + ": stage '" + stage.name +
                        "': input_sources: more than one source is not supported yet");
    }
  }
  return {};
}

}  // namespace omnistage
