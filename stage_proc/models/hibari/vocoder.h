// VocoderStream: frames of one sentence -> waveform at 24 kHz, as a stream. A pulse train made from
// F0 is filtered frame by frame in the short-time spectrum, noise and a free-phase part are added,
// and the frames are overlap-added:
//   S = STFT(pulses) e^{lh} e^{i pi tanh theta} + e^{ln} Z + e^{lr} e^{i phi}
// with 1200 samples a window, a hop of 300 and reflection at the true ends of the sentence.
//
// After n frames (not yet the last) max(0, n - 5) * 300 samples are out: two frames of look-ahead
// for the window, two for the overlap, one for the interpolation of F0. After the last frame n *
// 300 are out. The result is the same for every split, within rounding. Z comes from a NoiseSource
// and is a function of the frame number. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/frame_format.h"
#include "stage_proc/models/hibari/noise.h"

namespace omnistage::hibari {

class VocoderStream {
 public:
  // `sentence` is handed on to the noise source.
  VocoderStream(NoiseSource noise, int64_t sentence);
  ~VocoderStream();
  VocoderStream(VocoderStream&&) noexcept;
  VocoderStream& operator=(VocoderStream&&) noexcept;

  // Samples that push(frames, last) is going to make.
  int64_t samples_after(int64_t frames, bool last) const;
  // `rows`: frames x kFrameValues floats, read during the call only. Writes exactly
  // samples_after(...) samples to `audio`. `last` ends the sentence (frames may then be 0); a push
  // after it is INVALID.
  Status push(const float* rows, int64_t frames, bool last, float* audio);
  int64_t frames() const;  // taken so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace omnistage::hibari
