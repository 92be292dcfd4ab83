#include "stage_proc/models/hibari/text/clause_splitter.h"

#include <algorithm>

namespace omnistage::hibari {
namespace {

constexpr TextView kClosers = U"\"”’')]";
constexpr TextView kSentenceMarks = U".!?…";
constexpr TextView kClauseMarks = U",;:—";

// A period after one of these, or after an initial, does not end a sentence.
constexpr TextView kAbbreviations[] = {
    U"Mr",  U"Mrs",  U"Ms", U"Dr",   U"Prof", U"St",  U"Mt",  U"Ft",   U"Gen",   U"Gov",  U"Sen",
    U"Rep", U"Capt", U"Lt", U"Col",  U"Sgt",  U"Rev", U"Hon", U"Pres", U"Cmdr",  U"Supt", U"Cpl",
    U"Maj", U"Adm",  U"Fr", U"Msgr", U"vs",   U"cf",  U"e.g", U"i.e",  U"approx"};

TextView without_closers(TextView word) {
  while (!word.empty() && contains(kClosers, word.back())) word.remove_suffix(1);
  return word;
}

bool ends_with_any(TextView word, TextView marks) {
  word = without_closers(word);
  return !word.empty() && contains(marks, word.back());
}

bool ends_sentence(TextView word, char32_t next) {
  if (is_lower(next)) return false;
  word = without_closers(word);
  if (word.empty() || !contains(kSentenceMarks, word.back())) return false;
  if (word.back() != U'.') return true;
  word.remove_suffix(1);
  while (!word.empty() && contains(U"(\"“'‘", word.front())) word.remove_prefix(1);
  if (word.size() == 1 && is_upper(word[0])) return false;
  return std::find(std::begin(kAbbreviations), std::end(kAbbreviations), word) ==
         std::end(kAbbreviations);
}

bool is_speakable(TextView word) {
  return std::any_of(word.begin(), word.end(),
                     [](char32_t c) { return is_letter(c) || digit_value(c) >= 0; });
}

// How many bytes at the end are the start of a character whose rest is still to come.
size_t unfinished_bytes(std::string_view bytes) {
  for (size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t length = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf5 && length > back ? back : 0;
  }
  return 0;
}

ClauseOptions with_least_limits(ClauseOptions options) {
  options.words_max = std::max<size_t>(options.words_max, 1);
  options.characters_max = std::max<size_t>(options.characters_max, 32);
  return options;
}

}  // namespace

ClauseSplitter::ClauseSplitter(ClauseOptions options)
    : options_(with_least_limits(options)), words_(this) {}

std::vector<std::string> ClauseSplitter::push(std::string_view piece) {
  partial_ += piece;
  const size_t held = unfinished_bytes(partial_);
  const std::string rest = partial_.substr(partial_.size() - held);
  partial_.resize(partial_.size() - held);
  feed(partial_);
  partial_ = rest;
  return take();
}

std::vector<std::string> ClauseSplitter::finish() {
  feed(partial_);
  partial_.clear();
  words_.finish();
  first_ = true;
  return take();
}

void ClauseSplitter::feed(std::string_view bytes) {
  for (char32_t c : decode_utf8(bytes)) words_.feed(c);
}

std::vector<std::string> ClauseSplitter::take() {
  std::vector<std::string> out;
  out.swap(ready_);
  return out;
}

void ClauseSplitter::word_starts(char32_t first) {
  if (!segment_.empty() && ends_sentence(segment_.back(), first)) cut(segment_.size());
}

void ClauseSplitter::line_break() {
  cut(segment_.size());
}

void ClauseSplitter::word(Text word) {
  // A mark that stands alone (a table bar) belongs to the word before it.
  if (word == U"," && (segment_.empty() || !is_speakable(TextView(&segment_.back().back(), 1))))
    return;
  if (word == U",") {
    segment_.back() += word;
    ++characters_;
    return;
  }
  for (size_t at = 0; at < word.size(); at += options_.characters_max) {
    add_part(TextView(word).substr(at, options_.characters_max));
  }
}

void ClauseSplitter::add_part(TextView part) {
  if (!segment_.empty() && (segment_.size() >= options_.words_max ||
                            characters_ + 1 + part.size() > options_.characters_max)) {
    size_t words = segment_.size();
    while (words > 1 && !ends_with_any(segment_[words - 1], kClauseMarks)) --words;
    cut(words > 1 ? words : segment_.size());
  }
  characters_ += part.size() + (segment_.empty() ? 0 : 1);
  segment_.emplace_back(part);
  if (!first_) return;
  const size_t count = segment_.size();
  const bool clause = options_.first_clause_words > 0 && count >= options_.first_clause_words &&
                      ends_with_any(part, kClauseMarks);
  if (clause || (options_.first_words_max > 0 && count >= options_.first_words_max)) cut(count);
}

// The first `words` words become a segment; the others stay.
void ClauseSplitter::cut(size_t words) {
  Text text;
  bool speakable = false;
  for (size_t i = 0; i < words; ++i) {
    if (i > 0) text += U' ';
    text += segment_[i];
    speakable |= is_speakable(segment_[i]);
  }
  segment_.erase(segment_.begin(), segment_.begin() + static_cast<ptrdiff_t>(words));
  characters_ = 0;
  for (const Text& word : segment_) characters_ += word.size() + 1;
  if (characters_ > 0) --characters_;
  if (!speakable) return;
  ready_.push_back(encode_utf8(text));
  first_ = false;
}

}  // namespace omnistage::hibari
