// Token: one word or mark on its way from text to phonemes. Plain data.
#pragma once

#include <optional>
#include <string>

#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

struct Token {
  Text text;
  std::string tag;  // part of speech
  bool space_after = false;
  bool is_head = true;           // first piece of a word that was written together
  bool space_before = false;     // wants a space before its phonemes inside a joined word
  Text currency;                 // "$" on the last number of an amount
  std::optional<Text> alias;     // read this instead of the text
  std::optional<Text> phonemes;  // unset: not known yet; empty: silent
};

// What a word's reading may depend on: what is spoken after it.
struct Context {
  std::optional<bool> vowel_next;  // unset: a mark or the end follows
  bool to_next = false;            // the word "to" follows
};

}  // namespace omnistage::hibari
