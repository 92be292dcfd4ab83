// ClauseSplitter: cuts streamed text into segments that are spoken one by one. A segment is a
// sentence, a line, or - for the first one, so that speech starts early - a clause or a fixed
// number of words. Markdown is taken out on the way (see markdown.h).
//
// The segments are a function of the whole text: how it was split into pieces decides only when a
// segment comes out, never what it is. That is what lets a replayed request speak the same. One
// thread at a time; holds at most one segment and one word.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stage_proc/models/hibari/text/markdown.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

struct ClauseOptions {
  // The first segment may end at a clause mark (, ; : -) once it has this many words; 0: never.
  size_t first_clause_words = 4;
  // The first segment ends after this many words at the latest; 0: no limit of its own.
  size_t first_words_max = 18;
  // Any segment is cut before it grows beyond these, at its last clause mark when it has one.
  size_t words_max = 60;
  size_t characters_max = 400;
};

class ClauseSplitter : private MarkdownSink {
 public:
  // Limits below 1 word and 32 characters are raised to that.
  explicit ClauseSplitter(ClauseOptions options = {});
  ClauseSplitter(const ClauseSplitter&) = delete;
  ClauseSplitter& operator=(const ClauseSplitter&) = delete;

  // UTF-8, cut anywhere, also inside a character. Returns the segments that are complete now: plain
  // text with single spaces and at least one letter or digit.
  std::vector<std::string> push(std::string_view piece);

  // The rest. The splitter is then as new.
  std::vector<std::string> finish();

 private:
  void word_starts(char32_t first) override;
  void word(Text word) override;
  void line_break() override;
  void feed(std::string_view bytes);
  void add_part(TextView part);
  void cut(size_t words);
  std::vector<std::string> take();

  const ClauseOptions options_;
  MarkdownWords words_;
  std::string partial_;        // bytes of an unfinished character
  std::vector<Text> segment_;  // words so far
  size_t characters_ = 0;      // of segment_, with spaces
  bool first_ = true;          // no segment has come out yet
  std::vector<std::string> ready_;
};

}  // namespace omnistage::hibari
