#include "stage_proc/models/hibari/text/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace omnistage::hibari {
namespace {

struct Range {
  uint32_t first, last;
};
// Every `step`-th code; in kOtherDigits the third number is the value of the first digit instead.
struct Run {
  uint32_t first, last, step;
};
struct Shift {
  uint32_t first, last, step;
  int32_t delta;
};
struct Expansion {
  uint32_t first;
  const char32_t* to;
};
struct Code {
  uint32_t first;
};
struct Composition {
  uint32_t first, mark, composed;
};

#include "stage_proc/models/hibari/text/unicode_tables.inc"

// The last row that starts at or before c, or null. Tables are sorted by `first`.
template <typename Row, size_t N>
const Row* row_before(const Row (&table)[N], char32_t c) {
  const Row* it = std::upper_bound(std::begin(table), std::end(table), c,
                                   [](char32_t code, const Row& row) { return code < row.first; });
  return it == std::begin(table) ? nullptr : it - 1;
}

template <size_t N>
bool in_runs(const Run (&table)[N], char32_t c) {
  const Run* row = row_before(table, c);
  return row != nullptr && c <= row->last && (c - row->first) % row->step == 0;
}

// Runs of step 2 may interleave (upper and lower case alternate), so a few rows back have to be
// tried.
template <size_t N>
const Shift* find_shift(const Shift (&table)[N], char32_t c) {
  const Shift* row = row_before(table, c);
  for (int tries = 0; row != nullptr && tries < 4; ++tries) {
    if (c <= row->last && (c - row->first) % row->step == 0) return row;
    if (row == std::begin(table)) break;
    --row;
  }
  return nullptr;
}

template <size_t N>
const char32_t* find_expansion(const Expansion (&table)[N], char32_t c) {
  const Expansion* row = row_before(table, c);
  return row != nullptr && row->first == c ? row->to : nullptr;
}

template <size_t N, size_t M>
Text map_text(TextView text, const Shift (&shifts)[N], const Expansion (&expansions)[M]) {
  Text out;
  out.reserve(text.size());
  for (char32_t c : text) {
    if (const char32_t* to = find_expansion(expansions, c)) {
      out += to;
    } else if (const Shift* shift = find_shift(shifts, c)) {
      out += static_cast<char32_t>(static_cast<int64_t>(c) + shift->delta);
    } else {
      out += c;
    }
  }
  return out;
}

bool is_ascii(TextView text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
}

Text map_ascii(TextView text, char32_t first, char32_t last) {
  Text out(text);
  for (char32_t& c : out) {
    if (c >= first && c <= last) c ^= 0x20;
  }
  return out;
}

// Length of a UTF-8 sequence by its first byte, 0 when no sequence starts with it.
int sequence_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

// Bounds of the second byte; they exclude overlong forms, surrogates and codes above U+10FFFF.
bool second_byte_ok(uint8_t lead, uint8_t byte) {
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return byte >= low && byte <= high;
}

}  // namespace

Text decode_utf8(std::string_view bytes) {
  Text out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const uint8_t lead = static_cast<uint8_t>(bytes[i]);
    const int length = sequence_length(lead);
    if (length <= 1) {
      out += length == 1 ? char32_t{lead} : U'\ufffd';
      ++i;
      continue;
    }
    char32_t code = lead & (0x7f >> length);
    int taken = 1;
    while (taken < length && i + taken < bytes.size()) {
      const uint8_t byte = static_cast<uint8_t>(bytes[i + taken]);
      const bool fits = taken == 1 ? second_byte_ok(lead, byte) : (byte & 0xc0) == 0x80;
      if (!fits) break;
      code = code << 6 | (byte & 0x3f);
      ++taken;
    }
    out += taken == length ? code : U'\ufffd';
    i += taken;
  }
  return out;
}

void append_utf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    *out += static_cast<char>(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      *out += static_cast<char>(0xe0 | c >> 12);
    } else {
      *out += static_cast<char>(0xf0 | c >> 18);
      *out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    }
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
  }
  *out += static_cast<char>(0x80 | (c & 0x3f));
}

