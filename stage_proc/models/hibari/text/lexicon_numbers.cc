// Numbers as phonemes: years, ordinals, amounts of money, decimals, digits glued to letters.
#include <algorithm>
#include <iterator>
#include <vector>

#include "stage_proc/models/hibari/text/lexicon.h"
#include "stage_proc/models/hibari/text/numbers.h"

namespace omnistage::hibari {
namespace {

constexpr TextView kOrdinalEndings[] = {U"st", U"nd", U"rd", U"th"};

bool is_ordinal_ending(TextView ending) {
  return std::find(std::begin(kOrdinalEndings), std::end(kOrdinalEndings), ending) !=
         std::end(kOrdinalEndings);
}

// Digits of a text that may hold stray marks.
std::string digits_of(TextView text) {
  std::string out;
  for (char32_t c : text) {
    if (is_ascii_digit(c)) out += static_cast<char>(c);
  }
  return out;
}

std::string digits_of(char32_t c) {
  return digits_of(TextView(&c, 1));
}

uint32_t small_value(TextView digits) {
  uint32_t value = 0;
  for (char c : digits_of(digits.substr(0, 9))) value = value * 10 + static_cast<uint32_t>(c - '0');
  return value;
}

bool all_zeros(std::string_view digits) {
  return digits.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

struct Lexicon::NumberParts {
  Text phonemes;
  void add(const Reading& reading) {
    if (!reading) return;
    if (!phonemes.empty()) phonemes += U' ';
    phonemes += *reading;
  }
};

// Number words, separated by anything that is not a lower-case letter. "and" is not spoken.
void Lexicon::say(std::string_view words, NumberParts* out) const {
  for (size_t at = 0; at < words.size();) {
    size_t end = at;
    while (end < words.size() && words[end] >= 'a' && words[end] <= 'z') ++end;
    const std::string_view word = words.substr(at, end - at);
    if (!word.empty() && word != "and") {
      out->add(lookup(widen(word), "", word == "point" ? Stress(-2) : std::nullopt, nullptr));
    }
    at = std::max(end, at + 1);
  }
}

// Glued to letters: "B52", "R2D2", "Route66", "MP3"; three digits go one by two: "F 1-17".
void Lexicon::say_glued(TextView digits, NumberParts* out) const {
  const std::string plain = digits_of(digits);
  if (plain.empty()) return;
  if (plain[0] == '0' || plain.size() > 3) {
    for (char c : plain) say(cardinal(std::string_view(&c, 1)), out);
  } else if (plain.size() == 3 && plain.substr(1) != "00") {
    say(cardinal(plain.substr(0, 1)), out);
    if (plain[1] == '0') {
      out->add(lookup(U"O", "", -2, nullptr));
      say(cardinal(plain.substr(2)), out);
    } else {
      say(cardinal(plain.substr(1)), out);
    }
  } else {
    say(cardinal(plain), out);
  }
}

// Several periods ("192.168.0.1") or a glued decimal: groups, read as numbers where they are round
// or have two digits, else digit by digit.
void Lexicon::say_dotted(TextView digits, NumberParts* out) const {
  while (true) {
    const size_t dot = digits.find(U'.');
    const std::string group = digits_of(digits.substr(0, dot));
    if (!group.empty()) {
      const bool by_digit =
          group[0] == '0' || (group.size() != 2 && !all_zeros(std::string_view(group).substr(1)));
      if (by_digit) {
        for (char c : group) say(cardinal(std::string_view(&c, 1)), out);
      } else {
        say(cardinal(group), out);
      }
    }
    if (dot == TextView::npos) return;
    digits.remove_prefix(dot + 1);
  }
}

void Lexicon::say_money(TextView digits, const CurrencyWords& words, NumberParts* out) const {
  const size_t dot = digits.find(U'.');
  struct Part {
    std::string digits;
    std::string_view unit;
  };
  std::vector<Part> parts = {{digits_of(digits.substr(0, dot)), words.unit}};
  if (dot != TextView::npos) {
    const Part cents = {digits_of(digits.substr(dot + 1)), words.part};
    if (!all_zeros(cents.digits)) {
      if (all_zeros(parts[0].digits)) parts.clear();
      parts.push_back(cents);
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out->add(lookup(U"and", "", std::nullopt, nullptr));
    say(cardinal(parts[i].digits), out);
    const Text unit = widen(parts[i].unit);
    const std::string& d = parts[i].digits;
    const bool one =
        !d.empty() && d.back() == '1' && all_zeros(std::string_view(d).substr(0, d.size() - 1));
    out->add(!one && unit != U"pence" ? with_s(unit + U"s", "", std::nullopt, nullptr)
                                      : lookup(unit, "", std::nullopt, nullptr));
  }
}

void Lexicon::say_plain(TextView digits, bool is_ordinal, NumberParts* out) const {
  if (!contains(digits, U'.')) {
    const bool separators = !all_ascii_digits(digits);
    const std::string plain = digits_of(digits);
    if (!plain.empty()) say(is_ordinal && separators ? ordinal(plain) : cardinal(plain), out);
    return;
  }
  if (digits.front() == U'.') {
    std::string words = "point";
    for (char32_t c : digits.substr(1)) {
      if (is_ascii_digit(c)) words += " " + cardinal(digits_of(c));
    }
    return say(words, out);
  }
  const size_t dot = digits.find(U'.');
  say(decimal(digits_of(digits.substr(0, dot)) + "." + digits_of(digits.substr(dot + 1))), out);
}

Lexicon::Reading Lexicon::number(TextView word, TextView currency, bool is_head) const {
  size_t cut = word.size();
  while (cut > 0 && (word[cut - 1] == U'\'' || (word[cut - 1] >= U'a' && word[cut - 1] <= U'z')))
    --cut;
  const TextView ending = word.substr(cut);
  word = word.substr(0, cut);
  NumberParts out;
  bool negative = false;
  if (word.starts_with(U'-')) {
    negative = true;
    out.add(lookup(U"minus", "", std::nullopt, nullptr));
    word.remove_prefix(1);
  }
  if (word.empty()) return std::nullopt;
  const CurrencyWords* money = currency_words(currency);
  const bool plain_digits = all_ascii_digits(word), is_ordinal = is_ordinal_ending(ending);
  const auto dots = std::count(word.begin(), word.end(), U'.');
  if (plain_digits && is_ordinal) {
    say(ordinal(digits_of(word)), &out);
  } else if (!negative && word.size() == 4 && money == nullptr && plain_digits) {
    say(year(small_value(word)), &out);
  } else if (!is_head && dots == 0) {
    say_glued(word, &out);
  } else if (dots > 1 || !is_head) {
    say_dotted(word, &out);
  } else if (money != nullptr && (dots == 0 || word.size() - word.find(U'.') < 4)) {
    say_money(word, *money, &out);
  } else {
    say_plain(word, is_ordinal, &out);
  }
  if (out.phonemes.empty()) return std::nullopt;
  if (ending == U"s" || ending == U"'s") return Endings::s(std::move(out.phonemes));
  if (ending == U"ed" || ending == U"'d") return Endings::ed(std::move(out.phonemes));
  if (ending == U"ing") return Endings::ing(std::move(out.phonemes));
  return std::move(out.phonemes);
}

bool Lexicon::is_number(TextView word, bool is_head) const {
  if (std::none_of(word.begin(), word.end(), is_ascii_digit)) return false;
  for (TextView ending :
       {TextView(U"ing"), TextView(U"'d"), TextView(U"ed"), TextView(U"'s"), TextView(U"st"),
        TextView(U"nd"), TextView(U"rd"), TextView(U"th"), TextView(U"s")}) {
    if (word.ends_with(ending)) {
      word.remove_suffix(ending.size());
      break;
    }
  }
  for (size_t i = 0; i < word.size(); ++i) {
    const bool sign = is_head && i == 0 && word[i] == U'-';
    if (!is_ascii_digit(word[i]) && word[i] != U',' && word[i] != U'.' && !sign) return false;
  }
  return true;
}

}  // namespace omnistage::hibari
