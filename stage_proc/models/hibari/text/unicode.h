// Unicode helpers of the text front end. Inside it text is UTF-32, so that one element is one
// character: the rules it ports count and slice characters. Functions are pure; any thread may call
// them.
#pragma once

#include <string>
#include <string_view>

namespace omnistage::hibari {

using Text = std::u32string;
using TextView = std::u32string_view;

// Invalid sequences become U+FFFD, one for each maximal bad piece. The result holds scalar values
// only.
Text decode_utf8(std::string_view bytes);
std::string encode_utf8(TextView text);
void append_utf8(char32_t c, std::string* out);
// ASCII only.
Text widen(std::string_view ascii);

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_latin_letter(char32_t c);
// 0..9 for digits of any script, also raised and circled ones; -1 for all else.
int digit_value(char32_t c);
inline bool is_ascii_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}

Text to_lower(TextView text);
Text to_upper(TextView text);
// First character upper case, the others lower case.
Text capitalize(TextView text);

// These are false for an empty text.
bool all_letters(TextView text);
bool all_digits(TextView text);
bool all_ascii_digits(TextView text);
// At least one cased character, and all cased ones of that case.
bool is_lower_text(TextView text);
bool is_upper_text(TextView text);

// Compatibility normalisation (form KC) for the characters named in make_unicode_tables.py.
Text compatibility_form(TextView text);

TextView trim(TextView text);
bool contains(TextView text, TextView part);
inline bool contains(TextView text, char32_t c) {
  return text.find(c) != TextView::npos;
}
Text replace_all(TextView text, TextView from, TextView to);

}  // namespace omnistage::hibari
