#include "stage_proc/tokenizer/bpe.h"

#include <queue>

#include "stage_proc/tokenizer/utf8.h"

namespace omnistage::tokenizer {
namespace {

// GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the other 68 bytes for U+0100,
// U+0101, ... in order.
std::array<char32_t, 256> make_byte_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    alphabet[b] = printable ? static_cast<char32_t>(b) : next++;
  }
  return alphabet;
}

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = make_byte_alphabet();
  return alphabet;
}

// Byte of an alphabet character, -1 if it is none. The alphabet ends below U+0144.
int byte_of(char32_t c) {
  static const std::array<int16_t, 0x144> table = [] {
    std::array<int16_t, 0x144> t{};
    t.fill(-1);
    for (int b = 0; b < 256; ++b) t[byte_alphabet()[b]] = static_cast<int16_t>(b);
    return t;
  }();
  return c < table.size() ? table[c] : -1;
}

std::string to_utf8(char32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

// Symbols of a word as a doubly linked list, so that a merge is O(1) and a word of n bytes costs
// O(n log n).
struct Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;
};

// Lowest rank first, leftmost first among equals. `left_id`/`right_id` detect that a neighbour has
// changed since.
struct Candidate {
  int32_t rank;
  int32_t at;
  int32_t left_id;
  int32_t right_id;
  int32_t merged;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

}  // namespace

std::string Bpe::piece_to_bytes(std::string_view piece) {
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const Utf8Char c = decode_utf8(piece, at);
    const int byte = c.valid ? byte_of(c.code) : -1;
    if (byte >= 0)
      bytes.push_back(static_cast<char>(byte));
    else
      bytes += piece.substr(at, c.length);
    at += c.length;
  }
  return bytes;
}

Result<Bpe> Bpe::create(const std::vector<std::string>& pieces,
                        const std::vector<std::string>& merges) {
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(pieces.size() * 2);
  for (size_t i = 0; i < pieces.size(); ++i) ids.emplace(pieces[i], static_cast<int32_t>(i));

  Bpe bpe;
  for (int b = 0; b < 256; ++b) {
    const auto it = ids.find(to_utf8(byte_alphabet()[b]));
    bpe.byte_ids_[b] = it == ids.end() ? -1 : it->second;
  }
  bpe.merges_.reserve(merges.size() * 2);
  std::string merged;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view line = merges[rank];
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size())
      return invalid("merge " + std::to_string(rank) + " is not \"left right\": '" + merges[rank] +
                     "'");
    merged.assign(line.substr(0, space)).append(line.substr(space + 1));
    const auto left = ids.find(line.substr(0, space));
    const auto right = ids.find(line.substr(space + 1));
    const auto whole = ids.find(merged);
    if (left == ids.end() || right == ids.end() || whole == ids.end())
      return invalid("merge " + std::to_string(rank) +
                     " names a piece that is not in the vocabulary: '" + merges[rank] + "'");
    bpe.merges_.emplace(pair_key(left->second, right->second),
                        Merge{static_cast<int32_t>(rank), whole->second});
  }
  return bpe;
}

void Bpe::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id < 0) continue;
    const auto n = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, n - 1, n + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int32_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    const int32_t left = symbols[at].id, right = symbols[symbols[at].next].id;
    const auto it = merges_.find(pair_key(left, right));
    if (it != merges_.end()) queue.push({it->second.rank, at, left, right, it->second.merged});
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    if (left.id != best.left_id || left.next < 0 || symbols[left.next].id != best.right_id)
      continue;
    Symbol& right = symbols[left.next];
    left.id = best.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[left.next].previous = best.at;
    offer(left.previous);
    offer(best.at);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace omnistage::tokenizer
