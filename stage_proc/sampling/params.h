// Checks of the sampling parameters of a request; done once, when the request enters.
#pragma once

#include <cstdint>
#include <string_view>

#include "shm/base/status.h"
#include "stage_proc/engine/request.h"

namespace omnistage::sampling {

constexpr double kTemperatureMax = 2.0;
// Smaller temperatures above 0 are raised to this: dividing by less would overflow float logits.
constexpr double kTemperatureMin = 0.01;
constexpr int32_t kStopTokenIdsMax = 256;

// INVALID: "<field> must be <range>, got <value>" for the first field out of range. `vocab_size`
// bounds ids; 0 = not known here.
Status validate_sampling(const engine::SamplingParams& params, int32_t vocab_size = 0);

// Well-formed UTF-8 (shortest forms, no surrogates). A stop string that is not could never match.
bool is_valid_utf8(std::string_view text);

}  // namespace omnistage::sampling
