// The text side of SmolLM2: tokenizer from GGUF metadata and the chat prompt. Immutable; any
// thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/gguf/gguf.h"
#include "stage_proc/tokenizer/tokenizer.h"

namespace omnistage::models::smollm2 {

class ChatText {
 public:
  // `vocab`: rows of the embedding; the piece list must have as many. Errors: kInvalid or
  // kUnsupported with file and key.
  static Result<ChatText> create(const gguf::GgufFile& file, int32_t vocab);

  const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  int32_t eos() const { return eos_; }
  // Ids of "system, user, and the start of the assistant's turn". Text that looks like a control
  // piece stays text, so neither argument can open or close a turn.
  std::vector<int32_t> prompt(const std::string& system, const std::string& user) const;

 private:
  void append_turn(const std::string& role, const std::string& text,
                   std::vector<int32_t>* ids) const;

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  int32_t start_ = 0;  // <|im_start|>
  int32_t end_ = 0;    // <|im_end|>
  int32_t eos_ = 0;
};

}  // namespace omnistage::models::smollm2
