#include "stage_proc/models/smollm2/quant_weights.h"

#include <cstring>
#include <string>

#include "stage_proc/models/smollm2/tensors.h"

namespace omnistage::models::smollm2 {
namespace {

using gguf::TensorType;
using kernels::kTileRows;

// Hands out parts of the one buffer, each on a cache line.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}  // null: only counts

  template <typename T>
  T* take(int64_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<uint64_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

// One tile to pack: 16 rows of a tensor to one place.
struct Job {
  const std::byte* rows;
  int32_t k;
  bool eight_bit;
  uint8_t* q;
  uint16_t* scales;
};

class Loader {
 public:
  Loader(const gguf::GgufFile& file, const ModelConfig& config, Carver carver)
      : file_(file), c_(config), carver_(carver) {}

  // Lays out all matrices; called once to count and once to place.
  Status plan(QuantWeights* w) {
    OMS_RETURN_IF_ERROR(head(w));
    w->layers.assign(static_cast<size_t>(c_.layers), {});
    for (int32_t i = 0; i < c_.layers; ++i) OMS_RETURN_IF_ERROR(layer(i, &w->layers[i]));
    return norm("output_norm.weight", &w->final_norm);
  }
  uint64_t bytes() const { return carver_.used(); }
  const std::vector<Job>& jobs() const { return jobs_; }

 private:
  Status norm(const std::string& name, std::vector<float>* out) {
    OMS_ASSIGN_OR_RETURN(const auto bytes, find_weight(file_, name, TensorType::kF32, 1, c_.embed));
    out->resize(static_cast<size_t>(c_.embed));
    std::memcpy(out->data(), bytes.data(), bytes.size());
    return Status::ok_status();
  }

  Status head(QuantWeights* w) {
    OMS_ASSIGN_OR_RETURN(const auto bytes, find_weight(file_, "token_embd.weight",
                                                       TensorType::kQ8_0, c_.vocab, c_.embed));
    uint8_t* q = carver_.take<uint8_t>(kernels::packed_q8_bytes(c_.vocab, c_.embed));
    uint16_t* s = carver_.take<uint16_t>(kernels::packed_q8_scales(c_.vocab, c_.embed));
    w->embedding = {c_.vocab, c_.embed, q, s};
    const int64_t row_bytes = kernels::q8_0_row_bytes(c_.embed);
    if (q == nullptr) return Status::ok_status();
    for (int64_t n = 0; n < c_.vocab; n += kTileRows) {
      jobs_.push_back({bytes.data() + n * row_bytes, c_.embed, true, q + n * c_.embed,
                       s + n * c_.embed / kernels::kGroup});
    }
    return Status::ok_status();
  }

  // Appends the tensor's tiles to `matrix`, from tile `first` on, every `step` tiles.
  Status part(const std::string& name, int32_t rows, int32_t first, int32_t step,
              const kernels::Q4Matrix& matrix) {
    OMS_ASSIGN_OR_RETURN(const auto bytes,
                         find_weight(file_, name, TensorType::kQ4_1, rows, matrix.k));
    if (matrix.q == nullptr) return Status::ok_status();
    const int64_t row_bytes = kernels::q4_1_row_bytes(matrix.k);
    const int64_t tile_bytes = kernels::packed_q4_bytes(kTileRows, matrix.k);
    const int64_t tile_scales = kernels::packed_q4_scales(kTileRows, matrix.k);
    for (int64_t t = 0; t < rows / kTileRows; ++t) {
      const int64_t at = first + t * step;
      jobs_.push_back({bytes.data() + t * kTileRows * row_bytes, matrix.k, false,
                       const_cast<uint8_t*>(matrix.q) + at * tile_bytes,
                       const_cast<uint16_t*>(matrix.scales) + at * tile_scales});
    }
    return Status::ok_status();
  }

  kernels::Q4Matrix matrix(int32_t n, int32_t k) {
    const uint8_t* q = carver_.take<uint8_t>(kernels::packed_q4_bytes(n, k));
    const uint16_t* s = carver_.take<uint16_t>(kernels::packed_q4_scales(n, k));
    return {n, k, q, s};
  }

  Status layer(int32_t i, QuantLayer* l) {
    OMS_RETURN_IF_ERROR(norm(layer_tensor(i, "attn_norm"), &l->attn_norm));
    OMS_RETURN_IF_ERROR(norm(layer_tensor(i, "ffn_norm"), &l->ffn_norm));
    l->fine = i == 0 || i + 2 >= c_.layers;
    l->qkv = matrix(c_.qkv_width(), c_.embed);
    l->out = matrix(c_.embed, c_.q_width());
    l->gate_up = matrix(2 * c_.hidden, c_.embed);
    l->down = matrix(c_.embed, c_.hidden);
    const int32_t q_tiles = c_.q_width() / kTileRows;
    const int32_t kv_tiles = c_.kv_width() / kTileRows;
    OMS_RETURN_IF_ERROR(part(layer_tensor(i, "attn_q"), c_.q_width(), 0, 1, l->qkv));
    OMS_RETURN_IF_ERROR(part(layer_tensor(i, "attn_k"), c_.kv_width(), q_tiles, 1, l->qkv));
    OMS_RETURN_IF_ERROR(
        part(layer_tensor(i, "attn_v"), c_.kv_width(), q_tiles + kv_tiles, 1, l->qkv));
    OMS_RETURN_IF_ERROR(part(layer_tensor(i, "attn_output"), c_.embed, 0, 1, l->out));
    OMS_RETURN_IF_ERROR(part(layer_tensor(i, "ffn_gate"), c_.hidden, 0, 2, l->gate_up));
    OMS_RETURN_IF_ERROR(part(layer_tensor(i, "ffn_up"), c_.hidden, 1, 2, l->gate_up));
    return part(layer_tensor(i, "ffn_down"), c_.embed, 0, 1, l->down);
  }

  const gguf::GgufFile& file_;
  const ModelConfig& c_;
  Carver carver_;
  std::vector<Job> jobs_;
};

}  // namespace

Result<QuantWeights> QuantWeights::load(const gguf::GgufFile& file, const ModelConfig& config,
                                        kernels::WorkerPool* pool) {
  QuantWeights w;
  Loader count(file, config, Carver(nullptr));
  OMS_RETURN_IF_ERROR(count.plan(&w));
  OMS_ASSIGN_OR_RETURN(w.buffer, kernels::PageBuffer::allocate(count.bytes(), "model weights"));
  Loader place(file, config, Carver(w.buffer.data()));
  OMS_RETURN_IF_ERROR(place.plan(&w));
  const std::vector<Job>& jobs = place.jobs();
  pool->split(static_cast<int32_t>(jobs.size()), [&jobs](int32_t begin, int32_t end, int32_t) {
    for (int32_t i = begin; i < end; ++i) {
      const Job& job = jobs[static_cast<size_t>(i)];
      if (job.eight_bit) {
        kernels::pack_tile_q8_0(job.rows, job.k, job.q, job.scales);
      } else {
        kernels::pack_tile_q4_1(job.rows, job.k, job.q, job.scales);
      }
    }
  });
  return w;
}

}  // namespace omnistage::models::smollm2
