// ToyModel: a very small real language model for the tests of the AR scheduler. Its logits are a
// hash of the whole prefix, read back from paged KV storage through the block table: a wrong block,
// position, or token that was not computed changes every later logit. Deterministic, and without
// weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stage_proc/models/ar_model.h"

namespace omnistage::testing {

struct ToyOptions {
  int32_t max_model_len = 256;
  uint64_t weights = 1;      // another number is another model
  double eos_bias = 0;       // higher: shorter answers
  bool plain_words = false;  // no pieces that are parts of characters
};

class ToyModel final : public models::ArModel {
 public:
  explicit ToyModel(ToyOptions options = {});

  const models::ArModelInfo& info() const override { return info_; }
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer() const override { return tokenizer_; }
  std::vector<int32_t> chat_prompt(const std::string& system,
                                   const std::string& user) const override;
  Status init_kv(int32_t num_blocks, int32_t block_size) override;
  Status forward(std::span<const models::ArSequence> batch, std::span<float> logits) override;

  // Logits after `prefix`, without any cache: what forward() has to give.
  std::vector<float> logits_after(std::span<const int32_t> prefix) const;

  static constexpr int32_t kEos = 256;

  // What the scheduler did.
  struct Call {
    size_t sequences = 0;
    size_t tokens = 0;
    size_t logit_rows = 0;
  };
  const std::vector<Call>& calls() const { return calls_; }
  // The next forward() fails with this status.
  void fail_next(Status status) { fail_next_ = std::move(status); }
  // Rows of sequences that contain this id get NaN.
  void poison(int32_t token) { poison_ = token; }

 private:
  uint64_t cell(int32_t token, int64_t position) const;
  void fill(uint64_t hash, std::span<float> row) const;

  ToyOptions options_;
  models::ArModelInfo info_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::vector<float> bias_;
  std::vector<uint64_t> kv_;
  int32_t block_size_ = 0;
  std::vector<Call> calls_;
  Status fail_next_;
  int32_t poison_ = -1;
};

}  // namespace omnistage::testing
