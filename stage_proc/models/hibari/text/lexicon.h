// Lexicon: the reading of one word from two dictionaries, the regular endings (-s, -ed, -ing),
// spelled letters, function words that change with what follows, and numbers. American English;
// another variant of the language is another pair of dictionaries plus its own rules for the
// endings (see Lexicon::Endings).
//
// Immutable after load; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/dictionary.h"
#include "stage_proc/models/hibari/text/regex.h"
#include "stage_proc/models/hibari/text/token.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

// Units of a currency sign that the lexicon reads itself: "$" -> dollar, cent. Null for any other.
struct CurrencyWords {
  const char* unit;
  const char* part;
};
const CurrencyWords* currency_words(TextView sign);

class Lexicon {
 public:
  using Reading = std::optional<Text>;
  using Stress = std::optional<double>;

  static Result<Lexicon> load(const std::string& gold_path, const std::string& silver_path);

  // The phonemes of a token, or nothing when the lexicon cannot read it.
  Reading operator()(const Token& token, const Context& context) const;

  // A number in ASCII digits with separators, sign, and endings ("1,234.5", "3rd", "1990s").
  // `is_head`: not glued to something before it ("A4" is read digit by digit).
  Reading number(TextView word, TextView currency, bool is_head) const;

 private:
  // A tag of "" means that the part of speech is not known; a null context, that nothing is known
  // to follow.
  Reading lookup(TextView word, std::string_view tag, Stress stress, const Context* context) const;
  Reading spell(TextView letters) const;
  bool is_known(TextView word) const;
  Reading word(TextView word, std::string_view tag, Stress stress, const Context& context) const;
  Reading special_case(TextView word, std::string_view tag, Stress stress,
                       const Context& context) const;
  Reading function_word(TextView word, std::string_view tag, Stress stress,
                        const Context& context) const;
  bool reads_as_lower_case(TextView word, std::string_view tag, Stress stress,
                           const Context& context) const;

  Reading with_s(TextView word, std::string_view tag, Stress stress, const Context* context) const;
  Reading with_ed(TextView word, std::string_view tag, Stress stress, const Context* context) const;
  Reading with_ing(TextView word, std::string_view tag, Stress stress,
                   const Context* context) const;
  // Phonemes of a stem plus the ending's.
  struct Endings {
    static Text s(Text stem);
    static Text ed(Text stem);
    static Text ing(Text stem);
  };

  bool is_number(TextView word, bool is_head) const;
  // The parts of number().
  struct NumberParts;
  void say(std::string_view words, NumberParts* out) const;
  void say_glued(TextView digits, NumberParts* out) const;
  void say_dotted(TextView digits, NumberParts* out) const;
  void say_money(TextView digits, const CurrencyWords& words, NumberParts* out) const;
  void say_plain(TextView digits, bool is_ordinal, NumberParts* out) const;

  Dictionary gold_, silver_;
};

}  // namespace omnistage::hibari
