// Phoneme classes and stress marks of the model's alphabet. Pure functions.
#pragma once

#include <optional>

#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

inline constexpr char32_t kPrimaryStress = U'ˈ';
inline constexpr char32_t kSecondaryStress = U'ˌ';
inline constexpr TextView kVowels = U"AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ";
inline constexpr TextView kConsonants = U"bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ";

// Diphthongs and affricates weigh two, all else one.
int stress_weight(TextView phonemes);

// Raises or lowers the stress of a word. Below -1: no marks at all. -1: primary becomes secondary.
// -0.5 and 0: the same where there is a primary. 0 to 1: an unmarked word gets a secondary. From 1:
// a secondary becomes primary; above 1 an unmarked word gets a primary. Unset: unchanged.
Text apply_stress(Text phonemes, std::optional<double> stress);

}  // namespace omnistage::hibari
