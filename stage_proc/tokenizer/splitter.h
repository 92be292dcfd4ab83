// Splitter: cuts text into the words that BPE works on. Immutable after create(); any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::tokenizer {

class WordSplitter {
 public:
  virtual ~WordSplitter() = default;
  // Appends the words of `text` (valid UTF-8) to `words`; together they are the whole text.
  virtual void split(std::string_view text, std::vector<std::string_view>& words) const = 0;
};

// SmolLM2: every character of a number category (Unicode N*) is a word of its own; what lies
// between is cut by the GPT-2 pattern.
Result<std::unique_ptr<WordSplitter>> make_smollm_splitter();

}  // namespace omnistage::tokenizer
