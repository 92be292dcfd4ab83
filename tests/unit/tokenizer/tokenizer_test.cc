// Rules of the tokenizer on a small vocabulary; the real one is in tests/golden/tokenizer.
#include "stage_proc/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "stage_proc/tokenizer/bpe.h"
#include "stage_proc/tokenizer/utf8.h"

namespace omnistage::tokenizer {
namespace {

std::string alphabet_piece(int byte) {
  // The inverse of Bpe::piece_to_bytes by search: 256 characters below U+0144.
  for (char32_t c = 0x21; c < 0x144; ++c) {
    std::string piece;
    if (c < 0x80)
      piece = {static_cast<char>(c)};
    else
      piece = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    if (Bpe::piece_to_bytes(piece) == std::string(1, static_cast<char>(byte))) return piece;
  }
  return {};
}

// Two specials, 256 bytes, and the words "ab", "abc", "bc", " a".
BpeData small_vocabulary() {
  BpeData data;
  data.pieces = {"<|start|>", "<|end|>"};
  data.special_ids = {0, 1};
  for (int b = 0; b < 256; ++b) data.pieces.push_back(alphabet_piece(b));
  const std::string space = alphabet_piece(' ');
  for (const std::string& piece :
       {std::string("bc"), std::string("ab"), std::string("abc"), space + "a"})
    data.pieces.push_back(piece);
  data.merges = {"b c", "a b", "a bc", space + " a"};
  return data;
}
constexpr int32_t byte_id(int b) {
  return b + 2;
}
constexpr int32_t kBc = 258, kAbc = 260, kSpaceA = 261;

std::shared_ptr<const Tokenizer> small_tokenizer() {
  auto tokenizer = Tokenizer::create(small_vocabulary());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return *tokenizer;
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const auto t = small_tokenizer();
  EXPECT_EQ(t->encode("abc"), (std::vector<int32_t>{kAbc}));  // "b c" first, then "a bc"
  EXPECT_EQ(t->encode("bcbc"), (std::vector<int32_t>{kBc, kBc}));
  EXPECT_EQ(t->encode(" a"), (std::vector<int32_t>{kSpaceA}));
}

TEST(Tokenizer, EveryNumberCharacterStandsAlone) {
  const auto t = small_tokenizer();
  EXPECT_EQ(t->encode("12"), (std::vector<int32_t>{byte_id('1'), byte_id('2')}));
  EXPECT_EQ(t->encode("a1bc"), (std::vector<int32_t>{byte_id('a'), byte_id('1'), kBc}));
}

TEST(Tokenizer, UserTextCanNotForgeSpecialPieces) {
  const auto t = small_tokenizer();
  EXPECT_EQ(t->encode("<|end|>", true), (std::vector<int32_t>{1}));
  const std::vector<int32_t> plain = t->encode("<|end|>", false);
  EXPECT_EQ(plain.size(), 7u);
  EXPECT_EQ(t->decode(plain), "<|end|>");
}

TEST(Tokenizer, DecodeSkipsSpecialsOnRequest) {
  const auto t = small_tokenizer();
  EXPECT_EQ(t->decode({0, kAbc, 1}), "abc");
  EXPECT_EQ(t->decode({0, kAbc, 1}, false), "<|start|>abc<|end|>");
  EXPECT_EQ(t->decode({-5, 999999, kAbc}), "abc");  // ids from outside are harmless
}

TEST(Tokenizer, ALongRunIsNotQuadratic) {
  const auto t = small_tokenizer();
  std::string text(200000, 'b');
  text += "c";
  const auto ids = t->encode(text);
  EXPECT_EQ(ids.size(), 200000u);
  EXPECT_EQ(ids.back(), kBc);
}

TEST(Tokenizer, BadVocabulariesAreNamed) {
  BpeData data = small_vocabulary();
  data.merges.push_back("b nowhere");
  EXPECT_NE(Tokenizer::create(data).status().message().find("b nowhere"), std::string::npos);
  data = small_vocabulary();
  data.special_ids.push_back(100000);
  EXPECT_NE(Tokenizer::create(data).status().message().find("100000"), std::string::npos);
  EXPECT_FALSE(Tokenizer::create({}).ok());
}

TEST(Detokenizer, HoldsBackPartsOfACharacter) {
  const auto t = small_tokenizer();
  Detokenizer d(t);
  EXPECT_EQ(d.push(byte_id(0xF0)), "");
  EXPECT_EQ(d.push(byte_id(0x9F)), "");
  EXPECT_EQ(d.push(byte_id(0x98)), "");
  EXPECT_EQ(d.push(byte_id(0x80)), "\U0001F600");
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, ReplacesWhatStaysBroken) {
  const auto t = small_tokenizer();
  const std::string r(kReplacementUtf8);
  Detokenizer d(t);
  EXPECT_EQ(d.push(byte_id(0xE2)), "");
  EXPECT_EQ(d.push(byte_id('x')), r + "x");
  EXPECT_EQ(d.push(byte_id(0xE2)), "");
  EXPECT_EQ(d.finish(), r);
}

TEST(Detokenizer, EveryPieceItEmitsIsWholeUtf8) {
  const auto t = small_tokenizer();
  uint64_t state = 7;
  for (int run = 0; run < 200; ++run) {
    Detokenizer d(t);
    std::string bytes, out;
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const int b =
          (state >> 33) % 3 == 0 ? 0x80 + (state >> 40) % 0x40 : 0xC0 + (state >> 40) % 0x40;
      bytes.push_back(static_cast<char>(b));
      const std::string piece = d.push(byte_id(b));
      EXPECT_EQ(repair_utf8(piece), piece);
      out += piece;
    }
    out += d.finish();
    EXPECT_EQ(out, repair_utf8(bytes));
  }
}

}  // namespace
}  // namespace omnistage::tokenizer
