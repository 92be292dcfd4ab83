// Bpe: the merge table of a byte-level BPE and the merging of one word. Immutable after create();
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::tokenizer {

class Bpe {
 public:
  // `pieces` by id and `merges` ("left right", best first), both in the byte-to-unicode alphabet of
  // GPT-2.
  static Result<Bpe> create(const std::vector<std::string>& pieces,
                            const std::vector<std::string>& merges);

  // Appends the ids of one word. Bytes that the vocabulary does not have are left out.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  // Bytes of a piece in the byte-to-unicode alphabet; characters outside of it stay as they are.
  static std::string piece_to_bytes(std::string_view piece);

 private:
  struct Merge {
    int32_t rank;
    int32_t merged;
  };
  static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace omnistage::tokenizer
