// Character classes, case, compatibility forms and UTF-8; the expected values are Python's.
#include "stage_proc/models/hibari/text/unicode.h"

#include <gtest/gtest.h>

namespace omnistage::hibari {
namespace {

TEST(Unicode, Utf8RoundTrip) {
  const std::string text = "a\u00e9\u20ac\U0001f642\u007f\u0080\u07ff\u0800\uffff\U0010ffff";
  EXPECT_EQ(encode_utf8(decode_utf8(text)), text);
  EXPECT_EQ(decode_utf8(text).size(), 10u);
}

TEST(Unicode, BadUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(decode_utf8("a\xff\x62"), U"a\ufffdb");
  EXPECT_EQ(decode_utf8("\xc0\xaf"), U"\ufffd\ufffd");            // overlong
  EXPECT_EQ(decode_utf8("\xed\xa0\x80"), U"\ufffd\ufffd\ufffd");  // surrogate
  EXPECT_EQ(decode_utf8("\xf4\x90\x80\x80"), U"\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(decode_utf8("\xe2\x82"), U"\ufffd");
  EXPECT_EQ(decode_utf8("\xe2\x82z"), U"\ufffdz");
}

TEST(Unicode, Classes) {
  EXPECT_TRUE(all_letters(U"aZéßŁΩж中ªʼ"));
  for (char32_t c : TextView(U"1_-'½²…€\u0301\u00a0🙂"))
    EXPECT_FALSE(is_letter(c)) << static_cast<uint32_t>(c);
  EXPECT_TRUE(is_space(U'\u00a0') && is_space(U'\u3000') && is_space(U'\t'));
  EXPECT_FALSE(is_space(U'\u200b') || is_space(U'x'));
  EXPECT_EQ(digit_value(U'7'), 7);
  EXPECT_EQ(digit_value(U'٣'), 3);
  EXPECT_EQ(digit_value(U'²'), 2);
  EXPECT_EQ(digit_value(U'⑨'), 9);
  EXPECT_EQ(digit_value(U'½'), -1);
  EXPECT_EQ(digit_value(U'x'), -1);
  EXPECT_TRUE(is_latin_letter(U'é') && is_latin_letter(U'Z') && is_latin_letter(U'ﬁ'));
  EXPECT_FALSE(is_latin_letter(U'ж') || is_latin_letter(U'中') || is_latin_letter(U'5'));
}

TEST(Unicode, Case) {
  EXPECT_EQ(to_lower(U"ÀÉŁΩЖǅABC1"), U"àéłωжǆabc1");
  EXPECT_EQ(to_upper(U"àéłωжßﬁy"), U"ÀÉŁΩЖSSFIY");
  EXPECT_EQ(to_upper(U"ÿāăąćĉ"), U"ŸĀĂĄĆĈ");
  EXPECT_EQ(capitalize(U"éCOLE"), U"École");
  EXPECT_EQ(capitalize(U""), U"");
  EXPECT_TRUE(is_lower_text(U"abc1") && is_upper_text(U"ÀB-2"));
  EXPECT_FALSE(is_lower_text(U"aB") || is_upper_text(U"123") || is_lower_text(U""));
}

TEST(Unicode, CompatibilityForm) {
  EXPECT_EQ(compatibility_form(U"ﬁx ＡＢ１ x² ½ Ⅳ ① 𝐁old µ …"), U"fix AB1 x2 1⁄2 IV 1 Bold μ ...");
  EXPECT_EQ(compatibility_form(U"cafe\u0301 n\u0303"), U"café ñ");
  EXPECT_EQ(compatibility_form(U"plain"), U"plain");
}

}  // namespace
}  // namespace omnistage::hibari
