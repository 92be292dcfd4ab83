#include "stage_proc/models/smollm2/quant_model.h"

#include <algorithm>
#include <cmath>

namespace omnistage::models::smollm2 {

using kernels::kGroup;
using kernels::kTileRows;
using kernels::QuantRows;

namespace {

constexpr int32_t kGateTiles = 4;                       // tiles behind one group of the gated layer
constexpr int32_t kGateWidth = kGateTiles * kTileRows;  // floats a row

constexpr int32_t kNoTile = INT32_MAX;

// Groups of row `row` from `group` on, as a row of its own.
QuantRows group_of(const QuantRows& x, int64_t row, int32_t group, int32_t groups = 1) {
  QuantRows g = x.from_row(row);
  return {groups * kGroup, g.q + int64_t{group} * kGroup, g.scale + group, g.scaled_sum + group,
          g.sum + group};
}

}  // namespace

void QuantModel::QuantScratch::resize(int32_t rows, int32_t width) {
  k = width;
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(width);
  q.resize(count);
  scale.resize(count / kGroup);
  scaled_sum.resize(count / kGroup);
  sum.resize(count / kGroup);
}

QuantModel::QuantModel(const ModelConfig& config, ChatText text, QuantWeights weights,
                       std::unique_ptr<kernels::WorkerPool> pool,
                       const kernels::KernelTable& kernels)
    : BaseModel(config, std::move(text)),
      weights_(std::move(weights)),
      pool_(std::move(pool)),
      kernels_(kernels),
      rope_(config.context, config.head_dim, config.rope_base) {
  x_.resize(static_cast<size_t>(kPassRows) * config.embed);
  qkv_.resize(static_cast<size_t>(kPassRows) * config.qkv_width());
  narrow_.resize(kPassRows, config.embed);
  mixed_.resize(kPassRows, config.q_width());
  wide_.resize(kPassRows, config.hidden);
  wanted_.reserve(kPassRows);
  workers_.resize(static_cast<size_t>(pool_->size()));
  for (WorkerScratch& worker : workers_) {
    worker.row.resize(static_cast<size_t>(std::max(config.embed, config.q_width())));
    worker.gate_up.resize(static_cast<size_t>(kPassRows) * kGateWidth);
    worker.attention.resize(
        static_cast<size_t>(kernels::attention_scratch(config.context, config.group_heads())));
  }
}

Status QuantModel::allocate_kv() {
  const ModelConfig& c = config();
  key_stride_ = (block_size() + 15) / 16 * 16;
  key_floats_ = int64_t{c.head_dim} * key_stride_;
  value_floats_ = int64_t{c.head_dim} * block_size();
  block_floats_ = c.kv_heads * (key_floats_ + value_floats_);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(
          static_cast<uint64_t>(block_floats_) * sizeof(float) * static_cast<uint64_t>(c.layers),
          static_cast<uint64_t>(num_blocks()), &bytes)) {
    return Status(StatusCode::kNoMemory, "KV cache: the size overflows");
  }
  OMS_ASSIGN_OR_RETURN(kv_, kernels::PageBuffer::allocate(bytes, "KV cache"));
  return Status::ok_status();
}

float* QuantModel::block(int32_t layer, int32_t block) const {
  return reinterpret_cast<float*>(kv_.data()) +
         (int64_t{layer} * num_blocks() + block) * block_floats_;
}

void QuantModel::embed(std::span<const Row> rows) {
  const int32_t width = config().embed;
  for (size_t i = 0; i < rows.size(); ++i) {
    kernels::unpack_row_q8(weights_.embedding, rows[i].token, x_.data() + i * width);
  }
}

