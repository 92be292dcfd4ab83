// UTF-8 one character at a time, with the rule of the Unicode standard for broken input: each
// maximal part that can not be continued counts as one bad character (U+FFFD). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace omnistage::tokenizer {

struct Utf8Char {
  char32_t code = 0xFFFD;
  uint8_t length = 0;  // bytes consumed, 1..4
  bool valid = false;
  bool incomplete =
      false;  // not valid so far, but more bytes could make it so; only at the end of the text
};

constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// REQUIRES: at < text.size().
Utf8Char decode_utf8(std::string_view text, size_t at);
// Text with every bad part replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

}  // namespace omnistage::tokenizer
