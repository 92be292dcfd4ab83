#include "stage_proc/models/hibari/acoustic_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "stage_proc/models/hibari/acoustic_weights.h"
#include "stage_proc/models/hibari/guarded.h"
#include "stage_proc/models/hibari/sentence_stream.h"

namespace omnistage::hibari {
namespace {

at::Tensor normalise(const NormWeights& norm, const at::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, 1e-5);
}

// Two heads, no mask and no positions: order is known from the convolutions before.
at::Tensor attend(const TextEncoderWeights& w, const at::Tensor& x) {
  constexpr int64_t kHeads = 2;
  const int64_t length = x.size(0), width = x.size(1);
  const at::Tensor packed = linear(w.in_proj, normalise(w.norm1, x))
                                .view({length, 3, kHeads, width / kHeads})
                                .permute({1, 2, 0, 3})
                                .unsqueeze(1);  // [3, 1, heads, L, width / heads]
  const at::Tensor mixed = at::scaled_dot_product_attention(packed[0], packed[1], packed[2]);
  return linear(w.out_proj, mixed[0].transpose(0, 1).reshape({length, width}));
}

// [L] ids -> [L, D]
at::Tensor encode_text(const TextEncoderWeights& w, const at::Tensor& ids) {
  at::Tensor x = w.embedding.index_select(0, ids);
  for (const BlockWeights& block : w.blocks) x = ConvBlockStream(block).push(x, true);
  for (int64_t turn = 0; turn < w.turns; ++turn) {
    x = x + attend(w, x);
    at::Tensor hidden = linear(w.linear1, normalise(w.norm2, x));
    at::gelu_(hidden);
    x = x + linear(w.linear2, hidden);
  }
  return normalise(w.final_norm, x).contiguous();
}

class AcousticModelImpl final : public AcousticModel {
 public:
  explicit AcousticModelImpl(AcousticWeights weights)
      : weights_(std::make_shared<const AcousticWeights>(std::move(weights))) {}

  Result<std::unique_ptr<SentenceStream>> start(std::span<const int64_t> ids,
                                                double speed) const override;

 private:
  std::vector<int64_t> durations(const at::Tensor& prosody_rows, double speed) const;

  std::shared_ptr<const AcousticWeights> weights_;
};

std::vector<int64_t> AcousticModelImpl::durations(const at::Tensor& prosody_rows,
                                                  double speed) const {
  DenseConvStream conv(weights_->duration_hidden, 3, AcousticWeights::kProsodyChannels);
  at::Tensor hidden = conv.push(prosody_rows, true);
  at::gelu_(hidden);
  const at::Tensor out = linear(weights_->duration_out, hidden).contiguous();
  const float* value = out.const_data_ptr<float>();
  std::vector<int64_t> units(static_cast<size_t>(out.size(0)));
  for (size_t i = 0; i < units.size(); ++i) {
    // Half to even, as the default rounding mode does; NaN becomes the minimum.
    const float exact = std::nearbyint((std::exp(value[i]) - 1.0f) / static_cast<float>(speed));
    const float limit = static_cast<float>(kUnitsPerIdMax);
    units[i] = exact >= 1.0f ? static_cast<int64_t>(std::min(exact, limit)) : 1;
  }
  return units;
}

Result<std::unique_ptr<SentenceStream>> AcousticModelImpl::start(std::span<const int64_t> ids,
                                                                 double speed) const {
  if (ids.empty() || ids.size() > kIdsMax)
    return invalid("acoustic model: a sentence has 1 to " + std::to_string(kIdsMax) +
                   " phoneme ids, got " + std::to_string(ids.size()));
  for (int64_t id : ids)
    if (id < 0 || id >= AcousticWeights::kSymbols)
      return invalid("acoustic model: phoneme id " + std::to_string(id) + " is not in 0.." +
                     std::to_string(AcousticWeights::kSymbols - 1));
  if (!(speed >= kSpeedMin && speed <= kSpeedMax))
    return invalid("acoustic model: speed must be in 0.5..2.0, got " + std::to_string(speed));
  return guarded("acoustic model", [&]() -> Result<std::unique_ptr<SentenceStream>> {
    at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
    std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<int64_t>());
    at::Tensor text_rows = encode_text(weights_->text, index);
    at::Tensor prosody_rows = encode_text(weights_->prosody_text, index);
    std::vector<int64_t> units = durations(prosody_rows, speed);
    return std::unique_ptr<SentenceStream>(std::make_unique<SentenceStreamImpl>(
        weights_, std::move(text_rows), std::move(prosody_rows), std::move(units)));
  });
}

}  // namespace

Result<std::shared_ptr<const AcousticModel>> AcousticModel::load(const std::string& model_dir) {
  return guarded("acoustic model", [&]() -> Result<std::shared_ptr<const AcousticModel>> {
    OMS_ASSIGN_OR_RETURN(AcousticWeights weights,
                         AcousticWeights::load(model_dir + "/hibari.safetensors"));
    return std::shared_ptr<const AcousticModel>(
        std::make_shared<AcousticModelImpl>(std::move(weights)));
  });
}

}  // namespace omnistage::hibari
