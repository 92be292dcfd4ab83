// MarkdownWords: takes the text of a language model one character at a time and hands on the words
// a voice should read. Marks of Markdown are dropped (emphasis, code ticks, headings, list and
// quote marks, rules, table bars, link targets, HTML tags); fenced code blocks are left out; a URL
// becomes its host name.
//
// What comes out depends on the characters alone, not on how they were grouped on the way. Memory
// is bounded: at most one word (kWordMax characters) is held back. One thread at a time.
#pragma once

#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

class MarkdownSink {
 public:
  virtual ~MarkdownSink() = default;
  // The first character of the next word, as soon as it is known; the word itself may be dropped
  // later.
  virtual void word_starts(char32_t first) = 0;
  // Never empty; may contain spaces.
  virtual void word(Text word) = 0;
  virtual void line_break() = 0;
};

class MarkdownWords {
 public:
  static constexpr size_t kWordMax = 256;  // longer runs without a space are cut

  explicit MarkdownWords(MarkdownSink* sink) : sink_(sink) {}

  void feed(char32_t c);
  // Ends the last word and line, and starts afresh.
  void finish();

 private:
  void end_word();
  void end_line();
  bool take_line_mark(TextView word);
  bool take_list_number(TextView word);
  Text clean(Text word);
  void drop_link_targets(Text* word);

  MarkdownSink* sink_;
  Text word_;
  Text list_number_;          // seen at the start of the line; spoken only when nothing follows it
  uint32_t last_number_ = 0;  // of the last list item
  Text fence_;                // of the code block we are in
  bool line_start_ = true;
  bool word_announced_ = false;
  bool skip_to_space_ = false;  // rest of a word that was cut and is not spoken
  int link_words_left_ = 0;     // inside a link target that has spaces
};

}  // namespace omnistage::hibari
