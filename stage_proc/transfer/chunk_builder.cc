#include "stage_proc/transfer/chunk_builder.h"

#include <array>

namespace omnistage::transfer {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

bool strip_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Quotes, brackets and emphasis marks that may stand between a sentence's end and the next word.
void strip_closers(std::string_view& text) {
  constexpr std::array<std::string_view, 9> kClosers = {
      "\"", "'", ")", "]", "}", "*", "_", "\xE2\x80\x9D", "\xE2\x80\x99"};
  for (bool again = true; again;) {
    again = false;
    for (std::string_view closer : kClosers) again = strip_suffix(text, closer) || again;
  }
}

bool ends_sentence(std::string_view word) {
  strip_closers(word);
  return !word.empty() && (word.back() == '.' || word.back() == '!' || word.back() == '?' ||
                           word.ends_with("\xE2\x80\xA6"));
}

bool ends_clause(std::string_view word) {
  strip_closers(word);
  return !word.empty() && (word.back() == ',' || word.back() == ';' || word.back() == ':' ||
                           word.ends_with("\xE2\x80\x94") || word.ends_with("\xE2\x80\x93"));
}

}  // namespace

// `byte` was just appended to pending_.
bool ClauseChunkBuilder::cut_after(char byte) {
  if (!is_space(byte)) {
    in_word_ = true;
    return false;
  }
  if (byte == '\n') return words_ > 0 || in_word_;
  if (!in_word_) return false;
  in_word_ = false;
  ++words_;
  const std::string_view before(pending_.data(), pending_.size() - 1);
  if (ends_sentence(before)) return true;
  if (!first_) return words_ >= kChunkWords;
  return words_ >= kFirstChunkWords || (words_ >= kFirstClauseWords && ends_clause(before));
}

engine::Payload ClauseChunkBuilder::take(size_t bytes) {
  engine::Payload payload;
  payload.emplace("text", pending_.substr(0, bytes));
  pending_.erase(0, bytes);
  words_ = 0;
  in_word_ = !pending_.empty();
  first_ = false;
  return payload;
}

std::vector<engine::Payload> ClauseChunkBuilder::push(std::string_view text) {
  std::vector<engine::Payload> out;
  for (char byte : text) {
    // Before the byte, so that a whole character stays together.
    if (pending_.size() >= kChunkBytesMax && !is_continuation(byte))
      out.push_back(take(pending_.size()));
    pending_.push_back(byte);
    if (cut_after(byte)) out.push_back(take(pending_.size()));
  }
  return out;
}

std::optional<engine::Payload> ClauseChunkBuilder::finish() {
  if (pending_.empty()) return std::nullopt;
  return take(pending_.size());
}

}  // namespace omnistage::transfer
