// Tokenizer: byte-level BPE, and the streaming way back to text. A Tokenizer is immutable after
// construction and may be used by any thread; a Detokenizer belongs to one request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::tokenizer {

// How text is cut before BPE. kSmolLm: every number character alone, then the GPT-2 pattern.
enum class Splitter { kSmolLm };

struct BpeData {
  std::vector<std::string>
      pieces;  // by id, in the byte-to-unicode alphabet; control pieces as plain text
  std::vector<std::string> merges;   // "left right", best first
  std::vector<int32_t> special_ids;  // pieces matched whole in the input before anything else
  Splitter splitter = Splitter::kSmolLm;
};

class Tokenizer {
 public:
  // Errors: kInvalid with the piece or merge that does not fit.
  static Result<std::shared_ptr<const Tokenizer>> create(BpeData data);
  ~Tokenizer();

  // Text to ids. Invalid UTF-8 becomes one U+FFFD per maximal bad part. With parse_special false,
  // text that looks like a special piece is tokenised as plain text (user input must not be able to
  // forge a chat turn).
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const;
  // Bytes of one id (may end inside a character); special pieces give their text. Unknown ids give
  // "".
  const std::string& piece_bytes(int32_t id) const;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special = true) const;

  bool is_special(int32_t id) const;
  int32_t vocab_size() const;
  // Id of a whole piece, -1 if there is none.
  int32_t find_special(std::string_view text) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns ids into text as they come, and never emits a part of a character: bytes of an unfinished
// one are held back until the rest arrives or finish() is called (which gives U+FFFD for what
// stayed broken).
class Detokenizer {
 public:
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}
  std::string push(int32_t id);
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace omnistage::tokenizer
