// ArModel: what the AR engine needs of a decoder-only model. The engine owns scheduling, the block
// pool and the sampler; the model owns weights and the KV storage (num_blocks x block_size tokens,
// allocated by init_kv). One thread at a time (the stage's data thread); the model may use its own
// worker threads inside forward().
//
// Numeric promise: a row's logits depend only on the weights and the tokens before it, bit for bit:
// not on the batch, the chunking of the prompt, the thread count or the block numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/tokenizer/tokenizer.h"

namespace omnistage::models {

// One sequence's part of a step: `tokens` are the new ids at positions [start, start +
// tokens.size()). `block_table[i]` is the KV block of positions [i * block_size, (i + 1) *
// block_size); it covers all positions up to start + tokens.size(). Earlier positions are already
// in the cache.
struct ArSequence {
  std::span<const int32_t> tokens;
  int32_t start = 0;
  std::span<const int32_t> block_table;
  bool wants_logits = false;  // logits of the last token only
};

struct ArModelInfo {
  std::string family;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // trained context
  std::vector<int32_t> eos_token_ids;
  uint64_t kv_bytes_per_token = 0;
};

class ArModel {
 public:
  virtual ~ArModel() = default;
  virtual const ArModelInfo& info() const = 0;
  virtual std::shared_ptr<const tokenizer::Tokenizer> tokenizer() const = 0;
  // Chat prompt for one user turn; empty system = the model's default system prompt.
  virtual std::vector<int32_t> chat_prompt(const std::string& system,
                                           const std::string& user) const = 0;

  // Allocates KV storage, once, before the first forward(). Errors: kNoMemory.
  virtual Status init_kv(int32_t num_blocks, int32_t block_size) = 0;
  // Runs one batch. Row i of `logits` ([rows with wants_logits] x vocab_size floats, in batch
  // order) receives the logits of the last token of the i-th sequence that wants them.
  virtual Status forward(std::span<const ArSequence> batch, std::span<float> logits) = 0;
};

struct ArModelOptions {
  std::string model_dir;  // folder with the weights
  std::string kernel =
      "auto";              // auto | scalar | avx2 | avx512vnni: forced for tests and old machines
  bool reference = false;  // float32 reference path on dequantised weights (slow)
  int32_t threads = 1;
};

}  // namespace omnistage::models
