// Who talks to whom in a pipeline, derived from the deploy configuration. Supervisor and stages use
// the same functions, so that both sides agree. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "stage_proc/config/deploy_config.h"

namespace omnistage {

// Bit of engine::Modality for "text", "audio" or "tensor"; 0 for anything else.
uint32_t modality_bit(const std::string& output_type);

// Outputs that a client receives from this stage itself: modality bits, 0 without final_output.
uint32_t final_output_bits(const config::StageConfig& stage);

// Outputs a client can receive from this stage or any stage behind it. 0 for unknown ids.
uint32_t reachable_outputs(const config::DeployConfig& config, int stage_id);

// Entry stages and stages with a final output have a link to every client.
bool has_client_link(const config::StageConfig& stage);

// What this release cannot run although the configuration is well formed. Errors: kUnsupported,
// names the key.
Status check_runnable(const config::DeployConfig& config);

}  // namespace omnistage
