// PulseTrain: F0 curve -> excitation signal at 24 kHz, as a stream. Each pulse is the band-limited
// sum of all harmonics below 11 kHz; where F0 is below 40 Hz the signal is zero.
//
// F0 is interpolated between frame centres, so the second half of a frame waits for the next
// frame's value. The phase is a running sum in double precision and is carried over pushes: the
// same frames give the same bits, however they are cut. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace omnistage::hibari {

class PulseTrain {
 public:
  // Appends to `samples` what has become computable: after n frames 300 n - 150 samples exist,
  // after the last one 300 n. Values that are not finite count as unvoiced.
  void push(const float* f0, int64_t frames, int64_t stride, bool last,
            std::vector<float>& samples);

 private:
  void segment(float from, float to, bool rising, std::vector<float>& samples);

  bool started_ = false;
  float previous_ = 0.0f;
  double phase_sum_ = 0.0;  // sum of the frequencies of all samples, Hz
};

}  // namespace omnistage::hibari