void QuantModel::norm_rows(int32_t rows, const std::vector<float>& weight, bool fine) {
  const ModelConfig& c = config();
  const QuantRows out = narrow_.first.view();
  const QuantRows rest = narrow_.rest.view();
  pool_->split(rows, [&](int32_t begin, int32_t end, int32_t part) {
    float* normed = workers_[static_cast<size_t>(part)].row.data();
    for (int32_t r = begin; r < end; ++r) {
      kernels_.rms_norm(x_.data() + int64_t{r} * c.embed, weight.data(), c.embed, c.norm_eps,
                        normed);
      kernels_.quantize(normed, out.from_row(r));
      if (fine) kernels_.quantize_rest(normed, out.from_row(r), rest.from_row(r));
    }
  });
}

void QuantModel::linear(const kernels::Q4Matrix& w, TwoTerms& x, int32_t rows, float* y, bool add,
                        int32_t fine_from) {
  const QuantRows first = x.first.view();
  const QuantRows rest = x.rest.view();
  pool_->split(w.n / kTileRows, [&](int32_t begin, int32_t end, int32_t) {
    const int32_t plain_end = std::clamp(fine_from, begin, end);
    if (begin < plain_end) {
      kernels_.linear_q4(w, first, rows, begin, plain_end, y + int64_t{begin} * kTileRows, w.n,
                         add);
    }
    for (int32_t t = plain_end; t < end; ++t) {
      float* out = y + int64_t{t} * kTileRows;
      kernels_.linear_q4(w, first, rows, t, t + 1, out, w.n, add);
      kernels_.linear_q4(w, rest, rows, t, t + 1, out, w.n, true);
    }
  });
}

void QuantModel::store_keys(std::span<const Row> rows, int32_t layer) {
  const ModelConfig& c = config();
  pool_->split(static_cast<int32_t>(rows.size()), [&](int32_t begin, int32_t end, int32_t) {
    for (int32_t r = begin; r < end; ++r) {
      const Row& row = rows[static_cast<size_t>(r)];
      float* q = qkv_.data() + int64_t{r} * c.qkv_width();
      kernels_.rope(q, rope_.cos(row.position), rope_.sin(row.position), c.heads + c.kv_heads,
                    c.head_dim);
      const float* k = q + c.q_width();
      const float* v = k + c.kv_width();
      const int32_t slot = row.position % block_size();
      float* keys = block(layer, row.table[row.position / block_size()]);
      float* values = keys + c.kv_heads * key_floats_;
      for (int32_t i = 0; i < c.kv_width(); ++i) keys[int64_t{i} * key_stride_ + slot] = k[i];
      for (int32_t h = 0; h < c.kv_heads; ++h) {
        float* to = values + h * value_floats_ + int64_t{slot} * c.head_dim;
        std::copy_n(v + int64_t{h} * c.head_dim, c.head_dim, to);
      }
    }
  });
}

void QuantModel::attend(std::span<const Row> rows, int32_t layer, bool fine) {
  const ModelConfig& c = config();
  const int32_t count = static_cast<int32_t>(rows.size());
  const int32_t width = c.group_heads() * c.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  const QuantRows out = mixed_.first.view();
  const QuantRows rest = mixed_.rest.view();
  const float* base = block(layer, 0);
  // Rows alternate between the workers: later rows of a prompt are longer.
  pool_->run([&](int32_t part, int32_t parts) {
    WorkerScratch& scratch = workers_[static_cast<size_t>(part)];
    for (int32_t item = part; item < c.kv_heads * count; item += parts) {
      const int32_t head = item / count;
      const int32_t r = item % count;
      const Row& row = rows[static_cast<size_t>(r)];
      const kernels::KvView kv = {base + head * key_floats_,
                                  base + c.kv_heads * key_floats_ + head * value_floats_,
                                  block_floats_,
                                  row.table,
                                  block_size(),
                                  key_stride_,
                                  c.head_dim};
      const float* q = qkv_.data() + int64_t{r} * c.qkv_width() + int64_t{head} * width;
      kernels_.attention(kv, q, c.group_heads(), row.position + 1, scale, scratch.attention.data(),
                         scratch.row.data());
      const int32_t groups = width / kGroup;
      const QuantRows to = group_of(out, r, head * groups, groups);
      kernels_.quantize(scratch.row.data(), to);
      if (!fine) continue;
      kernels_.quantize_rest(scratch.row.data(), to, group_of(rest, r, head * groups, groups));
    }
  });
}

