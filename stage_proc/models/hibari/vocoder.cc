#include "stage_proc/models/hibari/vocoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "stage_proc/models/hibari/guarded.h"
#include "stage_proc/models/hibari/pulse_train.h"

namespace omnistage::hibari {
namespace {

constexpr int64_t kOverlap = kWindow / kHop;  // frames that touch one block of 300 samples
constexpr int64_t kCentre = kWindow / 2;
constexpr int64_t kLookAhead = 5;
constexpr float kMagnitudeLogMax = 7.0f;

// Kept until the process ends: tensors must not die after the library that made them.
struct Windows {
  at::Tensor analysis;   // divided so that a unit cosine has magnitude 1 in the spectrum
  at::Tensor synthesis;  // periodic Hann
  std::array<float, kWindow> squared;
};

const Windows& hann() {
  static const Windows& windows = *[] {
    auto* w = new Windows;
    w->synthesis = at::empty({kWindow}, at::kFloat);
    float* value = w->synthesis.mutable_data_ptr<float>();
    for (int64_t i = 0; i < kWindow; ++i) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / kWindow;
      value[i] = static_cast<float>(0.5 - 0.5 * std::cos(angle));
      w->squared[static_cast<size_t>(i)] = value[i] * value[i];
    }
    w->analysis = at::div(w->synthesis, kWindow / 4);
    return w;
  }();
  return windows;
}

// Index into a signal of `length` samples, mirrored at both ends without repeating them.
int64_t mirrored(int64_t index, int64_t length) {
  if (length == 1) return 0;
  const int64_t period = 2 * (length - 1);
  index %= period;
  if (index < 0) index += period;
  return index < length ? index : period - index;
}

}  // namespace

// Blocks are 300 samples. Block b, counted from 600 samples before the sentence, gets a quarter of
// each of the frames b - 3 .. b; block b + 2 is block b of the audio.
struct VocoderStream::State {
  NoiseSource noise;
  int64_t sentence = 0;
  PulseTrain pulse_train;
  bool finished = false;
  int64_t taken = 0;           // frames that came in
  int64_t spectra = 0;         // frames that went through the inverse transform
  std::vector<float> pulses;   // the part that later windows need
  int64_t pulses_begin = 0;    // absolute index of pulses[0]
  at::Tensor filter, residue;  // complex [pending, kBins]: factor of the pulses, and the rest
  std::array<float, (kOverlap - 1) * kHop> tail{};  // unfinished sums of blocks spectra, + 1, + 2

  void take(const float* rows, int64_t frames, bool last);
  at::Tensor windowed_pulses(int64_t count) const;
  // Returns the end of what it wrote.
  float* synthesize(float* audio);
  float* overlap_add(const float* frame, float* audio);
  float* emit_block(int64_t block, const float* sums, const float* more, float* audio) const;
  void forget_pulses();
};

// Everything that does not depend on the pulses is computed on arrival, so that nobody has to keep
// the rows.
void VocoderStream::State::take(const float* rows, int64_t frames, bool last) {
  pulse_train.push(rows + kSpectrumValues, frames, kFrameValues, last, pulses);
  if (frames == 0) return;
  const at::Tensor all =
      at::from_blob(const_cast<float*>(rows), {frames, kFrameValues}, at::kFloat);
  const auto part = [&](int64_t i) { return all.narrow(1, i * kBins, kBins); };
  const auto magnitude = [&](int64_t i) {
    return at::clamp_max(part(i), kMagnitudeLogMax).exp_().contiguous();
  };
  const at::Tensor harmonic = magnitude(0), noisy = magnitude(2), free = magnitude(3);
  const at::Tensor angle = at::tanh(part(1)).mul_(std::numbers::pi_v<float>).contiguous();
  const at::Tensor phi = part(4).contiguous();
  const at::Tensor angle_cos = at::cos(angle), angle_sin = at::sin(angle);
  const at::Tensor phi_cos = at::cos(phi), phi_sin = at::sin(phi);

  at::Tensor factor = at::empty({frames, kBins, 2}, at::kFloat);
  at::Tensor rest = at::empty({frames, kBins, 2}, at::kFloat);
  float* f = factor.mutable_data_ptr<float>();
  float* r = rest.mutable_data_ptr<float>();
  noise(sentence, taken, frames, r);
  const float *h = harmonic.const_data_ptr<float>(), *n = noisy.const_data_ptr<float>(),
              *m = free.const_data_ptr<float>(), *ac = angle_cos.const_data_ptr<float>(),
              *as = angle_sin.const_data_ptr<float>(), *pc = phi_cos.const_data_ptr<float>(),
              *ps = phi_sin.const_data_ptr<float>();
  for (int64_t i = 0; i < frames * kBins; ++i) {
    f[2 * i] = h[i] * ac[i];
    f[2 * i + 1] = h[i] * as[i];
    r[2 * i] = n[i] * r[2 * i] + m[i] * pc[i];
    r[2 * i + 1] = n[i] * r[2 * i + 1] + m[i] * ps[i];
  }
  factor = at::view_as_complex(factor);
  rest = at::view_as_complex(rest);
  const bool pending = filter.defined() && filter.size(0) > 0;
  filter = pending ? at::cat({filter, factor}) : factor;
  residue = pending ? at::cat({residue, rest}) : rest;
}

