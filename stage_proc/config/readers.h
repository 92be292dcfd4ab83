// The parts of load_deploy: each turns one map of the file into its struct and reports to the
// Problems object. After a problem the struct is still usable (defaults), so that reading can go on
// to find an earlier line.
#pragma once

#include "stage_proc/config/deploy_config.h"
#include "stage_proc/config/fields.h"
#include "stage_proc/config/topology.h"

namespace omnistage::config {

// `extra` of a connector definition plus its kind; `value` is a map {name, extra}.
ConnectorConfig read_connector(const Value& value, const std::string& name, Problems* problems);

SamplingDefaults read_sampling(const Value& value, Problems* problems);

// What one entry of `stages` says, before the stages are checked against each other.
struct StageEntry {
  StageConfig config;
  Value value;  // flattened, for messages and for the connector keys
  bool sources_given = false;
};

StageEntry read_stage(const Value& value, const PipelineTopology* topology,
                      const LoadOptions& options, Problems* problems);

}  // namespace omnistage::config
