#include "stage_proc/models/hibari/text/normalizer.h"

#include <algorithm>

#include "stage_proc/models/hibari/text/numbers.h"

namespace omnistage::hibari {
namespace {

const Text kNumber = UR"(\d+(?:,\d{3})*(?:\.\d+)?)";
const Text kRoman = UR"(((?=[IVXLC])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})))";
const Text kBig = UR"((hundred|thousand|million|billion|trillion|[kKmMbB]\b))";
constexpr const char32_t* kFractions[] = {nullptr,    nullptr,  U"half",  U"third",
                                          U"quarter", U"fifth", U"sixth", U"seventh",
                                          U"eighth",  U"ninth", U"tenth"};

// Alternatives, longest first, so that "km/h" is tried before "km".
Text alternatives(std::vector<Text> words) {
  std::stable_sort(words.begin(), words.end(),
                   [](const Text& a, const Text& b) { return a.size() > b.size(); });
  Text out;
  for (const Text& word : words) {
    if (!out.empty()) out += U'|';
    out += regex_escape(word);
  }
  return out;
}

template <typename Pairs>
std::vector<Text> first_of_each(const Pairs& pairs) {
  std::vector<Text> out;
  for (const auto& pair : pairs) out.push_back(pair.first);
  return out;
}

// The patterns allow digits of any script.
std::string ascii_digits(TextView digits) {
  std::string out;
  for (char32_t c : digits) {
    if (const int value = digit_value(c); value >= 0) out += static_cast<char>('0' + value);
  }
  return out;
}

// At most four digits in all patterns that use it.
uint32_t small_number(TextView digits) {
  uint32_t value = 0;
  for (char c : ascii_digits(digits)) value = value * 10 + static_cast<uint32_t>(c - '0');
  return value;
}

Text decimal_text(uint32_t value) {
  return widen(std::to_string(value));
}

const Text& plural(TextView amount, const std::pair<Text, Text>& forms) {
  const Text plain = replace_all(amount, U",", U"");
  return plain == U"1" || plain == U"1.0" || plain == U"-1" ? forms.first : forms.second;
}

Text scale_word(TextView spelled) {
  const Text lower = to_lower(spelled);
  if (lower == U"k") return U"thousand";
  if (lower == U"m") return U"million";
  if (lower == U"b") return U"billion";
  return Text(spelled);
}

uint32_t roman_value(TextView numeral) {
  static constexpr TextView kLetters = U"IVXLCDM";
  static constexpr uint32_t kValues[] = {1, 5, 10, 50, 100, 500, 1000};
  auto value = [](char32_t c) { return kValues[kLetters.find(c)]; };
  uint32_t total = 0;
  for (size_t i = 0; i < numeral.size(); ++i) {
    const uint32_t v = value(numeral[i]);
    const bool subtract = i + 1 < numeral.size() && value(numeral[i + 1]) > v;
    total = subtract ? total - v : total + v;
  }
  return total;
}

}  // namespace

Result<Normalizer> Normalizer::make(NormalizerTables tables) {
  Normalizer n;
  n.tables_ = std::move(tables);
  for (const auto& [key, value] : n.tables_.titles) n.titles_[key] = value;
  for (const auto& [key, value] : n.tables_.abbreviations) n.abbreviations_[key] = value;
  for (const auto& [key, value] : n.tables_.units) n.units_[key] = value;
  for (const auto& [key, value] : n.tables_.currency) n.currency_[key] = value;
  for (const char32_t* needed :
       {U"$", U"£", U"€", U"¥", U"₹", U"₩", U"¢", U"Rs", U"USD", U"EUR", U"GBP"}) {
    if (n.currency_.count(needed) == 0) {
      return invalid("normalize.json: currency has no entry for " + encode_utf8(needed));
    }
  }
  OMS_RETURN_IF_ERROR(n.compile_patterns());
  OMS_RETURN_IF_ERROR(n.compile_symbols());
  return n;
}

Status Normalizer::compile_patterns() {
  Status first_error;
  auto set = [&](Regex* out, const Text& pattern) {
    auto made = Regex::compile(pattern);
    if (made.ok()) {
      *out = std::move(*made);
    } else if (first_error.ok()) {
      first_error = made.status();
    }
  };
  std::vector<Text> month_words;
  for (const auto& [short_name, name] : tables_.months) month_words.push_back(name);
  for (const auto& [short_name, name] : tables_.months)
    month_words.push_back(capitalize(short_name));
  month_words.push_back(U"Sept");
  const Text months = alternatives(month_words);
  const Text amount = UR"((?<![\w.])(-?)" + kNumber + U")";

  set(&space_, UR"(\s+)");
  set(&time_, UR"(\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s?([AaPp])\.?[Mm]\.?(?![A-Za-z]))?(?!\d))");
  set(&us_date_, UR"(\b(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})\b)");
  set(&iso_date_, UR"(\b(\d{4})-(\d{2})-(\d{2})\b)");
  set(&month_day_,
      UR"(\b()" + months + UR"()\.? (\d{1,2})(?:st|nd|rd|th)?\b(?![\d:%])(,? \d{4}\b)?)");
  set(&day_month_, UR"(\b(the )?(\d{1,2}) (?:of )?()" + months + UR"()\b\.?)");
  set(&unit_, amount + UR"(\s?()" + alternatives(first_of_each(tables_.units)) + UR"()(?![\w]))");
  set(&degrees_, amount + UR"(\s?°\s?([CF])?(?![\w]))");
  set(&cents_, UR"((?<![\w.])()" + kNumber + UR"()\s?¢)");
  set(&currency_amount_,
      UR"((?<![\w])([¥₹₩]|Rs\.?|USD|EUR|GBP)\s?()" + kNumber + UR"()(?:\s?)" + kBig + U")?");
  set(&big_money_, UR"(([$£€])()" + kNumber + UR"()\s?)" + kBig);
  set(&title_, UR"(\b()" + alternatives(first_of_each(tables_.titles)) + UR"()\.? (?=[A-Z]))");
  set(&abbreviation_,
      UR"((?<![\w.])()" + alternatives(first_of_each(tables_.abbreviations)) + UR"()(?![\w]))");
  set(&number_sign_word_, UR"(\b(No|Nos)\. ?(?=\d))");
  set(&hash_, UR"((?<![\w&])#(?=\d))");
  const Text not_possessive = UR"(\b(?![.'’]\w))";
  set(&roman_cardinal_,
      UR"(\b()" + alternatives(tables_.roman_cardinal) + U") " + kRoman + not_possessive);
  set(&roman_ordinal_,
      UR"(\b()" + alternatives(tables_.roman_ordinal) + U") " + kRoman + not_possessive);
  set(&phone_, UR"((?<![\w.\-])(?:\d{3}-)?\d{3}-\d{4}(?![\w.\-]))");
  set(&range_, UR"((?<![\w.\-])(\d{1,4})\s?[-–]\s?(\d{1,4})(?![\w.\-%]))");
  set(&fraction_, UR"((?<![\w./])(\d{1,2})/(\d{1,2})(?![\w./]))");
  set(&plus_, UR"((?<![\w+])\+(?=\d))");
  set(&space_before_mark_, UR"( +([,.;:!?]))");
  return first_error;
}

Status Normalizer::compile_symbols() {
  for (const auto& [symbol, word] : tables_.symbols) {
    if (symbol.empty()) return invalid("normalize.json: symbols has an empty key");
    SymbolRule rule;
    rule.symbol = symbol;
    rule.replacement = word.empty() ? Text(U" ") : U" " + word + U" ";
    rule.between_words = symbol.size() == 1 && contains(U"=<>~", symbol[0]);
    if (rule.between_words) {
      OMS_ASSIGN_OR_RETURN(rule.pattern,
                           Regex::compile(UR"((?<=\S) ?)" + regex_escape(symbol) + UR"( ?(?=\S))"));
    }
    symbol_rules_.push_back(std::move(rule));
  }
  return Status();
}

Text Normalizer::operator()(TextView text) const {
  auto one_space = [](const RegexMatch&) { return Text(U" "); };
  Text out(trim(space_.replace(text, one_space)));
  if (out.empty()) return out;
  out = replace_all(out, U"’", U"'");
  out = replace_all(out, U"‒", U"-");
  out = replace_all(out, U"―", U"—");
  out = times_and_dates(std::move(out));
  out = amounts(std::move(out));
  out = names_and_abbreviations(std::move(out));
  out = number_forms(std::move(out));
  out = symbols(std::move(out));
  out = space_.replace(out, one_space);
  out = space_before_mark_.replace(out, [](const RegexMatch& m) { return Text(m.group(1)); });
  return Text(trim(out));
}

// The order of the rules is part of the behaviour: later ones see what earlier ones wrote.
Text Normalizer::times_and_dates(Text text) const {
  text = time_.replace(text, [&](const RegexMatch& m) { return time(m); });
  text = iso_date_.replace(text, [&](const RegexMatch& m) { return iso_date(m); });
  return us_date_.replace(text, [&](const RegexMatch& m) { return us_date(m); });
}

Text Normalizer::amounts(Text text) const {
  text = big_money_.replace(text, [&](const RegexMatch& m) { return big_money(m); });
  text = cents_.replace(text, [&](const RegexMatch& m) {
    return Text(m.group(1)) + U" " + plural(m.group(1), currency_.at(U"¢"));
  });
  text = currency_amount_.replace(text, [&](const RegexMatch& m) { return other_currency(m); });
  text = degrees_.replace(text, [&](const RegexMatch& m) { return degrees(m); });
  return unit_.replace(text, [&](const RegexMatch& m) {
    return Text(m.group(1)) + U" " + plural(m.group(1), units_.at(Text(m.group(2))));
  });
}

Text Normalizer::names_and_abbreviations(Text text) const {
  text = month_day_.replace(text, [&](const RegexMatch& m) { return month_day(m); });
  text = day_month_.replace(text, [&](const RegexMatch& m) { return day_month(m); });
  text = title_.replace(text,
                        [&](const RegexMatch& m) { return titles_.at(Text(m.group(1))) + U" "; });
  text = abbreviation_.replace(text, [&](const RegexMatch& m) {
    // The period of an abbreviation at the very end is also the end of the sentence.
    const bool ends = m.end() == m.subject().size() && m.group(1).back() == U'.';
    return abbreviations_.at(Text(m.group(1))) + (ends ? U"." : U"");
  });
  text = number_sign_word_.replace(text, [](const RegexMatch& m) {
    return Text(m.group(1) == U"No" ? U"Number " : U"Numbers ");
  });
  return hash_.replace(text, [](const RegexMatch&) { return Text(U"number "); });
}

Text Normalizer::number_forms(Text text) const {
  text = roman_cardinal_.replace(text, [](const RegexMatch& m) {
    return Text(m.group(1)) + U" " + decimal_text(roman_value(m.group(2)));
  });
  text = roman_ordinal_.replace(text, [](const RegexMatch& m) {
    return Text(m.group(1)) + U" the " + widen(ordinal(roman_value(m.group(2))));
  });
  text = phone_.replace(text, [](const RegexMatch& m) {
    Text out;
    for (char32_t c : replace_all(m.text(), U"-", U", ")) {
      if (!out.empty()) out += U' ';
      out += c;
    }
    return out;
  });
  text = fraction_.replace(text, [&](const RegexMatch& m) { return fraction(m); });
  text = range_.replace(
      text, [](const RegexMatch& m) { return Text(m.group(1)) + U" to " + Text(m.group(2)); });
  return plus_.replace(text, [](const RegexMatch&) { return Text(U"plus "); });
}

Text Normalizer::symbols(Text text) const {
  for (const SymbolRule& rule : symbol_rules_) {
    if (!contains(text, rule.symbol)) continue;
    text = rule.between_words
               ? rule.pattern.replace(text, [&](const RegexMatch&) { return rule.replacement; })
               : replace_all(text, rule.symbol, rule.replacement);
  }
  return text;
}

Text Normalizer::time(const RegexMatch& m) const {
  const uint32_t hour = small_number(m.group(1)), minute = small_number(m.group(2));
  const uint32_t second = small_number(m.group(3));
  const bool seconds = m.has(3), half_day = m.has(4);
  if (hour > 24 || minute > 59 || second > 59) return Text(m.text());
  std::string words = cardinal(hour);
  if (minute == 0) {
    if (!half_day && !seconds) words += " o'clock";
  } else {
    words += (minute < 10 ? " oh " : " ") + cardinal(minute);
  }
  if (seconds) words += " and " + cardinal(second) + (second == 1 ? " second" : " seconds");
  Text out = widen(words);
  if (half_day) {  // with periods, so that the lexicon spells the letters
    const bool period_follows = m.end() < m.subject().size() && m.subject()[m.end()] == U'.';
    out += U" " + to_upper(m.group(4)) + U".M" + (period_follows ? U"" : U".");
  }
  return out;
}

// Empty when month or day is out of range.
Text Normalizer::date(TextView year, uint32_t month, uint32_t day) const {
  if (month < 1 || month > 12 || day < 1 || day > 31) return Text();
  Text out = tables_.months[month - 1].second + U" " + widen(ordinal(day));
  if (!year.empty()) out += U", " + Text(year);
  return out;
}

Text Normalizer::us_date(const RegexMatch& m) const {
  const uint32_t a = small_number(m.group(1)), b = small_number(m.group(2));
  Text year(m.group(3));
  if (year.size() == 2) year = (small_number(year) > 30 ? U"19" : U"20") + year;
  const Text out = a <= 12 ? date(year, a, b) : date(year, b, a);
  return out.empty() ? Text(m.text()) : out;
}

Text Normalizer::iso_date(const RegexMatch& m) const {
  const Text out = date(m.group(1), small_number(m.group(2)), small_number(m.group(3)));
  return out.empty() ? Text(m.text()) : out;
}

const Text& Normalizer::month_name(TextView spelled) const {
  const Text key = to_lower(spelled).substr(0, 3);
  for (const auto& [short_name, name] : tables_.months) {
    if (short_name == key) return name;
  }
  return tables_.months[0].second;  // not reached: the pattern is made from the same table
}

Text Normalizer::month_day(const RegexMatch& m) const {
  const uint32_t day = small_number(m.group(2));
  if (day < 1 || day > 31) return Text(m.text());
  return month_name(m.group(1)) + U" " + widen(ordinal(day)) + Text(m.group(3));
}

Text Normalizer::day_month(const RegexMatch& m) const {
  const uint32_t day = small_number(m.group(2));
  if (day < 1 || day > 31) return Text(m.text());
  return U"the " + widen(ordinal(day)) + U" of " + month_name(m.group(3));
}

Text Normalizer::big_money(const RegexMatch& m) const {
  return Text(m.group(2)) + U" " + scale_word(m.group(3)) + U" " +
         currency_.at(Text(m.group(1))).second;
}

Text Normalizer::other_currency(const RegexMatch& m) const {
  Text symbol(m.group(1));
  if (symbol.back() == U'.') symbol.pop_back();
  const Plural& words = currency_.at(symbol);
  const Text amount(m.group(2));
  if (m.has(3)) return amount + U" " + scale_word(m.group(3)) + U" " + words.second;
  return amount + U" " + plural(amount, words);
}

Text Normalizer::degrees(const RegexMatch& m) const {
  static const Plural kWords = {U"degree", U"degrees"};
  Text out = Text(m.group(1)) + U" " + plural(m.group(1), kWords);
  if (m.group(2) == U"C") out += U" Celsius";
  if (m.group(2) == U"F") out += U" Fahrenheit";
  return out;
}

Text Normalizer::fraction(const RegexMatch& m) const {
  const uint32_t a = small_number(m.group(1)), b = small_number(m.group(2));
  if (0 < a && a < b && b <= 10) {
    if (b == 2) return a == 1 ? Text(U"one half") : decimal_text(a) + U" halves";
    return decimal_text(a) + U" " + kFractions[b] + (a == 1 ? U"" : U"s");
  }
  if (1 <= a && a <= 12 && 1 <= b && b <= 31) return date(U"", a, b);
  return decimal_text(a) + U" slash " + decimal_text(b);
}

}  // namespace omnistage::hibari
