// The vocoder's noise as a pure function: value (sentence, frame, bin) of a request's seed,
// whatever was computed before it and in which chunks. Philox 4x32-10 with Box-Muller.
#pragma once

#include <cstdint>
#include <functional>

namespace omnistage::hibari {

// Fills z with `frames` rows of kBins complex values (re, im pairs, each part of unit variance) for
// frames first_frame, first_frame + 1, ... of a sentence.
using NoiseSource =
    std::function<void(int64_t sentence, int64_t first_frame, int64_t frames, float* z)>;

NoiseSource counter_noise(uint64_t seed);

}  // namespace omnistage::hibari
