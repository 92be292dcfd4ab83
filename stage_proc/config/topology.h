// The pipelines and model families that are built in. A deploy file names its pipeline and then
// only writes what differs; the topology supplies roles, wiring, families and output kinds.
// Constant data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stage_proc/config/deploy_config.h"

namespace omnistage::config {

struct FamilyInfo {
  std::string_view name;
  bool needs_model;         // has weights or tables to load
  bool llm_ar;              // may run as execution_type llm_ar
  bool llm_generation;      // may run as execution_type llm_generation
  std::string_view output;  // kind of its client-visible output; empty = it cannot have one
};

struct StageTopology {
  int stage_id;
  std::string_view model_stage;
  std::string_view family;
  std::string_view model;  // default model folder
  ExecutionType execution_type;
  std::vector<int> input_sources;
  bool final_output;
};

struct PipelineTopology {
  std::string_view name;
  std::vector<StageTopology> stages;

  const StageTopology* stage(int stage_id) const;
};

// nullptr for unknown names.
const FamilyInfo* find_family(std::string_view name);
const PipelineTopology* find_pipeline(std::string_view name);
// "echo, hibari_code2wav, ...": for messages.
std::string family_names();
std::string pipeline_names();

}  // namespace omnistage::config
