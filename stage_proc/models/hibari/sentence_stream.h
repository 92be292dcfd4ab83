// The streaming half of the acoustic model: prosody and decoder of one sentence.
//
// Reach: a decoder frame depends on 27 frames on each side, a prosody unit on 54 units. The streams
// below keep what they need of the past; only the look-ahead is computed early.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "stage_proc/models/hibari/acoustic_model.h"
#include "stage_proc/models/hibari/acoustic_weights.h"
#include "stage_proc/models/hibari/conv_stream.h"

namespace omnistage::hibari {

class SentenceStreamImpl final : public SentenceStream {
 public:
  static constexpr int64_t kDecoderReach = 27;  // frames
  static constexpr int64_t kProsodyReach = 54;  // units

  // text_rows [L, 128], prosody_rows [L, 192], one duration >= 1 per row.
  SentenceStreamImpl(std::shared_ptr<const AcousticWeights> weights, at::Tensor text_rows,
                     at::Tensor prosody_rows, std::vector<int64_t> durations);

  int64_t frames() const override { return 2 * units(); }
  int64_t position() const override { return position_; }
  std::span<const int64_t> durations() const override { return durations_; }
  Status next(int64_t count, float* rows) override;

 private:
  int64_t units() const { return static_cast<int64_t>(token_of_unit_.size()); }
  // Makes F0 and energy of at least the first `units` units.
  void advance_prosody(int64_t units);
  // Feeds the decoder the frames before `frames`.
  void advance_decoder(int64_t frames);
  at::Tensor decoder_rows(int64_t from, int64_t to) const;
  void write_head(int64_t count, float* rows);

  std::shared_ptr<const AcousticWeights> weights_;
  at::Tensor text_rows_, prosody_rows_;
  std::vector<int64_t> durations_;
  std::vector<int64_t> token_of_unit_;
  ConvStackStream prosody_;
  DenseConvStream decoder_in_;
  ConvStackStream decoder_;
  int64_t units_pushed_ = 0;
  int64_t frames_pushed_ = 0;
  int64_t position_ = 0;
  std::vector<float> f0_;      // Hz, per frame, as far as known
  std::vector<float> energy_;  // network scale
  at::Tensor hidden_;          // decoder rows that the head has not seen yet
};

}  // namespace omnistage::hibari
