#include "stage_proc/models/hibari/text/lexicon.h"

#include <algorithm>

#include "stage_proc/models/hibari/text/stress.h"

namespace omnistage::hibari {
namespace {

constexpr double kCapitalStress = 0.5, kAllCapsStress = 2;

// Signs read as a word wherever they stand.
const char32_t* sign_word(TextView sign) {
  if (sign == U"%") return U"percent";
  if (sign == U"&") return U"and";
  if (sign == U"+") return U"plus";
  if (sign == U"@") return U"at";
  return nullptr;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Dictionary entries know only the wide classes.
std::string_view wide_class(std::string_view tag) {
  if (starts_with(tag, "VB")) return "VERB";
  if (starts_with(tag, "NN")) return "NOUN";
  if (starts_with(tag, "ADV") || starts_with(tag, "RB")) return "ADV";
  if (starts_with(tag, "ADJ") || starts_with(tag, "JJ")) return "ADJ";
  return tag;
}

bool is_lexicon_character(char32_t c) {
  return c == U'\'' || c == U'-' || (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z');
}

// "U.S.A", "e.g": letters with inner periods, no part longer than two.
bool is_dotted_abbreviation(TextView word) {
  TextView inner = word;
  while (!inner.empty() && inner.front() == U'.') inner.remove_prefix(1);
  while (!inner.empty() && inner.back() == U'.') inner.remove_suffix(1);
  if (!contains(inner, U'.')) return false;
  size_t part = 0;
  bool letters = false;
  for (char32_t c : word) {
    if (c != U'.' && !is_letter(c)) return false;
    letters |= c != U'.';
    part = c == U'.' ? 0 : part + 1;
    if (part > 2) return false;
  }
  return letters;
}

Text without_apostrophes(TextView word) {
  Text out(word);
  std::erase(out, U'\'');
  return out;
}

// Raised, circled and non-Latin digits become plain ones.
Text plain_digits(Text word) {
  for (char32_t& c : word) {
    if (const int value = digit_value(c); value >= 0) c = U'0' + static_cast<char32_t>(value);
  }
  return word;
}

}  // namespace

const CurrencyWords* currency_words(TextView sign) {
  static constexpr CurrencyWords kDollar = {"dollar", "cent"}, kPound = {"pound", "pence"},
                                 kEuro = {"euro", "cent"};
  if (sign == U"$") return &kDollar;
  if (sign == U"£") return &kPound;
  if (sign == U"€") return &kEuro;
  return nullptr;
}

Result<Lexicon> Lexicon::load(const std::string& gold_path, const std::string& silver_path) {
  Lexicon lexicon;
  OMS_ASSIGN_OR_RETURN(lexicon.gold_, Dictionary::load(gold_path));
  OMS_ASSIGN_OR_RETURN(lexicon.silver_, Dictionary::load(silver_path));
  for (char32_t letter = U'A'; letter <= U'Z'; ++letter) {
    if (lexicon.gold_.find(TextView(&letter, 1)) == nullptr) {
      return invalid(gold_path + ": no entry for the letter " + static_cast<char>(letter));
    }
  }
  return lexicon;
}

// A word spelled letter by letter: "USB". The last letter carries the stress.
Lexicon::Reading Lexicon::spell(TextView letters) const {
  Text out;
  for (char32_t c : letters) {
    if (!is_letter(c)) continue;
    const Pronunciation* entry = gold_.find(to_upper(TextView(&c, 1)));
    std::string_view phonemes;
    if (entry == nullptr || !entry->get("", &phonemes)) return std::nullopt;
    out += decode_utf8(phonemes);
  }
  out = apply_stress(std::move(out), 0);
  if (const size_t last = out.rfind(kSecondaryStress); last != Text::npos)
    out[last] = kPrimaryStress;
  return out;
}

bool Lexicon::is_known(TextView word) const {
  if (gold_.contains(word) || sign_word(word) != nullptr || silver_.contains(word)) return true;
  if (!all_letters(word) || !std::all_of(word.begin(), word.end(), is_lexicon_character))
    return false;
  if (word.size() == 1) return true;
  if (word == to_upper(word) && gold_.contains(to_lower(word))) return true;
  return word.substr(1) == to_upper(word.substr(1));
}

Lexicon::Reading Lexicon::lookup(TextView word, std::string_view tag, Stress stress,
                                 const Context* context) const {
  Text lower;
  bool is_name = false;
  if (word == to_upper(word) && !gold_.contains(word)) {
    lower = to_lower(word);
    word = lower;
    is_name = tag == "NNP";
  }
  const Pronunciation* entry = gold_.find(word);
  if (entry == nullptr && !is_name) entry = silver_.find(word);
  Reading phonemes;
  if (entry != nullptr) {
    if (entry->depends_on_tag()) {
      const bool at_pause = context != nullptr && !context->vowel_next;
      if (at_pause && entry->has("None")) {
        tag = "None";
      } else if (!entry->has(tag)) {
        tag = wide_class(tag);
      }
    }
    std::string_view text;
    if (entry->get(tag, &text)) phonemes = decode_utf8(text);
  }
  if (!phonemes || (is_name && !contains(*phonemes, kPrimaryStress))) return spell(word);
  return apply_stress(std::move(*phonemes), stress);
}

Lexicon::Reading Lexicon::special_case(TextView word, std::string_view tag, Stress stress,
                                       const Context& context) const {
  if (tag == "ADD" && word == U".") return lookup(U"dot", "", -0.5, &context);
  if (tag == "ADD" && word == U"/") return lookup(U"slash", "", -0.5, &context);
  if (const char32_t* name = sign_word(word)) return lookup(name, "", std::nullopt, &context);
  if (is_dotted_abbreviation(word)) return spell(word);
  if (tag == "IN" && (to_lower(word) == U"vs" || to_lower(word) == U"vs.")) {
    return lookup(U"versus", "", std::nullopt, &context);
  }
  return word.size() <= 4 ? function_word(word, tag, stress, context) : std::nullopt;
}

// Small words whose vowel or stress follows from their use and from the sound after them.
Lexicon::Reading Lexicon::function_word(TextView word, std::string_view tag, Stress stress,
                                        const Context& context) const {
  const Text lower = to_lower(word);
  const bool all_caps = word.size() > 1 && word == to_upper(word), noun = starts_with(tag, "NN");
  if (lower == U"a") return Text(tag == "DT" ? U"ɐ" : U"ˈA");
  if (word == U"I" && tag == "PRP") return Text(U"ˌI");
  if (word != lower && !all_caps && word != capitalize(word)) return std::nullopt;
  if (lower == U"am") {
    if (noun) return spell(word);
    const bool strong = !context.vowel_next || word != U"am" || (stress && *stress > 0);
    return strong ? lookup(U"am", "", std::nullopt, nullptr) : Text(U"ɐm");
  }
  if (lower == U"an") return all_caps && noun ? spell(word) : Text(U"ɐn");
  if (lower == U"by" && wide_class(tag) == "ADV") return Text(U"bˈI");
  if (lower == U"to" && (!all_caps || tag == "TO" || tag == "IN")) {
    if (!context.vowel_next) return lookup(U"to", "", std::nullopt, nullptr);
    return Text(*context.vowel_next ? U"tʊ" : U"tə");
  }
  if (lower == U"in" && (!all_caps || tag != "NNP")) {
    return Text(!context.vowel_next || tag != "IN" ? U"ˈɪn" : U"ɪn");
  }
  if (lower == U"the" && (!all_caps || tag == "DT")) {
    return Text(context.vowel_next.value_or(false) ? U"ði" : U"ðə");
  }
  if (lower == U"used") {
    const bool habit = (tag == "VBD" || tag == "JJ") && context.to_next;
    return lookup(U"used", habit ? "VBD" : "", std::nullopt, nullptr);
  }
  return std::nullopt;
}

// "HELLO" and "Dickensian" are read like their lower-case forms when those are known.
bool Lexicon::reads_as_lower_case(TextView word, std::string_view tag, Stress stress,
                                  const Context& context) const {
  if (word.size() < 2 || !all_letters(without_apostrophes(word))) return false;
  const Text lower = to_lower(word);
  if (word == lower || (tag == "NNP" && word.size() <= 7)) return false;
  if (gold_.contains(word) || silver_.contains(word)) return false;
  const TextView tail = word.substr(1);
  if (word != to_upper(word) && tail != to_lower(tail)) return false;
  if (gold_.contains(lower) || silver_.contains(lower)) return true;
  for (const auto& reading :
       {with_s(lower, tag, stress, &context), with_ed(lower, tag, stress, &context),
        with_ing(lower, tag, stress, &context)}) {
    if (reading && !reading->empty()) return true;
  }
  return false;
}

Lexicon::Reading Lexicon::word(TextView written, std::string_view tag, Stress stress,
                               const Context& context) const {
  if (Reading special = special_case(written, tag, stress, context)) return special;
  Text word(written);
  if (reads_as_lower_case(word, tag, stress, context)) word = to_lower(word);
  if (is_known(word)) return lookup(word, tag, stress, &context);
  if (word.ends_with(U"s'")) {
    const Text singular = word.substr(0, word.size() - 2) + U"'s";
    if (is_known(singular)) return lookup(singular, tag, stress, &context);
  }
  if (word.ends_with(U"'")) {
    const Text bare = word.substr(0, word.size() - 1);
    if (is_known(bare)) return lookup(bare, tag, stress, &context);
  }
  if (Reading reading = with_s(word, tag, stress, &context)) return reading;
  if (Reading reading = with_ed(word, tag, stress, &context)) return reading;
  return with_ing(word, tag, stress.value_or(0.5), &context);
}

Lexicon::Reading Lexicon::operator()(const Token& token, const Context& context) const {
  Text written = token.alias.value_or(token.text);
  for (char32_t& c : written) {
    if (c == U'‘' || c == U'’') c = U'\'';
  }
  written = plain_digits(compatibility_form(written));
  Stress stress;
  if (written != to_lower(written))
    stress = written == to_upper(written) ? kAllCapsStress : kCapitalStress;
  if (Reading reading = word(written, token.tag, stress, context)) {
    const CurrencyWords* currency = currency_words(token.currency);
    if (currency == nullptr) return reading;
    const Reading unit = with_s(widen(currency->unit) + U"s", "", std::nullopt, nullptr);
    return unit ? *reading + U" " + *unit : reading;
  }
  if (is_number(written, token.is_head)) return number(written, token.currency, token.is_head);
  return std::nullopt;
}

}  // namespace omnistage::hibari
