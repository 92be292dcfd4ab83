#include "stage_proc/models/hibari/text/stress.h"

#include <algorithm>

namespace omnistage::hibari {
namespace {

constexpr TextView kHeavy = U"AIOQWYʤʧ";

bool has_vowel(TextView phonemes) {
  return phonemes.find_first_of(kVowels) != TextView::npos;
}

Text without(TextView phonemes, char32_t mark) {
  Text out(phonemes);
  std::erase(out, mark);
  return out;
}

// A stress mark stands right before the vowel it belongs to.
Text mark_first_vowel(Text phonemes, char32_t mark) {
  const size_t vowel = phonemes.find_first_of(kVowels);
  if (vowel != Text::npos) phonemes.insert(vowel, 1, mark);
  return phonemes;
}

}  // namespace

int stress_weight(TextView phonemes) {
  int weight = 0;
  for (char32_t c : phonemes) weight += contains(kHeavy, c) ? 2 : 1;
  return weight;
}

Text apply_stress(Text phonemes, std::optional<double> stress) {
  if (!stress) return phonemes;
  const double level = *stress;
  const bool primary = contains(phonemes, kPrimaryStress),
             secondary = contains(phonemes, kSecondaryStress);
  if (level < -1) return without(without(phonemes, kPrimaryStress), kSecondaryStress);
  if (level == -1 || ((level == 0 || level == -0.5) && primary)) {
    Text out = without(phonemes, kSecondaryStress);
    std::replace(out.begin(), out.end(), kPrimaryStress, kSecondaryStress);
    return out;
  }
  const bool unmarked = !primary && !secondary;
  if ((level == 0 || level == 0.5 || level == 1) && unmarked) {
    return has_vowel(phonemes) ? mark_first_vowel(std::move(phonemes), kSecondaryStress) : phonemes;
  }
  if (level >= 1 && !primary && secondary) {
    std::replace(phonemes.begin(), phonemes.end(), kSecondaryStress, kPrimaryStress);
    return phonemes;
  }
  if (level > 1 && unmarked && has_vowel(phonemes))
    return mark_first_vowel(std::move(phonemes), kPrimaryStress);
  return phonemes;
}

}  // namespace omnistage::hibari
