// All weights of the product path in packed form, in one buffer. Built once from the GGUF file,
// which is not needed afterwards. Immutable then.
#pragma once

#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/gguf/gguf.h"
#include "stage_proc/models/kernels/pack.h"
#include "stage_proc/models/kernels/worker_pool.h"
#include "stage_proc/models/smollm2/config.h"

namespace omnistage::models::smollm2 {

struct QuantLayer {
  std::vector<float> attn_norm;
  std::vector<float> ffn_norm;
  // Activations of this layer in two int8 terms. Rounding them to one costs accuracy mostly in the
  // first and the last layers; elsewhere only the value projection is worth the second term.
  bool fine = false;
  kernels::Q4Matrix qkv;  // rows of q, then k, then v
  kernels::Q4Matrix out;
  kernels::Q4Matrix gate_up;  // tiles of 16 rows alternate: gate, up, gate, up, ...
  kernels::Q4Matrix down;
};

struct QuantWeights {
  static Result<QuantWeights> load(const gguf::GgufFile& file, const ModelConfig& config,
                                   kernels::WorkerPool* pool);

  std::vector<QuantLayer> layers;
  std::vector<float> final_norm;
  kernels::Q8Matrix embedding;  // also the output head
  kernels::PageBuffer buffer;
};

}  // namespace omnistage::models::smollm2
