#include "stage_proc/models/hibari/text/compound.h"

#include <algorithm>
#include <tuple>

#include "stage_proc/models/hibari/text/stress.h"

namespace omnistage::hibari {
namespace {

constexpr TextView kGlue = U"',-._‘’/";

Text joined_text(std::vector<Token>::const_iterator first,
                 std::vector<Token>::const_iterator last) {
  Text out;
  for (auto it = first; it != last; ++it) {
    out += it->text;
    if (it->space_after && it + 1 != last) out += U' ';
  }
  return out;
}

// Lower-case letters and marks weigh one, capitals two.
size_t letter_weight(TextView text) {
  size_t weight = 0;
  for (char32_t c : text) {
    const TextView one(&c, 1);
    weight += to_lower(one) == one ? 1 : 2;
  }
  return weight;
}

// Letters, digits and other signs mixed: each part is then a word of its own.
bool mixes_kinds(TextView text) {
  bool letters = false, digits = false, others = false;
  for (char32_t c : text) {
    if (contains(kGlue, c)) continue;
    if (is_letter(c)) {
      letters = true;
    } else if (is_ascii_digit(c)) {
      digits = true;
    } else {
      others = true;
    }
  }
  return letters + digits + others > 1;
}

// A part as it is ranked for losing its stress: unstressed and light ones first.
struct Part {
  bool primary;
  int weight;
  size_t index;
  bool operator<(const Part& o) const {
    return std::tie(primary, weight, index) < std::tie(o.primary, o.weight, o.index);
  }
};

void lower_stress(Token* token) {
  token->phonemes = apply_stress(std::move(*token->phonemes), -0.5);
}

}  // namespace

bool is_glue(TextView text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return contains(kGlue, c); });
}

Token join_tokens(std::vector<Token>::const_iterator first,
                  std::vector<Token>::const_iterator last) {
  Token out;
  out.text = joined_text(first, last);
  size_t heaviest = 0;
  for (auto it = first; it != last; ++it) {
    if (const size_t weight = letter_weight(it->text); it == first || weight > heaviest) {
      heaviest = weight;
      out.tag = it->tag;
    }
    if (it->currency > out.currency) out.currency = it->currency;
  }
  out.space_after = (last - 1)->space_after;
  out.is_head = first->is_head;
  out.space_before = first->space_before;
  return out;
}

void settle_compound(std::vector<Token>* word) {
  const Text text = joined_text(word->begin(), word->end());
  const bool spaced = contains(text, U' ') || contains(text, U'/') || mixes_kinds(text);
  for (size_t i = 0; i < word->size(); ++i) {
    Token& piece = (*word)[i];
    if (piece.phonemes) {
      if (i > 0) piece.space_before = spaced;
    } else if (i + 1 == word->size() && piece.text.size() == 1 &&
               contains(kPauseMarks, piece.text[0])) {
      piece.phonemes = piece.text;
    } else if (is_glue(piece.text)) {
      piece.phonemes = Text();
    }
  }
  if (spaced) return;
  std::vector<Part> parts;
  for (size_t i = 0; i < word->size(); ++i) {
    const auto& phonemes = (*word)[i].phonemes;
    if (phonemes && !phonemes->empty()) {
      parts.push_back({contains(*phonemes, kPrimaryStress), stress_weight(*phonemes), i});
    }
  }
  if (parts.size() == 2 && (*word)[parts[0].index].text.size() == 1) {
    return lower_stress(&(*word)[parts[1].index]);
  }
  const auto stressed = static_cast<size_t>(
      std::count_if(parts.begin(), parts.end(), [](const Part& p) { return p.primary; }));
  if (parts.size() < 2 || stressed <= (parts.size() + 1) / 2) return;
  std::sort(parts.begin(), parts.end());
  for (size_t i = 0; i < parts.size() / 2; ++i) lower_stress(&(*word)[parts[i].index]);
}

Text joined_phonemes(const std::vector<Token>& word) {
  Text out;
  for (const Token& piece : word) {
    if (!piece.phonemes) continue;
    if (piece.space_before && !out.empty() && !is_space(out.back()) && !piece.phonemes->empty())
      out += U' ';
    out += *piece.phonemes;
  }
  return out;
}

}  // namespace omnistage::hibari
