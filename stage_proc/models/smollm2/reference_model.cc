#include "stage_proc/models/smollm2/reference_model.h"

#include <algorithm>
#include <cmath>

namespace omnistage::models::smollm2 {
namespace {

constexpr int kLanes = 16;
constexpr int kRowBlock = 4;

// y[row][0..16) of `rows` rows for one tile. Sums run over k in order, one accumulator an output.
template <int kRows>
void tile(const float* w, int32_t k, const float* x, float* y, int64_t y_stride) {
  float acc[kRows][kLanes] = {};
  for (int32_t i = 0; i < k; ++i, w += kLanes) {
    for (int r = 0; r < kRows; ++r) {
      const float value = x[int64_t{r} * k + i];
      for (int n = 0; n < kLanes; ++n) acc[r][n] += value * w[n];
    }
  }
  for (int r = 0; r < kRows; ++r) std::copy_n(acc[r], kLanes, y + r * y_stride);
}

}  // namespace

ReferenceModel::ReferenceModel(const ModelConfig& config, ChatText text, FloatWeights weights,
                               std::unique_ptr<kernels::WorkerPool> pool)
    : BaseModel(config, std::move(text)), weights_(std::move(weights)), pool_(std::move(pool)) {
  const size_t rows = kPassRows;
  for (auto* v : {&x_, &normed_, &delta_}) v->resize(rows * config.embed);
  for (auto* v : {&q_, &mixed_}) v->resize(rows * config.q_width());
  for (auto* v : {&k_, &v_}) v->resize(rows * config.kv_width());
  for (auto* v : {&gate_, &up_}) v->resize(rows * config.hidden);
  scores_.resize(static_cast<size_t>(config.context));
}

Status ReferenceModel::allocate_kv() {
  const uint64_t floats = info().kv_bytes_per_token / sizeof(float) *
                          static_cast<uint64_t>(num_blocks()) * static_cast<uint64_t>(block_size());
  if (floats > kv_.max_size() / 2) {
    return Status(StatusCode::kNoMemory, "KV cache: the size overflows");
  }
  try {
    kv_.resize(floats);
  } catch (const std::exception&) {
    return Status(StatusCode::kNoMemory,
                  "KV cache: cannot allocate " + std::to_string(floats * sizeof(float)) + " bytes");
  }
  return Status::ok_status();
}

float* ReferenceModel::slot(int32_t layer, const Row& row, int32_t position) {
  const int64_t block = int64_t{layer} * num_blocks() + row.table[position / block_size()];
  return kv_.data() + (block * block_size() + position % block_size()) * 2 * config().kv_width();
}

void ReferenceModel::linear(const FloatMatrix& w, const std::vector<float>& x, int32_t rows,
                            float* y) {
  pool_->split(w.n / kLanes, [&](int32_t begin, int32_t end, int32_t) {
    for (int32_t t = begin; t < end; ++t) {
      const float* weights = w.tiles.data() + int64_t{t} * kLanes * w.k;
      float* out = y + int64_t{t} * kLanes;
      int32_t r = 0;
      for (; r + kRowBlock <= rows; r += kRowBlock) {
        tile<kRowBlock>(weights, w.k, x.data() + int64_t{r} * w.k, out + int64_t{r} * w.n, w.n);
      }
      for (; r < rows; ++r) {
        tile<1>(weights, w.k, x.data() + int64_t{r} * w.k, out + int64_t{r} * w.n, w.n);
      }
    }
  });
}

void ReferenceModel::norm(const std::vector<float>& x, const std::vector<float>& weight,
                          int32_t rows, std::vector<float>* out) {
  const size_t width = weight.size();
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += double{x[r * width + i]} * x[r * width + i];
    const float scale = static_cast<float>(
        1.0 / std::sqrt(squares / static_cast<double>(width) + double{config().norm_eps}));
    for (size_t i = 0; i < width; ++i) (*out)[r * width + i] = x[r * width + i] * scale * weight[i];
  }
}

void ReferenceModel::rotate(float* x, int32_t heads, int32_t position) {
  const int32_t dim = config().head_dim;
  for (int32_t i = 0; i < dim; i += 2) {
    const double angle = position * std::pow(config().rope_base, -double(i) / dim);
    const float c = static_cast<float>(std::cos(angle));
    const float s = static_cast<float>(std::sin(angle));
    for (int32_t h = 0; h < heads; ++h) {
      float* pair = x + int64_t{h} * dim + i;
      const float a = pair[0];
      const float b = pair[1];
      pair[0] = a * c - b * s;
      pair[1] = a * s + b * c;
    }
  }
}

