// Where a request leaves a sampling parameter open, the stage's default from the deploy file holds.
// Pure.
#pragma once

#include "stage_proc/config/deploy_config.h"
#include "stage_proc/transfer/wire_codec/wire_codec.h"

namespace omnistage {

// Parameters for this stage: what the caller gave, else the stage's default, else the sampler's
// own. The seed is special: the client library always draws one, so without a default the one of
// the request is used.
engine::SamplingParams effective_sampling(const transfer::WireHeader& header,
                                          const config::SamplingDefaults& defaults);

}  // namespace omnistage