// The windowed pulses around the next `count` frame centres, [count, kWindow].
at::Tensor VocoderStream::State::windowed_pulses(int64_t count) const {
  at::Tensor out = at::empty({count, kWindow}, at::kFloat);
  float* value = out.mutable_data_ptr<float>();
  const float* weight = hann().analysis.const_data_ptr<float>();
  const int64_t length = taken * kHop;  // the true end, once it is known
  for (int64_t row = 0; row < count; ++row, value += kWindow) {
    const int64_t first = (spectra + row) * kHop - kCentre;
    if (first >= 0 && (!finished || first + kWindow <= length)) {
      const float* source = pulses.data() + (first - pulses_begin);
      for (int64_t i = 0; i < kWindow; ++i) value[i] = source[i] * weight[i];
      continue;
    }
    for (int64_t i = 0; i < kWindow; ++i) {
      const int64_t at = finished ? mirrored(first + i, length) : std::abs(first + i);
      value[i] = pulses[static_cast<size_t>(at - pulses_begin)] * weight[i];
    }
  }
  return out;
}

float* VocoderStream::State::synthesize(float* audio) {
  const int64_t count = (finished ? taken : std::max<int64_t>(0, taken - 3)) - spectra;
  if (count > 0) {
    at::Tensor spectrum = at::fft_rfft(windowed_pulses(count));
    spectrum.mul_(filter.narrow(0, 0, count)).add_(residue.narrow(0, 0, count));
    const at::Tensor frames = at::fft_irfft(spectrum, kWindow).mul_(hann().synthesis).contiguous();
    const float* frame = frames.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) audio = overlap_add(frame + i * kWindow, audio);
    const int64_t left = filter.size(0) - count;
    filter = filter.narrow(0, count, left).clone();
    residue = residue.narrow(0, count, left).clone();
  }
  if (finished) {
    // Two blocks still wait for frames that do not exist.
    for (int64_t i = 0; i < 2; ++i)
      if (spectra + i >= 2) audio = emit_block(spectra + i, tail.data() + i * kHop, nullptr, audio);
  }
  forget_pulses();
  return audio;
}

float* VocoderStream::State::overlap_add(const float* frame, float* audio) {
  const int64_t block = spectra++;
  if (block >= 2) audio = emit_block(block, tail.data(), frame, audio);
  for (int64_t i = 0; i < 2 * kHop; ++i)
    tail[static_cast<size_t>(i)] = tail[static_cast<size_t>(i + kHop)] + frame[i + kHop];
  std::copy_n(frame + 3 * kHop, kHop, tail.data() + 2 * kHop);
  return audio;
}

// Divides by the sum of the squared windows of the frames that exist around `block`.
float* VocoderStream::State::emit_block(int64_t block, const float* sums, const float* more,
                                        float* audio) const {
  const int64_t first = std::max<int64_t>(0, block - (kOverlap - 1));
  const int64_t last = std::min(block, spectra - 1);
  for (int64_t i = 0; i < kHop; ++i) {
    float weight = 0.0f;
    for (int64_t k = first; k <= last; ++k)
      weight += hann().squared[static_cast<size_t>((block - k) * kHop + i)];
    const float sum = more != nullptr ? sums[i] + more[i] : sums[i];
    audio[i] = sum / std::max(weight, 1e-11f);
  }
  return audio + kHop;
}

void VocoderStream::State::forget_pulses() {
  const int64_t needed = spectra * kHop - kCentre;  // the reflection at the start reads forward
  if (spectra <= 2 || needed <= pulses_begin) return;
  pulses.erase(pulses.begin(), pulses.begin() + (needed - pulses_begin));
  pulses_begin = needed;
}

VocoderStream::VocoderStream(NoiseSource noise, int64_t sentence)
    : state_(std::make_unique<State>()) {
  state_->noise = std::move(noise);
  state_->sentence = sentence;
}

VocoderStream::~VocoderStream() = default;
VocoderStream::VocoderStream(VocoderStream&&) noexcept = default;
VocoderStream& VocoderStream::operator=(VocoderStream&&) noexcept = default;

int64_t VocoderStream::frames() const {
  return state_->taken;
}

int64_t VocoderStream::samples_after(int64_t frames, bool last) const {
  const auto blocks = [](int64_t n, bool all) {
    return all ? n : std::max<int64_t>(0, n - kLookAhead);
  };
  return kHop * (blocks(state_->taken + frames, last) - blocks(state_->taken, state_->finished));
}

Status VocoderStream::push(const float* rows, int64_t frames, bool last, float* audio) {
  if (state_->finished) return invalid("vocoder: frames after the end of the sentence");
  if (frames < 0 || frames > kChunkFramesMax)
    return invalid("vocoder: a push has 0 to " + std::to_string(kChunkFramesMax) + " frames, got " +
                   std::to_string(frames));
  return guarded("vocoder", [&]() -> Status {
    const int64_t samples = samples_after(frames, last);
    state_->take(rows, frames, last);
    state_->taken += frames;
    state_->finished = last;
    const float* end = state_->synthesize(audio);
    TORCH_CHECK(end - audio == samples, "wrote ", end - audio, " samples instead of ", samples);
    return {};
  });
}

}  // namespace omnistage::hibari
