#include "stage_proc/tokenizer/utf8.h"

namespace omnistage::tokenizer {
namespace {

// Range of the second byte by lead byte (Unicode 15, table 3-7): it keeps out overlong forms,
// surrogates and values above U+10FFFF. length 0 = not a lead byte.
struct Lead {
  uint8_t length, second_min, second_max;
};

Lead lead_of(uint8_t b) {
  if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b >= 0xF1 && b <= 0xF3) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {0xFFFD, 1, false, false};
  char32_t code = first & (0xFF >> (lead.length + 1));
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, false, true};
    const uint8_t next = static_cast<uint8_t>(text[at + i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (next < low || next > high) return {0xFFFD, i, false, false};
    code = code << 6 | (next & 0x3F);
  }
  return {code, lead.length, true, false};
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    out += c.valid ? text.substr(at, c.length) : kReplacementUtf8;
    at += c.length;
  }
  return out;
}

}  // namespace omnistage::tokenizer
