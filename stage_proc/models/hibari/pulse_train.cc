#include "stage_proc/models/hibari/pulse_train.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <numbers>

#include "stage_proc/models/hibari/frame_format.h"

namespace omnistage::hibari {
namespace {

constexpr int64_t kHalf = kHop / 2;
constexpr float kVoicedAbove = 40.0f;
constexpr float kHighest = 11000.0f;
// Below this |2 sin(t / 2)| the closed form is replaced by its limit.
constexpr float kSmallSine = 2e-3f;

// Weight of the later frame at each sample of a frame: sample j lies at (j + 0.5) / 300 - 0.5 from
// the centre, taken modulo 1.
const std::array<float, kHop>& later_weights() {
  static const std::array<float, kHop> weights = [] {
    std::array<float, kHop> w{};
    for (int64_t j = 0; j < kHop; ++j) {
      double position = (static_cast<double>(j) + 0.5) / kHop - 0.5;
      if (position < 0) position += 1.0;
      w[static_cast<size_t>(j)] = static_cast<float>(position);
    }
    return w;
  }();
  return weights;
}

}  // namespace

// Half a frame between two F0 values; `rising` marks the first half of a frame (which ends at its
// centre).
void PulseTrain::segment(float from, float to, bool rising, std::vector<float>& samples) {
  const float* weight = later_weights().data() + (rising ? 0 : kHalf);
  for (int64_t j = 0; j < kHalf; ++j) {
    const float a = from * (1.0f - weight[j]);
    const float b = to * weight[j];
    samples.push_back(a + b);
  }
}

void PulseTrain::push(const float* f0, int64_t frames, int64_t stride, bool last,
                      std::vector<float>& samples) {
  const size_t begin = samples.size();
  for (int64_t i = 0; i < frames; ++i) {
    const float value = std::isfinite(f0[i * stride]) ? f0[i * stride] : 0.0f;
    if (started_) segment(previous_, value, false, samples);
    segment(started_ ? previous_ : value, value, true, samples);
    previous_ = value;
    started_ = true;
  }
  if (last && started_) segment(previous_, previous_, false, samples);

  const auto count = static_cast<int64_t>(samples.size() - begin);
  if (count == 0) return;
  at::Tensor half_phase = at::empty({count}, at::kFloat),
             harmonics = at::empty({count}, at::kFloat),
             order_phase = at::empty({count}, at::kFloat);
  float* t = half_phase.mutable_data_ptr<float>();
  float* h = harmonics.mutable_data_ptr<float>();
  float* ht = order_phase.mutable_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const float f = std::max(samples[begin + static_cast<size_t>(i)], kVoicedAbove);
    phase_sum_ += f;
    const double turns = phase_sum_ * (1.0 / kSampleRate);
    const auto phase = static_cast<float>((turns - std::floor(turns)) * (2.0 * std::numbers::pi));
    h[i] = std::floor(kHighest / f) + 0.5f;
    t[i] = phase * 0.5f;
    ht[i] = h[i] * phase;
  }
  half_phase.sin_();
  order_phase.sin_();
  for (int64_t i = 0; i < count; ++i) {
    float& sample = samples[begin + static_cast<size_t>(i)];
    const float s = 2.0f * t[i];
    const float value = std::fabs(s) <= kSmallSine ? h[i] : ht[i] / s;
    sample = sample > kVoicedAbove ? value - 0.5f : 0.0f;
  }
}

}  // namespace omnistage::hibari
