#include "stage_proc/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace omnistage::tokenizer {
namespace {

TEST(Utf8, ReadsEveryLength) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  const char32_t codes[] = {U'a', U'\u00e9', U'\u20ac', U'\U0001F600'};
  size_t at = 0;
  for (const char32_t code : codes) {
    const Utf8Char c = decode_utf8(text, at);
    EXPECT_TRUE(c.valid);
    EXPECT_EQ(c.code, code);
    at += c.length;
  }
  EXPECT_EQ(at, text.size());
}

TEST(Utf8, RefusesOverlongSurrogatesAndTooLarge) {
  for (const std::string bad :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\x80"}) {
    EXPECT_FALSE(decode_utf8(bad, 0).valid) << bad;
    EXPECT_FALSE(decode_utf8(bad, 0).incomplete) << bad;
  }
}

TEST(Utf8, OneReplacementPerMaximalBadPart) {
  // The example of the Unicode standard, section 3.9: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64.
  const std::string bad = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  const std::string r(kReplacementUtf8);
  EXPECT_EQ(repair_utf8(bad), "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Utf8, TellsUnfinishedFromBroken) {
  EXPECT_TRUE(decode_utf8("\xF0\x9F\x98", 0).incomplete);
  EXPECT_TRUE(decode_utf8("\xE2", 0).incomplete);
  EXPECT_FALSE(decode_utf8("\xE2\x28", 0).incomplete);
}

}  // namespace
}  // namespace omnistage::tokenizer