std::string encode_utf8(TextView text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (char32_t c : text) append_utf8(c, &out);
  return out;
}

Text widen(std::string_view ascii) {
  return Text(ascii.begin(), ascii.end());
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == U' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= U'a' && (c | 0x20) <= U'z';
  const Range* row = row_before(kLetters, c);
  return row != nullptr && c <= row->last;
}

bool is_lower(char32_t c) {
  if (c < 0x80) return c >= U'a' && c <= U'z';
  return in_runs(kLowercase, c);
}

bool is_upper(char32_t c) {
  if (c < 0x80) return c >= U'A' && c <= U'Z';
  return in_runs(kUppercase, c);
}

bool is_latin_letter(char32_t c) {
  if (!is_letter(c)) return false;
  return c < 0x250 || (c >= 0x1e00 && c < 0x1f00) || (c >= 0x2c60 && c < 0x2c80) ||
         (c >= 0xa720 && c < 0xa800) || (c >= 0xfb00 && c < 0xfb07) ||
         (c >= 0xff21 && c < 0xff5b) || (c >= 0x1d400 && c < 0x1d6a4);
}

int digit_value(char32_t c) {
  if (c < 0x80) return is_ascii_digit(c) ? static_cast<int>(c - U'0') : -1;
  const Code* zero = row_before(kDecimalZeros, c);
  if (zero != nullptr && c - zero->first < 10) return static_cast<int>(c - zero->first);
  const Run* row = row_before(kOtherDigits, c);
  if (row != nullptr && c <= row->last) return static_cast<int>(row->step + (c - row->first));
  return -1;
}

Text to_lower(TextView text) {
  return is_ascii(text) ? map_ascii(text, U'A', U'Z') : map_text(text, kToLower, kToLowerLong);
}

Text to_upper(TextView text) {
  return is_ascii(text) ? map_ascii(text, U'a', U'z') : map_text(text, kToUpper, kToUpperLong);
}

Text capitalize(TextView text) {
  if (text.empty()) return Text();
  Text head = to_upper(text.substr(0, 1));
  if (head.size() > 1) head = head.substr(0, 1) + to_lower(head.substr(1));
  return head + to_lower(text.substr(1));
}

bool all_letters(TextView text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_letter);
}

bool all_digits(TextView text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char32_t c) { return digit_value(c) >= 0; });
}

bool all_ascii_digits(TextView text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_ascii_digit);
}

bool is_lower_text(TextView text) {
  return std::any_of(text.begin(), text.end(), is_lower) &&
         std::none_of(text.begin(), text.end(), is_upper);
}

bool is_upper_text(TextView text) {
  return std::any_of(text.begin(), text.end(), is_upper) &&
         std::none_of(text.begin(), text.end(), is_lower);
}

Text compatibility_form(TextView text) {
  if (is_ascii(text)) return Text(text);
  const Text mapped = map_text(text, kCompatibility, kCompatibilityLong);
  Text out;
  for (char32_t c : mapped) {
    const bool mark = c >= 0x300 && c < 0x370;
    const Composition* pair = nullptr;
    if (mark && !out.empty()) {
      pair = std::find_if(
          std::begin(kCompositions), std::end(kCompositions),
          [&](const Composition& row) { return row.first == out.back() && row.mark == c; });
    }
    if (pair != nullptr && pair != std::end(kCompositions)) {
      out.back() = pair->composed;
    } else {
      out += c;
    }
  }
  return out;
}

TextView trim(TextView text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool contains(TextView text, TextView part) {
  return text.find(part) != TextView::npos;
}

Text replace_all(TextView text, TextView from, TextView to) {
  Text out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != TextView::npos; at = hit + from.size()) {
    out += text.substr(at, hit - at);
    out += to;
  }
  out += text.substr(at);
  return out;
}

}  // namespace omnistage::hibari
