// StopChecker: order of reasons, hold-back, and that the outcome is a function of the text, not of
// its pieces.
#include "stage_proc/sampling/stop_checker.h"

#include <gtest/gtest.h>

#include <random>

#include "stage_proc/sampling/params.h"

namespace omnistage::sampling {
namespace {

using engine::FinishReason;
using engine::SamplingParams;

struct Outcome {
  std::string text;
  FinishReason reason = FinishReason::kNone;
  std::string stop_string;
  int32_t stop_token_id = -1;
  std::vector<std::string> pieces;
};

// One token (id 100) per piece.
Outcome feed(const SamplingParams& params, const std::vector<std::string>& pieces,
             int32_t max_tokens = 1000, const std::string& tail = "") {
  const std::vector<int32_t> eos = {0};
  StopChecker checker(params, eos, max_tokens);
  Outcome out;
  for (const std::string& piece : pieces) {
    StopDecision d = checker.push(100, piece, [&] { return tail; });
    out.text += d.text;
    out.pieces.push_back(d.text);
    out.reason = d.reason;
    out.stop_string = d.stop_string;
    out.stop_token_id = d.stop_token_id;
    if (d.reason != FinishReason::kNone) break;
  }
  return out;
}

TEST(StopChecker, WithoutStopStringsNothingIsHeldBack) {
  Outcome out = feed({}, {"a", "bc", "d"});
  EXPECT_EQ(out.pieces, (std::vector<std::string>{"a", "bc", "d"}));
  EXPECT_EQ(out.reason, FinishReason::kNone);
}

TEST(StopChecker, EndAndStopIds) {
  SamplingParams params;
  params.stop_token_ids = {7};
  const std::vector<int32_t> eos = {0};
  StopChecker checker(params, eos, 10);
  EXPECT_TRUE(checker.hides(0));
  EXPECT_TRUE(checker.hides(7));
  EXPECT_FALSE(checker.hides(8));
  EXPECT_EQ(checker.push(8, "x", [] { return ""; }).reason, FinishReason::kNone);
  StopDecision d = checker.push(7, "", [] { return "\xEF\xBF\xBD"; });
  EXPECT_EQ(d.reason, FinishReason::kStop);
  EXPECT_EQ(d.stop_token_id, 7);
  EXPECT_EQ(d.text, "\xEF\xBF\xBD");
  EXPECT_EQ(checker.tokens(), 2);

  params.ignore_eos = true;
  StopChecker ignoring(params, eos, 2);
  EXPECT_FALSE(ignoring.hides(0));
  EXPECT_EQ(ignoring.push(0, "", [] { return ""; }).reason, FinishReason::kNone);
  EXPECT_EQ(ignoring.push(0, "", [] { return ""; }).reason, FinishReason::kLength);

  params.include_stop_str_in_output = true;
  EXPECT_FALSE(StopChecker(params, eos, 2).hides(7));
}

TEST(StopChecker, StopStringIsCutAwayOrIncluded) {
  SamplingParams params;
  params.stop = {"STOP"};
  Outcome out = feed(params, {"go on ST", "O", "P more", "never"});
  EXPECT_EQ(out.text, "go on ");
  EXPECT_EQ(out.reason, FinishReason::kStop);
  EXPECT_EQ(out.stop_string, "STOP");
  params.include_stop_str_in_output = true;
  EXPECT_EQ(feed(params, {"go on ST", "O", "P more"}).text, "go on STOP");
}

TEST(StopChecker, HoldsBackLongestStopMinusOneAtCharacterBorders) {
  SamplingParams params;
  params.stop = {"abcd", "x"};
  Outcome out = feed(params, {"12345", "67"}, 2);
  EXPECT_EQ(out.pieces, (std::vector<std::string>{"12", "34567"}));
  EXPECT_EQ(out.reason, FinishReason::kLength);
  // Three bytes back would be inside the euro sign: the border moves before it.
  out = feed(params, {"1\xE2\x82\xAC"
                      "2"});
  EXPECT_EQ(out.pieces, (std::vector<std::string>{"1"}));
}

TEST(StopChecker, TailOfTheDetokeniserCanCompleteAStopString) {
  SamplingParams params;
  params.stop = {"a\xEF\xBF\xBD"};
  Outcome out = feed(params, {"bc", "a"}, 2, "\xEF\xBF\xBD");
  EXPECT_EQ(out.text, "bc");
  EXPECT_EQ(out.reason, FinishReason::kStop);
}

TEST(StopChecker, StopStringsCountOnlyAfterMinTokens) {
  SamplingParams params;
  params.stop = {"ab"};
  params.min_tokens = 2;
  Outcome out = feed(params, {"ab", "ab", "a", "b", "z"});
  EXPECT_EQ(out.text, "abab");
  EXPECT_EQ(out.reason, FinishReason::kStop);
  // It may begin before the border if it ends after it.
  EXPECT_EQ(feed(params, {"ab", "xa", "b"}).text, "abx");
}

TEST(StopChecker, StopStringWinsOverLength) {
  SamplingParams params;
  params.stop = {"end"};
  Outcome out = feed(params, {"the ", "end"}, 2);
  EXPECT_EQ(out.reason, FinishReason::kStop);
  EXPECT_EQ(out.text, "the ");
}

// What the definition says, computed on the whole text.
std::string expected_text(const std::string& text, const std::vector<std::string>& stops,
                          bool include, bool& stopped) {
  size_t best_end = std::string::npos, best_start = 0;
  for (const std::string& stop : stops) {
    const size_t start = text.find(stop);
    if (start == std::string::npos) continue;
    const size_t end = start + stop.size();
    if (end < best_end || (end == best_end && start < best_start))
      best_end = end, best_start = start;
  }
  stopped = best_end != std::string::npos;
  return !stopped ? text : text.substr(0, include ? best_end : best_start);
}

TEST(StopChecker, OutcomeDependsOnTheTextOnly) {
  std::mt19937_64 random(11);
  const std::vector<std::string> alphabet = {
      "a", "b", "c", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  for (int round = 0; round < 3000; ++round) {
    auto make_text = [&](size_t characters) {
      std::string text;
      for (size_t i = 0; i < characters; ++i) text += alphabet[random() % alphabet.size()];
      return text;
    };
    SamplingParams params;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i)
      params.stop.push_back(make_text(1 + random() % 4));
    params.include_stop_str_in_output = random() % 2;
    std::vector<std::string> pieces;
    std::string text;
    for (size_t i = 0, n = 1 + random() % 20; i < n; ++i) {
      pieces.push_back(make_text(random() % 4));
      text += pieces.back();
    }
    Outcome out = feed(params, pieces, static_cast<int32_t>(pieces.size()));
    bool stopped = false;
    EXPECT_EQ(out.text,
              expected_text(text, params.stop, params.include_stop_str_in_output, stopped));
    EXPECT_EQ(out.reason, stopped ? FinishReason::kStop : FinishReason::kLength);
    for (const std::string& piece : out.pieces) EXPECT_TRUE(is_valid_utf8(piece));
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace omnistage::sampling
