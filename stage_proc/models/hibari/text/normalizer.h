// Normalizer: rewrites one line of text before it is tokenised, for readings that need more than
// one word at a time: times, dates, units, abbreviations, currencies, Roman numerals, telephone
// numbers, ranges, fractions and symbols. Plain numbers stay as they are; the lexicon reads them.
//
// Immutable after load; any thread.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/regex.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

// The word tables of normalize.json, in the order of the file.
struct NormalizerTables {
  using Words = std::vector<std::pair<Text, Text>>;
  using Plurals = std::vector<std::pair<Text, std::pair<Text, Text>>>;
  Words months, titles, abbreviations, symbols;
  Plurals units, currency;  // name -> (singular, plural)
  std::vector<Text> roman_cardinal, roman_ordinal;

  static Result<NormalizerTables> load(const std::string& path);
};

class Normalizer {
 public:
  static Result<Normalizer> make(NormalizerTables tables);

  Text operator()(TextView text) const;

  // "Dr", "Prof", ...: a period after one of these does not end a sentence.
  bool is_title(TextView word) const { return titles_.count(Text(word)) != 0; }

 private:
  struct SymbolRule {
    Text symbol;
    Text replacement;
    bool between_words;  // only where text stands on both sides
    Regex pattern;
  };
  using Plural = std::pair<Text, Text>;

  Status compile_patterns();
  Status compile_symbols();
  Text times_and_dates(Text text) const;
  Text amounts(Text text) const;
  Text names_and_abbreviations(Text text) const;
  Text number_forms(Text text) const;
  Text symbols(Text text) const;

  Text time(const RegexMatch& match) const;
  Text date(TextView year, uint32_t month, uint32_t day) const;
  Text us_date(const RegexMatch& match) const;
  Text iso_date(const RegexMatch& match) const;
  Text month_day(const RegexMatch& match) const;
  Text day_month(const RegexMatch& match) const;
  Text big_money(const RegexMatch& match) const;
  Text other_currency(const RegexMatch& match) const;
  Text degrees(const RegexMatch& match) const;
  Text fraction(const RegexMatch& match) const;
  const Text& month_name(TextView spelled) const;

  NormalizerTables tables_;
  std::unordered_map<Text, Text> titles_, abbreviations_;
  std::unordered_map<Text, Plural> units_, currency_;
  std::vector<SymbolRule> symbol_rules_;
  Regex space_, time_, us_date_, iso_date_, month_day_, day_month_, unit_, degrees_, cents_,
      currency_amount_, big_money_, title_, abbreviation_, number_sign_word_, hash_,
      roman_cardinal_, roman_ordinal_, phone_, range_, fraction_, plus_, space_before_mark_;
};

}  // namespace omnistage::hibari
