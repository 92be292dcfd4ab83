#include "stage_proc/models/hibari/sentence_stream.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "stage_proc/models/hibari/guarded.h"

namespace omnistage::hibari {

SentenceStreamImpl::SentenceStreamImpl(std::shared_ptr<const AcousticWeights> weights,
                                       at::Tensor text_rows, at::Tensor prosody_rows,
                                       std::vector<int64_t> durations)
    : weights_(std::move(weights)),
      text_rows_(std::move(text_rows)),
      prosody_rows_(std::move(prosody_rows)),
      durations_(std::move(durations)),
      prosody_(weights_->prosody),
      decoder_in_(weights_->decoder_in, 7, AcousticWeights::kDecoderInput),
      decoder_(weights_->decoder) {
  for (size_t i = 0; i < durations_.size(); ++i)
    token_of_unit_.insert(token_of_unit_.end(), static_cast<size_t>(durations_[i]),
                          static_cast<int64_t>(i));
  hidden_ = at::empty({0, AcousticWeights::kDecoderChannels}, at::kFloat);
}

Status SentenceStreamImpl::next(int64_t count, float* rows) {
  if (count < 1 || count > frames() - position_)
    return invalid("acoustic model: " + std::to_string(count) + " frames asked for, " +
                   std::to_string(frames() - position_) + " are left");
  return guarded("acoustic model", [&]() -> Status {
    const int64_t needed = std::min(frames(), position_ + count + kDecoderReach);
    advance_prosody((needed + 1) / 2);
    advance_decoder(needed);
    write_head(count, rows);
    position_ += count;
    return {};
  });
}

void SentenceStreamImpl::advance_prosody(int64_t target) {
  const int64_t to = std::min(units(), target + kProsodyReach);
  if (to <= units_pushed_) return;
  const at::Tensor index =
      at::from_blob(token_of_unit_.data() + units_pushed_, {to - units_pushed_}, at::kLong);
  const at::Tensor rows = linear(weights_->prosody_in, prosody_rows_.index_select(0, index));
  const at::Tensor hidden = prosody_.push(rows, to == units());
  units_pushed_ = to;
  if (hidden.size(0) == 0) return;
  // Four channels: F0 of the unit's two frames, then energy of both.
  const at::Tensor curves = linear(weights_->prosody_out, hidden).contiguous();
  const float* value = curves.const_data_ptr<float>();
  for (int64_t i = 0; i < curves.size(0); ++i, value += 4) {
    f0_.insert(f0_.end(), {value[0] * 100.0f, value[1] * 100.0f});
    energy_.insert(energy_.end(), {value[2] * 5.0f, value[3] * 5.0f});
  }
}

at::Tensor SentenceStreamImpl::decoder_rows(int64_t from, int64_t to) const {
  constexpr int64_t kWidth = AcousticWeights::kDecoderInput;
  constexpr int64_t kText = AcousticWeights::kTextChannels;
  at::Tensor rows = at::empty({to - from, kWidth}, at::kFloat);
  float* out = rows.mutable_data_ptr<float>();
  const float* text = text_rows_.const_data_ptr<float>();
  for (int64_t frame = from; frame < to; ++frame, out += kWidth) {
    const auto i = static_cast<size_t>(frame);
    std::copy_n(text + token_of_unit_[i / 2] * kText, kText, out);
    out[kText] = std::log(1.0f + std::max(f0_[i], 0.0f)) / 5.0f;
    out[kText + 1] = energy_[i] / 5.0f;
  }
  return rows;
}

void SentenceStreamImpl::advance_decoder(int64_t to) {
  if (to <= frames_pushed_) return;
  const bool last = to == frames();
  const at::Tensor rows = decoder_in_.push(decoder_rows(frames_pushed_, to), last);
  const at::Tensor out = decoder_.push(rows, last);
  frames_pushed_ = to;
  if (out.size(0) > 0) hidden_ = hidden_.size(0) > 0 ? at::cat({hidden_, out}) : out;
}

void SentenceStreamImpl::write_head(int64_t count, float* rows) {
  TORCH_CHECK(hidden_.size(0) >= count, "decoder is behind: ", hidden_.size(0), " rows of ", count);
  const at::Tensor normed =
      at::layer_norm(hidden_.narrow(0, 0, count), {AcousticWeights::kDecoderChannels},
                     weights_->decoder_norm.weight, weights_->decoder_norm.bias, 1e-5);
  const at::Tensor input = normed.contiguous();
  linear_into(weights_->head, input.const_data_ptr<float>(), weights_->head.in, count, rows,
              kFrameValues, false);
  for (int64_t i = 0; i < count; ++i)
    rows[i * kFrameValues + kSpectrumValues] = f0_[static_cast<size_t>(position_ + i)];
  hidden_ = hidden_.narrow(0, count, hidden_.size(0) - count).clone();
}

}  // namespace omnistage::hibari
