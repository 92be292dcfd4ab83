// What both number paths of SmolLM2 share: text, checks of a batch, and the cut of a batch into
// passes of a bounded number of rows. Used by one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stage_proc/models/ar_model.h"
#include "stage_proc/models/smollm2/config.h"
#include "stage_proc/models/smollm2/text.h"

namespace omnistage::models::smollm2 {

// One token of a pass. Rows of a sequence come in order of position, so a row may attend to earlier
// rows of its own pass: their keys and values are stored before attention runs.
struct Row {
  int32_t token = 0;
  int32_t position = 0;
  const int32_t* table = nullptr;
  float* logits = nullptr;  // vocab floats, or null
};

class BaseModel : public ArModel {
 public:
  static constexpr int32_t kPassRows = 256;  // bounds the scratch, not the batch

  const ArModelInfo& info() const final { return info_; }
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer() const final { return text_.tokenizer(); }
  std::vector<int32_t> chat_prompt(const std::string& system, const std::string& user) const final {
    return text_.prompt(system, user);
  }
  Status init_kv(int32_t num_blocks, int32_t block_size) final;
  Status forward(std::span<const ArSequence> batch, std::span<float> logits) final;

 protected:
  BaseModel(const ModelConfig& config, ChatText text);

  const ModelConfig& config() const { return config_; }
  int32_t num_blocks() const { return num_blocks_; }
  int32_t block_size() const { return block_size_; }

  virtual Status allocate_kv() = 0;
  virtual void run_pass(std::span<const Row> rows) = 0;

 private:
  Status check_sequence(const ArSequence& sequence, size_t index) const;

  ModelConfig config_;
  ChatText text_;
  ArModelInfo info_;
  int32_t num_blocks_ = 0;
  int32_t block_size_ = 0;
  std::vector<Row> rows_;
};

}  // namespace omnistage::models::smollm2
