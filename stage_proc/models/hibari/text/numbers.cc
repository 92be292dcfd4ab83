#include "stage_proc/models/hibari/text/numbers.h"

#include <array>
#include <iterator>
#include <utility>
#include <vector>

namespace omnistage::hibari {
namespace {

constexpr const char* kOnes[] = {"zero",    "one",     "two",       "three",    "four",
                                 "five",    "six",     "seven",     "eight",    "nine",
                                 "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                 "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr const char* kTens[] = {"",      "",      "twenty",  "thirty", "forty",
                                 "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr const char* kScales[] = {"",           "thousand",    "million",     "billion",
                                   "trillion",   "quadrillion", "quintillion", "sextillion",
                                   "septillion", "octillion",   "nonillion",   "decillion"};
constexpr std::pair<std::string_view, const char*> kIrregularOrdinals[] = {
    {"one", "first"},    {"two", "second"}, {"three", "third"},   {"five", "fifth"},
    {"eight", "eighth"}, {"nine", "ninth"}, {"twelve", "twelfth"}};

std::string below_thousand(uint32_t n) {
  std::string out;
  if (n >= 100) {
    out = std::string(kOnes[n / 100]) + " hundred";
    n %= 100;
    if (n == 0) return out;
    out += " and ";
  }
  if (n < 20) return out + kOnes[n];
  out += kTens[n / 10];
  if (n % 10 != 0) out += std::string("-") + kOnes[n % 10];
  return out;
}

std::string_view without_leading_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

std::string digit_by_digit(std::string_view digits) {
  std::string out;
  for (char c : digits) {
    if (!out.empty()) out += ' ';
    out += kOnes[c - '0'];
  }
  return out;
}

// The last group is joined with "and" only when it is a single plain number: "one thousand and
// one".
bool joins_with_and(const std::string& last) {
  if (last.find("hundred") != std::string::npos) return false;
  const size_t cut = last.rfind(" and ");
  return last.find(' ', cut == std::string::npos ? 0 : cut + 5) == std::string::npos;
}

std::string ordinal_word(const std::string& word) {
  for (const auto& [from, to] : kIrregularOrdinals) {
    if (word == from) return to;
  }
  if (!word.empty() && word.back() == 'y') return word.substr(0, word.size() - 1) + "ieth";
  return word + "th";
}

}  // namespace

std::string cardinal(std::string_view digits) {
  digits = without_leading_zeros(digits);
  if (digits.empty()) return kOnes[0];
  if (digits.size() > 3 * std::size(kScales)) return digit_by_digit(digits);
  std::vector<std::string> groups;  // highest first
  size_t scale = (digits.size() + 2) / 3;
  for (size_t at = 0; at < digits.size();) {
    const size_t take = (digits.size() - at - 1) % 3 + 1;
    uint32_t value = 0;
    for (size_t i = 0; i < take; ++i)
      value = value * 10 + static_cast<uint32_t>(digits[at + i] - '0');
    at += take;
    --scale;
    if (value == 0 && digits.size() > 3) continue;
    groups.push_back(below_thousand(value));
    if (scale > 0) groups.back() += std::string(" ") + kScales[scale];
  }
  std::string out = groups.front();
  for (size_t i = 1; i < groups.size(); ++i) {
    const bool last = i + 1 == groups.size();
    out += last && joins_with_and(groups[i]) ? " and " : ", ";
    out += groups[i];
  }
  return out;
}

std::string cardinal(uint32_t number) {
  return cardinal(std::to_string(number));
}

std::string ordinal(std::string_view digits) {
  const std::string words = cardinal(digits);
  const size_t cut = words.find_last_of(" -");
  if (cut == std::string::npos) return ordinal_word(words);
  return words.substr(0, cut + 1) + ordinal_word(words.substr(cut + 1));
}

std::string ordinal(uint32_t number) {
  return ordinal(std::to_string(number));
}

std::string year(uint32_t number) {
  const uint32_t high = number / 100, low = number % 100;
  if (high == 0 || (high % 10 == 0 && low < 10) || high >= 100) return cardinal(number);
  std::string tail = low == 0 ? "hundred" : low < 10 ? "oh-" + cardinal(low) : cardinal(low);
  return cardinal(high) + " " + tail;
}

std::string decimal(std::string_view number) {
  const size_t dot = number.find('.');
  std::string out = cardinal(number.substr(0, dot));
  if (dot == std::string_view::npos) return out;
  std::string_view fraction = number.substr(dot + 1);
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (!fraction.empty()) out += " point " + digit_by_digit(fraction);
  return out;
}

}  // namespace omnistage::hibari
