// Shape of a SmolLM2 model, read from GGUF keys and checked. Plain values.
#pragma once

#include <cstdint>

#include "shm/base/status.h"
#include "stage_proc/models/gguf/gguf.h"

namespace omnistage::models::smollm2 {

struct ModelConfig {
  int32_t layers = 0;
  int32_t embed = 0;     // width of the residual stream
  int32_t hidden = 0;    // width of the gated layer
  int32_t heads = 0;     // query heads
  int32_t kv_heads = 0;  // key/value heads; divides heads
  int32_t head_dim = 0;
  int32_t vocab = 0;
  int32_t context = 0;  // trained positions
  float norm_eps = 0;
  double rope_base = 0;

  int32_t q_width() const { return heads * head_dim; }
  int32_t kv_width() const { return kv_heads * head_dim; }
  int32_t qkv_width() const { return q_width() + 2 * kv_width(); }
  int32_t group_heads() const { return heads / kv_heads; }
};

// Errors: kInvalid or kUnsupported with file and key.
Result<ModelConfig> read_config(const gguf::GgufFile& file);

}  // namespace omnistage::models::smollm2
