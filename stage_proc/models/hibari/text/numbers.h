// English number words in the wording the lexicon was made for ("one thousand, two hundred and
// thirty-four"). Numbers are strings of ASCII digits of any length; leading zeros do not count.
// Above 10^36 - 1 there are no scale words and the digits are read one by one. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace omnistage::hibari {

std::string cardinal(std::string_view digits);
std::string cardinal(uint32_t number);
// "twenty-third"
std::string ordinal(std::string_view digits);
std::string ordinal(uint32_t number);
// 0..9999 as a year: "nineteen oh-five", "twenty ten".
std::string year(uint32_t number);
// Digits with at most one '.': "three point one four"; zeros at the end of the fraction are not
// read.
std::string decimal(std::string_view number);

}  // namespace omnistage::hibari
