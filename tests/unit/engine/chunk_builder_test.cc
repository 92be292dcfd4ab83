// ClauseChunkBuilder: where it cuts, and that it loses nothing and depends on the text only.
#include "stage_proc/transfer/chunk_builder.h"

#include <gtest/gtest.h>

#include <random>

#include "stage_proc/sampling/params.h"

namespace omnistage::transfer {
namespace {

std::vector<std::string> cut(const std::string& text, const std::vector<size_t>& borders = {}) {
  ClauseChunkBuilder builder;
  std::vector<std::string> out;
  auto take = [&](const engine::Payload& p) { out.push_back(std::get<std::string>(p.at("text"))); };
  size_t from = 0;
  for (size_t border : borders) {
    for (const engine::Payload& p : builder.push(text.substr(from, border - from))) take(p);
    from = border;
  }
  for (const engine::Payload& p : builder.push(text.substr(from))) take(p);
  if (auto rest = builder.finish()) take(*rest);
  EXPECT_FALSE(builder.finish().has_value());
  return out;
}

using Texts = std::vector<std::string>;

TEST(ClauseChunkBuilder, CutsAfterSentences) {
  EXPECT_EQ(cut("It is. So what? Fine! Done"), (Texts{"It is. ", "So what? ", "Fine! ", "Done"}));
  EXPECT_EQ(cut("He said \"no.\" Then (really!) he left."),
            (Texts{"He said \"no.\" ", "Then (really!) ", "he left."}));
  EXPECT_EQ(cut("one\ntwo\n\nthree"), (Texts{"one\n", "two\n", "\nthree"}));
}

TEST(ClauseChunkBuilder, WordsAndNumbersStayWhole) {
  EXPECT_EQ(cut("Pi is 3.14159 and v1.2.3 is out"), (Texts{"Pi is 3.14159 and v1.2.3 is out"}));
  EXPECT_EQ(cut("a.b!c?d"), (Texts{"a.b!c?d"}));
}

TEST(ClauseChunkBuilder, TheFirstChunkIsShort) {
  EXPECT_EQ(cut("When light enters, it bends, and then, it goes on. Ok"),
            (Texts{"When light enters, ", "it bends, and then, it goes on. ", "Ok"}));
  EXPECT_EQ(cut("Well, you see"), (Texts{"Well, you see"}));
  std::string words;
  for (int i = 0; i < 60; ++i) words += "w ";
  Texts chunks = cut(words);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].size(), 24u);
  EXPECT_EQ(chunks[1].size(), 80u);
}

TEST(ClauseChunkBuilder, NothingInNothingOut) {
  EXPECT_EQ(cut(""), Texts{});
  EXPECT_EQ(cut(" \n "), Texts{" \n "});
}

TEST(ClauseChunkBuilder, EndlessTextWithoutSpacesIsBounded) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\xE2\x82\xAC";
  std::string joined;
  for (const std::string& chunk : cut(text)) {
    EXPECT_LE(chunk.size(), ClauseChunkBuilder::kChunkBytesMax + 3);
    EXPECT_TRUE(sampling::is_valid_utf8(chunk));
    joined += chunk;
  }
  EXPECT_EQ(joined, text);
}

TEST(ClauseChunkBuilder, LosesNothingAndDependsOnTheTextOnly) {
  std::mt19937_64 random(3);
  const Texts alphabet = {"a",
                          "word",
                          " ",
                          " ",
                          " ",
                          ".",
                          ",",
                          "!",
                          "\n",
                          "\"",
                          ")",
                          "\xE2\x80\x94",
                          "\xF0\x9F\x98\x80",
                          "3.5",
                          "?",
                          ";",
                          "\xE2\x80\x9D"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = 0, n = random() % 200; i < n; ++i) text += alphabet[random() % alphabet.size()];
    std::vector<size_t> borders;
    for (size_t at = random() % 9; at < text.size(); at += random() % 9) borders.push_back(at);
    const Texts whole = cut(text), pieces = cut(text, borders);
    EXPECT_EQ(whole, pieces);
    std::string joined;
    for (const std::string& chunk : whole) joined += chunk;
    EXPECT_EQ(joined, text);
    for (size_t i = 0; i + 1 < whole.size(); ++i)
      EXPECT_NE(std::string(" \n").find(whole[i].back()), std::string::npos) << "cut inside a word";
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace omnistage::transfer
