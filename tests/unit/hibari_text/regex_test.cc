#include "stage_proc/models/hibari/text/regex.h"

#include <gtest/gtest.h>

namespace omnistage::hibari {
namespace {

Regex compile(TextView pattern) {
  auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().to_string();
  return regex.ok() ? *regex : Regex();
}

TEST(Regex, GroupsAndReplace) {
  const Regex regex = compile(UR"((\d+)(?:-(\d+))?)");
  RegexMatch match;
  ASSERT_TRUE(regex.search(U"é 12 x", 0, &match));
  EXPECT_EQ(match.start(), 2u);
  EXPECT_EQ(match.group(1), U"12");
  EXPECT_FALSE(match.has(2));
  EXPECT_EQ(match.group(2), U"");
  const Text out =
      regex.replace(U"a 1-2 b 3", [](const RegexMatch& m) { return Text(m.group(1)) + U"!"; });
  EXPECT_EQ(out, U"a 1! b 3!");
  EXPECT_EQ(regex.replace(U"none", [](const RegexMatch&) { return Text(); }), U"none");
}

TEST(Regex, LookbehindSeesTextBeforeTheStart) {
  const Regex regex = compile(U"(?<=a)b");
  RegexMatch match;
  EXPECT_TRUE(regex.search(U"ab", 1, &match));
  EXPECT_FALSE(regex.search(TextView(U"ab").substr(1), 0, &match));
  EXPECT_FALSE(regex.search(U"ab", 5, &match));
}

TEST(Regex, EmptyMatchesDoNotLoop) {
  int count = 0;
  compile(U"x*").for_each(U"axxbx", [&](const RegexMatch&) { ++count; });
  EXPECT_EQ(count, 2);
}

TEST(Regex, BadPatternIsAnError) {
  auto regex = Regex::compile(U"(a");
  EXPECT_EQ(regex.status().code(), StatusCode::kInvalid);
  EXPECT_NE(regex.status().message().find("(a"), std::string::npos);
}

TEST(Regex, ExponentialSearchEnds) {
  EXPECT_FALSE(compile(U"^(a+)+$").matches_at_start(Text(5000, U'a') + U"b"));
}

TEST(Regex, EscapeMatchesLiterally) {
  const Text literal = U"a.b*c[d]^$|(é)\\#&~- _'\"";
  EXPECT_TRUE(compile(U"^" + regex_escape(literal) + U"$").matches_at_start(literal));
  EXPECT_TRUE(compile(U"[" + regex_escape(U"]^-\\") + U"]").matches_at_start(U"-"));
}

}  // namespace
}  // namespace omnistage::hibari
