// The reference path: float32 on dequantised weights, plain loops, nothing shared with the kernels
// of the product path. It exists to be compared with other implementations; it needs about 4 bytes
// a parameter and is slow.
#pragma once

#include <vector>

#include "stage_proc/models/gguf/gguf.h"
#include "stage_proc/models/kernels/worker_pool.h"
#include "stage_proc/models/smollm2/base_model.h"

namespace omnistage::models::smollm2 {

// Weights as [n/16][k][16], so that plain loops vectorise without reordering a sum.
struct FloatMatrix {
  int32_t n = 0;
  int32_t k = 0;
  std::vector<float> tiles;
};

struct FloatLayer {
  std::vector<float> attn_norm;
  std::vector<float> ffn_norm;
  FloatMatrix q, k, v, out, gate, up, down;
};

struct FloatWeights {
  static Result<FloatWeights> load(const gguf::GgufFile& file, const ModelConfig& config);

  std::vector<FloatLayer> layers;
  std::vector<float> final_norm;
  FloatMatrix embedding;
};

class ReferenceModel final : public BaseModel {
 public:
  ReferenceModel(const ModelConfig& config, ChatText text, FloatWeights weights,
                 std::unique_ptr<kernels::WorkerPool> pool);

 protected:
  Status allocate_kv() override;
  void run_pass(std::span<const Row> rows) override;

 private:
  void linear(const FloatMatrix& w, const std::vector<float>& x, int32_t rows, float* y);
  void norm(const std::vector<float>& x, const std::vector<float>& weight, int32_t rows,
            std::vector<float>* out);
  void rotate(float* x, int32_t heads, int32_t position);
  void attend(const Row& row, int32_t layer, const float* q, float* out);
  void run_layer(std::span<const Row> rows, int32_t layer);
  float* slot(int32_t layer, const Row& row, int32_t position);

  FloatWeights weights_;
  std::unique_ptr<kernels::WorkerPool> pool_;
  std::vector<float> kv_;  // [layer][block][slot][keys | values]
  std::vector<float> x_, normed_, q_, k_, v_, mixed_, gate_, up_, delta_, scores_;
};

}  // namespace omnistage::models::smollm2
