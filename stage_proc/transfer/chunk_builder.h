// ChunkBuilder: turns what a stage produces into payloads for the next stage. One object per
// request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stage_proc/engine/request.h"

namespace omnistage::transfer {

class ChunkBuilder {
 public:
  virtual ~ChunkBuilder() = default;
  // New text; returns the payloads that are complete now, often none.
  virtual std::vector<engine::Payload> push(std::string_view text) = 0;
  // The rest at the end of the request; nullopt when everything has been returned.
  virtual std::optional<engine::Payload> finish() = 0;
};

// Text, clause by clause, under the key "text". Nothing is dropped or changed: the texts joined are
// the input.
//
// A cut comes only after a white-space character, so words stay whole:
// - after . ! ? (closing quotes and brackets may follow) and after a newline,
// - in the first chunk, so that speech starts early, also after , ; : or a dash once
// kFirstClauseWords words are
//   there, and after kFirstChunkWords words in any case,
// - in later chunks after kChunkWords words.
// A run of kChunkBytesMax bytes without white space is cut at a character border: no chunk outgrows
// a record. The cuts depend on the text alone, not on how push() received it.
class ClauseChunkBuilder final : public ChunkBuilder {
 public:
  static constexpr uint32_t kFirstClauseWords = 3;
  static constexpr uint32_t kFirstChunkWords = 12;
  static constexpr uint32_t kChunkWords = 40;
  static constexpr size_t kChunkBytesMax = 4096;

  std::vector<engine::Payload> push(std::string_view text) override;
  std::optional<engine::Payload> finish() override;

 private:
  bool cut_after(char byte);
  engine::Payload take(size_t bytes);

  std::string pending_;
  uint32_t words_ = 0;  // finished words in pending_
  bool in_word_ = false;
  bool first_ = true;
};

}  // namespace omnistage::transfer
