// ClauseSplitter: where it cuts, what Markdown it takes out, and that the pieces do not matter.
#include "stage_proc/models/hibari/text/clause_splitter.h"

#include <gtest/gtest.h>

#include <random>

namespace omnistage::hibari {
namespace {

using Segments = std::vector<std::string>;

// No early cut, so that the tests of other rules see sentences.
ClauseOptions whole_sentences() {
  ClauseOptions options;
  options.first_clause_words = 0;
  options.first_words_max = 0;
  return options;
}

Segments split(std::string_view text, ClauseOptions options = whole_sentences()) {
  ClauseSplitter splitter(options);
  Segments out = splitter.push(text);
  for (std::string& segment : splitter.finish()) out.push_back(std::move(segment));
  return out;
}

TEST(ClauseSplitter, CutsAtSentenceEnds) {
  EXPECT_EQ(split("Hello there. How are you? Fine! Well… yes."),
            (Segments{"Hello there.", "How are you?", "Fine!", "Well… yes."}));
  EXPECT_EQ(split("He said \"Stop.\" Then he left."),
            (Segments{"He said \"Stop.\"", "Then he left."}));
  EXPECT_EQ(split("Pi is 3.14 and e is 2.72. Next"),
            (Segments{"Pi is 3.14 and e is 2.72.", "Next"}));
}

TEST(ClauseSplitter, AbbreviationsAndInitialsDoNotEndASentence) {
  EXPECT_EQ(split("Dr. Smith met J. K. Rowling, e.g. Monday. Then Mr. Fox came."),
            (Segments{"Dr. Smith met J. K. Rowling, e.g. Monday.", "Then Mr. Fox came."}));
  EXPECT_EQ(split("It costs approx. ten euros. ok? yes"),
            (Segments{"It costs approx. ten euros. ok? yes"}));
}

TEST(ClauseSplitter, ASentenceComesOutWithTheFirstLetterOfTheNext) {
  ClauseSplitter splitter(whole_sentences());
  EXPECT_EQ(splitter.push("One two."), Segments{});
  EXPECT_EQ(splitter.push(" "), Segments{});
  EXPECT_EQ(splitter.push("**"), Segments{});
  EXPECT_EQ(splitter.push("T"), Segments{"One two."});
  EXPECT_EQ(splitter.push("hree**\n"), Segments{"Three"});
  EXPECT_EQ(splitter.finish(), Segments{});
}

TEST(ClauseSplitter, FirstSegmentEndsEarly) {
  ClauseOptions options;
  options.first_clause_words = 3;
  options.first_words_max = 6;
  EXPECT_EQ(split("Well, the sky is blue, because light scatters, a lot.", options),
            (Segments{"Well, the sky is blue,", "because light scatters, a lot."}));
  EXPECT_EQ(split("one two three four five six seven eight, nine ten", options),
            (Segments{"one two three four five six", "seven eight, nine ten"}));
  EXPECT_EQ(split("Yes. It is so, of course, my dear.", options),
            (Segments{"Yes.", "It is so, of course, my dear."}));
}

TEST(ClauseSplitter, LongSegmentsAreCutAtTheirLastClauseMark) {
  ClauseOptions options = whole_sentences();
  options.words_max = 8;
  EXPECT_EQ(split("a b c d, e f g h i j k l m n o p q r", options),
            (Segments{"a b c d,", "e f g h i j k l", "m n o p q r"}));
  options.words_max = 1000;
  options.characters_max = 32;
  for (const std::string& segment :
       split(std::string(5000, 'x') + " yy " + std::string(40, 'z'), options)) {
    EXPECT_LE(segment.size(), 32u);
  }
}

TEST(ClauseSplitter, InlineMarkdownIsNotSpoken) {
  EXPECT_EQ(split("This is **bold**, *it*, __b__, _i_, ~~gone~~ and `code`."),
            Segments{"This is bold, it, b, i, gone and code."});
  EXPECT_EQ(split("See [the docs](https://a.example/x_(y)?q=1#z), ok"),
            Segments{"See the docs, ok"});
  EXPECT_EQ(split("![A cat](cat.png) sits"), Segments{"A cat sits"});
  EXPECT_EQ(split("[Link](http://x.example \"some title\") after"), Segments{"Link after"});
  EXPECT_EQ(split("a<br>b <b>bold</b> 1 < 2"), Segments{"ab bold 1 < 2"});
  EXPECT_EQ(split("Use snake_case and 2*3 and 2**3 and 4 * 5"),
            Segments{"Use snake_case and 2 times 3 and 2 to the power of 3 and 4 times 5"});
  EXPECT_EQ(split("\\*not bold\\*"), Segments{"not bold"});
}

TEST(ClauseSplitter, LineMarksAreNotSpoken) {
  EXPECT_EQ(split("# Title\n\n- one\n* two\n+ three\n• four\n> quote\n---\nend"),
            (Segments{"Title", "one", "two", "three", "four", "quote", "end"}));
  EXPECT_EQ(split("1. Mix\n2. Bake\n   3) Eat\n"), (Segments{"Mix", "Bake", "Eat"}));
  EXPECT_EQ(split("- [ ] open\n- [x] done"), (Segments{"open", "done"}));
  EXPECT_EQ(split("| a | b |\n|---|---|\n| 1 | 2 |"), (Segments{"a, b,", "1, 2,"}));
}

TEST(ClauseSplitter, NumbersThatAreNoListMarksAreSpoken) {
  EXPECT_EQ(split("1."), Segments{"1."});
  EXPECT_EQ(split("4. Two and two is four."), (Segments{"4.", "Two and two is four."}));
  EXPECT_EQ(split("1. a\n5. b"), (Segments{"a", "5. b"}));
}

TEST(ClauseSplitter, UrlsBecomeHostNames) {
  EXPECT_EQ(split("Go to https://www.example.com/a/b?c=d#e. Then (http://user@host.example:80/x)."),
            (Segments{"Go to example.com.", "Then (host.example)."}));
  EXPECT_EQ(split("<https://example.org> or www.example.net/path, ok"),
            Segments{"example.org or example.net, ok"});
  const std::string tail(2000, 'q');
  EXPECT_EQ(split("at https://example.com/" + tail + " now"), Segments{"at example.com now"});
}

TEST(ClauseSplitter, CodeBlocksAreLeftOut) {
  EXPECT_EQ(split("Like this:\n```python\nx = 1\n\nprint(x)\n```\nDone."),
            (Segments{"Like this:", "Done."}));
  EXPECT_EQ(split("~~~\n```\ncode\n~~~\nafter"), Segments{"after"});
  EXPECT_EQ(split("```\nnever closed"), Segments{});
}

TEST(ClauseSplitter, SilentTextGivesNothing) {
  EXPECT_EQ(split(""), Segments{});
  EXPECT_EQ(split(" \n\n \t"), Segments{});
  EXPECT_EQ(split("— … !!! 🙂\n***\n"), Segments{});
}

TEST(ClauseSplitter, FinishStartsAfresh) {
  ClauseSplitter splitter;
  splitter.push("```\ncode");
  EXPECT_EQ(splitter.finish(), Segments{});
  const std::string text = "One two three four, five six.";
  Segments first = splitter.push(text), rest = splitter.finish();
  EXPECT_EQ(first, Segments{"One two three four,"});
  EXPECT_EQ(rest, Segments{"five six."});
  EXPECT_EQ(splitter.push(text), first);
}

TEST(ClauseSplitter, BrokenUtf8IsReplaced) {
  EXPECT_EQ(split("caf\xc3\xa9 \xff ok \xe2\x82"), Segments{"café \xef\xbf\xbd ok \xef\xbf\xbd"});
}

// Text made of the things that have rules, so that every rule meets every cut.
std::string random_text(std::mt19937* rng) {
  static const char* const kParts[] = {"Hello",
                                       "there.",
                                       "Dr.",
                                       "He",
                                       "said",
                                       "\"Stop.\"",
                                       "**bold**",
                                       "_it_",
                                       "`code`",
                                       "[a link](http://x.y/z)",
                                       "[two words](http://x.y \"t\")",
                                       "https://www.example.com/a?b=c.",
                                       "\n",
                                       "\n\n",
                                       "\n- ",
                                       "\n1. ",
                                       "\n2. ",
                                       "\n# ",
                                       "\n```\nx = 1\n```\n",
                                       "\n---\n",
                                       "\n| a | b |\n",
                                       "naïve",
                                       "café,",
                                       "“quoted.”",
                                       "3.14",
                                       "2*3",
                                       "*",
                                       "end!",
                                       "Really?",
                                       "…",
                                       "—",
                                       "e.g.",
                                       "J.",
                                       "K.",
                                       "你好",
                                       "🙂",
                                       "\xff",
                                       "\xe2\x82",
                                       "a;",
                                       "b:",
                                       "www.x.org,",
                                       "1,250"};
  std::uniform_int_distribution<size_t> pick(0, std::size(kParts) - 1), length(1, 60), space(0, 9);
  std::string out;
  for (size_t n = length(*rng); n > 0; --n) {
    out += kParts[pick(*rng)];
    if (space(*rng) != 0) out += ' ';
  }
  return out;
}

TEST(ClauseSplitter, SegmentsDoNotDependOnThePieces) {
  std::mt19937 rng(7);
  ClauseSplitter reused;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(&rng);
    const Segments whole = split(text, ClauseOptions());
    Segments pieces;
    std::uniform_int_distribution<size_t> length(0, round % 3 == 0 ? 1 : 12);
    for (size_t at = 0; at < text.size();) {
      const size_t take = std::min(length(rng), text.size() - at);
      for (std::string& segment : reused.push(std::string_view(text).substr(at, take))) {
        pieces.push_back(std::move(segment));
      }
      at += take;
    }
    for (std::string& segment : reused.finish()) pieces.push_back(std::move(segment));
    ASSERT_EQ(pieces, whole) << text;
  }
}

}  // namespace
}  // namespace omnistage::hibari
