// Regular endings: the stem is looked up and the ending is added to its phonemes.
#include "stage_proc/models/hibari/text/lexicon.h"

namespace omnistage::hibari {
namespace {

// After one of these a t before a vowel is a tap in American English.
constexpr TextView kTapBefore = U"AIOWYiuæɑəɛɪɹʊʌ";

TextView drop(TextView word, size_t count) {
  return word.substr(0, word.size() - count);
}

bool taps(const Text& stem) {
  return stem.size() > 1 && stem.back() == U't' && contains(kTapBefore, stem[stem.size() - 2]);
}

// "running": a doubled consonant or "ck" before -ing that the stem does not have.
bool doubles_before_ing(TextView word) {
  if (word.ends_with(U"cking")) return true;
  const TextView stem = drop(word, 3);
  return stem.size() > 1 && contains(U"bcdgklmnprstvxz", stem.back()) &&
         stem[stem.size() - 2] == stem.back();
}

}  // namespace

Text Lexicon::Endings::s(Text stem) {
  if (stem.empty()) return stem;
  if (contains(U"ptkfθ", stem.back())) return stem + U"s";
  if (contains(U"szʃʒʧʤ", stem.back())) return stem + U"ᵻz";
  return stem + U"z";
}

Text Lexicon::Endings::ed(Text stem) {
  if (stem.empty()) return stem;
  if (contains(U"pkfθʃsʧ", stem.back())) return stem + U"t";
  if (stem.back() == U'd') return stem + U"ᵻd";
  if (stem.back() != U't') return stem + U"d";
  if (stem.size() < 2) return stem + U"ɪd";
  if (taps(stem)) return Text(drop(stem, 1)) + U"ɾᵻd";
  return stem + U"ᵻd";
}

Text Lexicon::Endings::ing(Text stem) {
  if (stem.empty()) return stem;
  if (taps(stem)) return Text(drop(stem, 1)) + U"ɾɪŋ";
  return stem + U"ɪŋ";
}

Lexicon::Reading Lexicon::with_s(TextView word, std::string_view tag, Stress stress,
                                 const Context* context) const {
  if (word.size() < 3 || !word.ends_with(U's')) return std::nullopt;
  const bool es = word.ends_with(U"es"), ies = word.ends_with(U"ies");
  Text stem;
  if (!word.ends_with(U"ss") && is_known(drop(word, 1))) {
    stem = drop(word, 1);
  } else if ((word.ends_with(U"'s") || (word.size() > 4 && es && !ies)) &&
             is_known(drop(word, 2))) {
    stem = drop(word, 2);
  } else if (word.size() > 4 && ies && is_known(Text(drop(word, 3)) + U"y")) {
    stem = Text(drop(word, 3)) + U"y";
  } else {
    return std::nullopt;
  }
  Reading reading = lookup(stem, tag, stress, context);
  if (!reading || reading->empty()) return std::nullopt;
  return Endings::s(std::move(*reading));
}

Lexicon::Reading Lexicon::with_ed(TextView word, std::string_view tag, Stress stress,
                                  const Context* context) const {
  if (word.size() < 4 || !word.ends_with(U'd')) return std::nullopt;
  Text stem;
  if (!word.ends_with(U"dd") && is_known(drop(word, 1))) {
    stem = drop(word, 1);
  } else if (word.size() > 4 && word.ends_with(U"ed") && !word.ends_with(U"eed") &&
             is_known(drop(word, 2))) {
    stem = drop(word, 2);
  } else {
    return std::nullopt;
  }
  Reading reading = lookup(stem, tag, stress, context);
  if (!reading || reading->empty()) return std::nullopt;
  return Endings::ed(std::move(*reading));
}

Lexicon::Reading Lexicon::with_ing(TextView word, std::string_view tag, Stress stress,
                                   const Context* context) const {
  if (word.size() < 5 || !word.ends_with(U"ing")) return std::nullopt;
  Text stem;
  if (word.size() > 5 && is_known(drop(word, 3))) {
    stem = drop(word, 3);
  } else if (is_known(Text(drop(word, 3)) + U"e")) {
    stem = Text(drop(word, 3)) + U"e";
  } else if (word.size() > 5 && doubles_before_ing(word) && is_known(drop(word, 4))) {
    stem = drop(word, 4);
  } else {
    return std::nullopt;
  }
  Reading reading = lookup(stem, tag, stress, context);
  if (!reading || reading->empty()) return std::nullopt;
  return Endings::ing(std::move(*reading));
}

}  // namespace omnistage::hibari
