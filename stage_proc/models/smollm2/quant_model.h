// The product path: packed Q4_1/Q8_0 weights, int8 activations (two terms where one costs
// accuracy), paged float32 KV. Scratch is allocated at construction; forward() allocates nothing.
#pragma once

#include <vector>

#include "stage_proc/models/kernels/kernels.h"
#include "stage_proc/models/kernels/pack.h"
#include "stage_proc/models/kernels/worker_pool.h"
#include "stage_proc/models/smollm2/base_model.h"
#include "stage_proc/models/smollm2/quant_weights.h"
#include "stage_proc/models/smollm2/rope_table.h"

namespace omnistage::models::smollm2 {

class QuantModel final : public BaseModel {
 public:
  QuantModel(const ModelConfig& config, ChatText text, QuantWeights weights,
             std::unique_ptr<kernels::WorkerPool> pool, const kernels::KernelTable& kernels);

 protected:
  Status allocate_kv() override;
  void run_pass(std::span<const Row> rows) override;

 private:
  // Quantised rows with their storage.
  struct QuantScratch {
    void resize(int32_t rows, int32_t k);
    kernels::QuantRows view() { return {k, q.data(), scale.data(), scaled_sum.data(), sum.data()}; }
    int32_t k = 0;
    std::vector<int8_t> q;
    std::vector<float> scale;
    std::vector<float> scaled_sum;
    std::vector<int32_t> sum;
  };
  struct TwoTerms {
    void resize(int32_t rows, int32_t k) {
      first.resize(rows, k);
      rest.resize(rows, k);
    }
    QuantScratch first;
    QuantScratch rest;
  };
  struct WorkerScratch {
    std::vector<float> row;        // one normalised row, or one row of attention output
    std::vector<float> gate_up;    // [rows][64]: gate 16, up 16, gate 16, up 16
    std::vector<float> attention;  // scores
  };

  // The parts of a layer, each split over the workers by rows or by output tiles. Numbers do not
  // depend on the split.
  void embed(std::span<const Row> rows);
  void norm_rows(int32_t rows, const std::vector<float>& weight, bool fine);
  // Tiles from `fine_from` on use both terms of x.
  void linear(const kernels::Q4Matrix& w, TwoTerms& x, int32_t rows, float* y, bool add,
              int32_t fine_from);
  void store_keys(std::span<const Row> rows, int32_t layer);
  void attend(std::span<const Row> rows, int32_t layer, bool fine);
  void feed_forward(const QuantLayer& layer, int32_t rows);
  void gate_group(const QuantLayer& layer, int32_t rows, int32_t group, float* scratch);
  void write_logits(std::span<const Row> rows);

  float* block(int32_t layer, int32_t block) const;

  QuantWeights weights_;
  std::unique_ptr<kernels::WorkerPool> pool_;
  const kernels::KernelTable& kernels_;
  RopeTable rope_;

  kernels::PageBuffer kv_;  // [layer][block][keys: kv head, dim, key_stride | values: kv head, ...]
  int32_t key_stride_ = 0;
  int64_t key_floats_ = 0;    // of one KV head in one block
  int64_t value_floats_ = 0;  // likewise
  int64_t block_floats_ = 0;

  std::vector<float> x_;    // residual stream [rows][embed]
  std::vector<float> qkv_;  // [rows][qkv_width]
  TwoTerms narrow_;         // input of qkv, gate/up and the head
  TwoTerms mixed_;          // attention output
  TwoTerms wide_;           // input of down
  std::vector<const Row*> wanted_;
  std::vector<WorkerScratch> workers_;
};

}  // namespace omnistage::models::smollm2
