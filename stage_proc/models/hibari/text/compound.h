// Words that are read from several pieces: joining them and settling their stress. Pure functions.
#pragma once

#include <vector>

#include "stage_proc/models/hibari/text/token.h"

namespace omnistage::hibari {

// Marks the acoustic model has a symbol for; those that are not quotes are heard as a pause.
inline constexpr TextView kSpokenMarks = U";:,.!?—…\"“”";
inline constexpr TextView kPauseMarks = U";:,.!?—…";

// Apostrophes, dashes, periods and slashes only: silent between the parts of a word.
bool is_glue(TextView text);

// One token with the text of all; its tag is that of the piece with the most (and most capital)
// letters.
Token join_tokens(std::vector<Token>::const_iterator first,
                  std::vector<Token>::const_iterator last);

// Makes silent what is still unread, decides whether the parts are spoken with spaces between them,
// and lowers the stress of the lighter parts.
void settle_compound(std::vector<Token>* word);

Text joined_phonemes(const std::vector<Token>& word);

}  // namespace omnistage::hibari
