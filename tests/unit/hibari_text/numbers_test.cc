#include "stage_proc/models/hibari/text/numbers.h"

#include <gtest/gtest.h>

namespace omnistage::hibari {
namespace {

TEST(Numbers, Cardinal) {
  EXPECT_EQ(cardinal(0u), "zero");
  EXPECT_EQ(cardinal(19u), "nineteen");
  EXPECT_EQ(cardinal(42u), "forty-two");
  EXPECT_EQ(cardinal(100u), "one hundred");
  EXPECT_EQ(cardinal(115u), "one hundred and fifteen");
  EXPECT_EQ(cardinal(1000u), "one thousand");
  EXPECT_EQ(cardinal(1001u), "one thousand and one");
  EXPECT_EQ(cardinal(1234u), "one thousand, two hundred and thirty-four");
  EXPECT_EQ(cardinal(1000000u), "one million");
  EXPECT_EQ(cardinal(2000300u), "two million, three hundred");
  EXPECT_EQ(cardinal("007"), "seven");
  EXPECT_EQ(cardinal(""), "zero");
  EXPECT_EQ(cardinal("1" + std::string(33, '0')), "one decillion");
  EXPECT_EQ(cardinal("1" + std::string(36, '0')).substr(0, 18), "one zero zero zero");
}

TEST(Numbers, Ordinal) {
  EXPECT_EQ(ordinal(1u), "first");
  EXPECT_EQ(ordinal(12u), "twelfth");
  EXPECT_EQ(ordinal(20u), "twentieth");
  EXPECT_EQ(ordinal(23u), "twenty-third");
  EXPECT_EQ(ordinal(101u), "one hundred and first");
  EXPECT_EQ(ordinal(1000u), "one thousandth");
}

TEST(Numbers, Year) {
  EXPECT_EQ(year(1905), "nineteen oh-five");
  EXPECT_EQ(year(1900), "nineteen hundred");
  EXPECT_EQ(year(1984), "nineteen eighty-four");
  EXPECT_EQ(year(2000), "two thousand");
  EXPECT_EQ(year(2005), "two thousand and five");
  EXPECT_EQ(year(2024), "twenty twenty-four");
  EXPECT_EQ(year(42), "forty-two");
}

TEST(Numbers, Decimal) {
  EXPECT_EQ(decimal("3.14"), "three point one four");
  EXPECT_EQ(decimal("2.50"), "two point five");
  EXPECT_EQ(decimal("5."), "five");
  EXPECT_EQ(decimal("0.0"), "zero");
}

}  // namespace
}  // namespace omnistage::hibari