// One query head of one row over all its positions.
void ReferenceModel::attend(const Row& row, int32_t layer, const float* q, float* out) {
  const ModelConfig& c = config();
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  for (int32_t h = 0; h < c.heads; ++h, q += c.head_dim, out += c.head_dim) {
    const int64_t at = int64_t{h / c.group_heads()} * c.head_dim;
    float top = -INFINITY;
    for (int32_t p = 0; p <= row.position; ++p) {
      const float* key = slot(layer, row, p) + at;
      float dot = 0;
      for (int32_t d = 0; d < c.head_dim; ++d) dot += q[d] * key[d];
      scores_[static_cast<size_t>(p)] = dot * scale;
      top = std::max(top, dot * scale);
    }
    float total = 0;
    std::fill_n(out, c.head_dim, 0.0f);
    for (int32_t p = 0; p <= row.position; ++p) {
      const float weight = std::exp(scores_[static_cast<size_t>(p)] - top);
      const float* value = slot(layer, row, p) + c.kv_width() + at;
      total += weight;
      for (int32_t d = 0; d < c.head_dim; ++d) out[d] += weight * value[d];
    }
    for (int32_t d = 0; d < c.head_dim; ++d) out[d] /= total;
  }
}

void ReferenceModel::run_layer(std::span<const Row> rows, int32_t layer) {
  const ModelConfig& c = config();
  const FloatLayer& w = weights_.layers[static_cast<size_t>(layer)];
  const int32_t count = static_cast<int32_t>(rows.size());
  norm(x_, w.attn_norm, count, &normed_);
  linear(w.q, normed_, count, q_.data());
  linear(w.k, normed_, count, k_.data());
  linear(w.v, normed_, count, v_.data());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    rotate(q_.data() + r * c.q_width(), c.heads, row.position);
    rotate(k_.data() + r * c.kv_width(), c.kv_heads, row.position);
    float* to = slot(layer, row, row.position);
    std::copy_n(k_.data() + r * c.kv_width(), c.kv_width(), to);
    std::copy_n(v_.data() + r * c.kv_width(), c.kv_width(), to + c.kv_width());
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    attend(rows[r], layer, q_.data() + r * c.q_width(), mixed_.data() + r * c.q_width());
  }
  linear(w.out, mixed_, count, delta_.data());
  const size_t stream = rows.size() * static_cast<size_t>(c.embed);
  for (size_t i = 0; i < stream; ++i) x_[i] += delta_[i];
  norm(x_, w.ffn_norm, count, &normed_);
  linear(w.gate, normed_, count, gate_.data());
  linear(w.up, normed_, count, up_.data());
  const size_t hidden = rows.size() * static_cast<size_t>(c.hidden);
  for (size_t i = 0; i < hidden; ++i) {
    gate_[i] = gate_[i] / (1.0f + std::exp(-gate_[i])) * up_[i];
  }
  linear(w.down, gate_, count, delta_.data());
  for (size_t i = 0; i < stream; ++i) x_[i] += delta_[i];
}

void ReferenceModel::run_pass(std::span<const Row> rows) {
  const size_t width = static_cast<size_t>(config().embed);
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t token = static_cast<size_t>(rows[r].token);
    const float* from = weights_.embedding.tiles.data() + token / kLanes * kLanes * width;
    for (size_t i = 0; i < width; ++i) x_[r * width + i] = from[i * kLanes + token % kLanes];
  }
  for (int32_t i = 0; i < config().layers; ++i) run_layer(rows, i);
  norm(x_, weights_.final_norm, static_cast<int32_t>(rows.size()), &normed_);
  // Only the wanted rows, moved together; their logits lie behind each other.
  int32_t wanted = 0;
  float* out = nullptr;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].logits == nullptr) continue;
    if (out == nullptr) out = rows[r].logits;
    std::copy_n(normed_.data() + r * width, width,
                normed_.data() + static_cast<size_t>(wanted++) * width);
  }
  if (wanted > 0) linear(weights_.embedding, normed_, wanted, out);
}

}  // namespace omnistage::models::smollm2