// Gate and up for 32 hidden values of all rows, activated and quantised while still in the cache.
void QuantModel::gate_group(const QuantLayer& layer, int32_t rows, int32_t group, float* scratch) {
  const QuantRows out = wide_.first.view();
  const QuantRows rest = wide_.rest.view();
  const int32_t tile = group * kGateTiles;
  kernels_.linear_q4(layer.gate_up, narrow_.first.view(), rows, tile, tile + kGateTiles, scratch,
                     kGateWidth, false);
  if (layer.fine) {
    kernels_.linear_q4(layer.gate_up, narrow_.rest.view(), rows, tile, tile + kGateTiles, scratch,
                       kGateWidth, true);
  }
  for (int32_t r = 0; r < rows; ++r) {
    float* row = scratch + int64_t{r} * kGateWidth;
    float active[kGroup];
    kernels_.swiglu(row, row + kTileRows, kTileRows, active);
    kernels_.swiglu(row + 2 * kTileRows, row + 3 * kTileRows, kTileRows, active + kTileRows);
    const QuantRows to = group_of(out, r, group);
    kernels_.quantize(active, to);
    if (layer.fine) kernels_.quantize_rest(active, to, group_of(rest, r, group));
  }
}

void QuantModel::feed_forward(const QuantLayer& layer, int32_t rows) {
  norm_rows(rows, layer.ffn_norm, layer.fine);
  pool_->split(config().hidden / kGroup, [&](int32_t begin, int32_t end, int32_t part) {
    float* scratch = workers_[static_cast<size_t>(part)].gate_up.data();
    for (int32_t g = begin; g < end; ++g) gate_group(layer, rows, g, scratch);
  });
  linear(layer.down, wide_, rows, x_.data(), true, layer.fine ? 0 : kNoTile);
}

void QuantModel::write_logits(std::span<const Row> rows) {
  const ModelConfig& c = config();
  wanted_.clear();
  const QuantRows out = narrow_.first.view();
  float* normed = workers_[0].row.data();
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].logits == nullptr) continue;
    kernels_.rms_norm(x_.data() + r * c.embed, weights_.final_norm.data(), c.embed, c.norm_eps,
                      normed);
    kernels_.quantize(normed, out.from_row(static_cast<int64_t>(wanted_.size())));
    wanted_.push_back(&rows[r]);
  }
  if (wanted_.empty()) return;
  // The rows of logits lie behind each other, in this order.
  float* y = wanted_[0]->logits;
  pool_->split(c.vocab / kTileRows, [&](int32_t begin, int32_t end, int32_t) {
    kernels_.linear_q8(weights_.embedding, out, static_cast<int32_t>(wanted_.size()), begin, end,
                       y + int64_t{begin} * kTileRows, c.vocab);
  });
}

void QuantModel::run_pass(std::span<const Row> rows) {
  const int32_t count = static_cast<int32_t>(rows.size());
  const int32_t first_value_tile = (config().q_width() + config().kv_width()) / kTileRows;
  embed(rows);
  for (int32_t i = 0; i < config().layers; ++i) {
    const QuantLayer& layer = weights_.layers[static_cast<size_t>(i)];
    norm_rows(count, layer.attn_norm, /*fine=*/true);
    linear(layer.qkv, narrow_, count, qkv_.data(), false, layer.fine ? 0 : first_value_tile);
    store_keys(rows, i);
    attend(rows, i, layer.fine);
    linear(layer.out, mixed_, count, x_.data(), true, layer.fine ? 0 : kNoTile);
    feed_forward(layer, count);
  }
  write_logits(rows);
}

}  // namespace omnistage::models::smollm2
