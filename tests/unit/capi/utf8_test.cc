#include "capi/state/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace omnistage::capi {
namespace {

TEST(Utf8, AcceptsEveryLengthAndItsBorders) {
  for (const char* text :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(utf8_valid(text)) << text;
  }
}

TEST(Utf8, RefusesBrokenText) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_FALSE(utf8_valid(text));
    EXPECT_EQ(utf8_valid_prefix(std::string("ab") + text), 2u);
  }
}

}  // namespace
}  // namespace omnistage::capi
