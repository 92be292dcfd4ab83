#include "stage_proc/models/hibari/noise.h"

#include <ATen/ATen.h>

#include <numbers>
#include <vector>

#include "stage_proc/models/hibari/frame_format.h"
#include "stage_proc/models/hibari/kernels.h"

namespace omnistage::hibari {
namespace {

// Two bins come out of one block of four words.
constexpr int64_t kBlocksPerFrame = (kBins + 1) / 2;
constexpr uint32_t kPurpose = 0x766F6963;  // keeps these draws apart from other uses of the seed

void fill(uint64_t seed, int64_t sentence, int64_t first_frame, int64_t frames, float* z) {
  const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  constexpr int64_t kPairs = 2 * kBlocksPerFrame;
  at::Tensor radius = at::empty({frames, kPairs}, at::kFloat);
  at::Tensor angle = at::empty({frames, kPairs}, at::kFloat);
  std::vector<uint32_t> words(static_cast<size_t>(4 * kBlocksPerFrame));
  float* u = radius.mutable_data_ptr<float>();
  float* v = angle.mutable_data_ptr<float>();
  for (int64_t row = 0; row < frames; ++row) {
    const uint32_t counter[3] = {static_cast<uint32_t>(first_frame + row),
                                 static_cast<uint32_t>(sentence), kPurpose};
    kernels().philox(key, 0, counter, static_cast<size_t>(kBlocksPerFrame), words.data());
    for (int64_t i = 0; i < kPairs; ++i) {
      // 24 bits each; u in (0, 1], so that its logarithm is finite.
      *u++ = static_cast<float>((words[static_cast<size_t>(2 * i)] >> 8) + 1) * 0x1p-24f;
      *v++ = static_cast<float>(words[static_cast<size_t>(2 * i + 1)] >> 8) *
             (0x1p-24f * 2.0f * std::numbers::pi_v<float>);
    }
  }
  radius.log_().mul_(-2.0f).sqrt_();
  const at::Tensor cosine = at::cos(angle).mul_(radius), sine = at::sin(angle).mul_(radius);
  const float* re = cosine.const_data_ptr<float>();
  const float* im = sine.const_data_ptr<float>();
  for (int64_t row = 0; row < frames; ++row)
    for (int64_t bin = 0; bin < kBins; ++bin) {
      *z++ = re[row * kPairs + bin];
      *z++ = im[row * kPairs + bin];
    }
}

}  // namespace

NoiseSource counter_noise(uint64_t seed) {
  return [seed](int64_t sentence, int64_t first_frame, int64_t frames, float* z) {
    fill(seed, sentence, first_frame, frames, z);
  };
}

}  // namespace omnistage::hibari
