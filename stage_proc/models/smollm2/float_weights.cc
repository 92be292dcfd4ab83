// Dequantisation for the reference path, straight from the GGUF blocks.
#include <cstring>

#include "stage_proc/models/kernels/half.h"
#include "stage_proc/models/smollm2/reference_model.h"
#include "stage_proc/models/smollm2/tensors.h"

namespace omnistage::models::smollm2 {
namespace {

using gguf::TensorType;

float half_at(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return kernels::half_to_float(bits);
}

void block_q4_1(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int two = std::to_integer<int>(block[4 + i]);
    out[i] = static_cast<float>(two & 15) * d + m;
    out[i + 16] = static_cast<float>(two >> 4) * d + m;
  }
}

void block_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(std::to_integer<int>(block[2 + i]))) * d;
  }
}

Status load_matrix(const gguf::GgufFile& file, const std::string& name, TensorType type, int32_t n,
                   int32_t k, FloatMatrix* out) {
  OMS_ASSIGN_OR_RETURN(const auto bytes, find_weight(file, name, type, n, k));
  out->n = n;
  out->k = k;
  out->tiles.resize(static_cast<size_t>(n) * static_cast<size_t>(k));
  const bool four = type == TensorType::kQ4_1;
  const std::byte* block = bytes.data();
  for (int32_t row = 0; row < n; ++row) {
    float* to = out->tiles.data() + static_cast<size_t>(row / 16) * 16 * k + row % 16;
    for (int32_t g = 0; g < k / 32; ++g, block += four ? 20 : 34) {
      float values[32];
      four ? block_q4_1(block, values) : block_q8_0(block, values);
      for (int i = 0; i < 32; ++i) to[static_cast<size_t>(g * 32 + i) * 16] = values[i];
    }
  }
  return Status::ok_status();
}

Status load_norm(const gguf::GgufFile& file, const std::string& name, int32_t width,
                 std::vector<float>* out) {
  OMS_ASSIGN_OR_RETURN(const auto bytes, find_weight(file, name, TensorType::kF32, 1, width));
  out->resize(static_cast<size_t>(width));
  std::memcpy(out->data(), bytes.data(), bytes.size());
  return Status::ok_status();
}

Status load_layer(const gguf::GgufFile& file, const ModelConfig& c, int32_t i, FloatLayer* l) {
  OMS_RETURN_IF_ERROR(load_norm(file, layer_tensor(i, "attn_norm"), c.embed, &l->attn_norm));
  OMS_RETURN_IF_ERROR(load_norm(file, layer_tensor(i, "ffn_norm"), c.embed, &l->ffn_norm));
  const struct {
    const char* part;
    int32_t n, k;
    FloatMatrix* to;
  } parts[] = {
      {"attn_q", c.q_width(), c.embed, &l->q},   {"attn_k", c.kv_width(), c.embed, &l->k},
      {"attn_v", c.kv_width(), c.embed, &l->v},  {"attn_output", c.embed, c.q_width(), &l->out},
      {"ffn_gate", c.hidden, c.embed, &l->gate}, {"ffn_up", c.hidden, c.embed, &l->up},
      {"ffn_down", c.embed, c.hidden, &l->down}};
  for (const auto& p : parts) {
    OMS_RETURN_IF_ERROR(
        load_matrix(file, layer_tensor(i, p.part), TensorType::kQ4_1, p.n, p.k, p.to));
  }
  return Status::ok_status();
}

}  // namespace

Result<FloatWeights> FloatWeights::load(const gguf::GgufFile& file, const ModelConfig& c) {
  FloatWeights w;
  OMS_RETURN_IF_ERROR(
      load_matrix(file, "token_embd.weight", TensorType::kQ8_0, c.vocab, c.embed, &w.embedding));
  OMS_RETURN_IF_ERROR(load_norm(file, "output_norm.weight", c.embed, &w.final_norm));
  w.layers.resize(static_cast<size_t>(c.layers));
  for (int32_t i = 0; i < c.layers; ++i) {
    OMS_RETURN_IF_ERROR(load_layer(file, c, i, &w.layers[static_cast<size_t>(i)]));
  }
  return w;
}

}  // namespace omnistage::models::smollm2
