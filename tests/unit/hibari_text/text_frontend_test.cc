// TextFrontend on the real assets: sentences, ids, limits, odd input, and errors of damaged asset
// folders. Readings are compared in tests/golden/hibari_text.
#include "stage_proc/models/hibari/text/text_frontend.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/golden/hibari_text/assets.h"

namespace omnistage::hibari {
namespace {

using Strings = std::vector<std::string>;

class TextFrontendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = TextFrontend::load(asset_dir());
    if (loaded.ok()) {
      frontend_ = *loaded;
    } else {
      ADD_FAILURE() << loaded.status().to_string() << "\n" << kAssetHelp;
    }
  }
  void SetUp() override { ASSERT_NE(frontend_, nullptr) << kAssetHelp; }
  static size_t characters(const std::string& utf8) {
    size_t count = 0;
    for (char c : utf8) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return count;
  }
  static std::shared_ptr<const TextFrontend> frontend_;
};

std::shared_ptr<const TextFrontend> TextFrontendTest::frontend_;

TEST_F(TextFrontendTest, SplitsSentences) {
  EXPECT_EQ(frontend_->split_sentences(" One. Two!  Three?\nfour. five\n\n \n“Six.” Seven "),
            (Strings{"One.", "Two!", "Three?", "four. five", "“Six.", "Seven"}));
  EXPECT_EQ(frontend_->split_sentences("Dr. Smith met J. Doe."), Strings{"Dr. Smith met J. Doe."});
  EXPECT_EQ(frontend_->split_sentences(" \n\n "), Strings{});
  EXPECT_EQ(frontend_->split_sentences(""), Strings{});
}

TEST_F(TextFrontendTest, PhonemesAndIds) {
  const Strings phonemes = frontend_->phonemize("Hello there. Go!");
  EXPECT_EQ(phonemes, (Strings{"həlˈO ðˈɛɹ.", "ɡˌO!"}));
  EXPECT_EQ(frontend_->ids("hə lˈO."), (std::vector<int64_t>{0, 50, 83, 16, 54, 156, 31, 4, 0}));
  EXPECT_EQ(frontend_->ids("\xff中"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(frontend_->ids(""), (std::vector<int64_t>{0, 0}));
}

TEST_F(TextFrontendTest, SilentTextGivesNothing) {
  EXPECT_EQ(frontend_->phonemize(""), Strings{});
  EXPECT_EQ(frontend_->phonemize("\n\n"), Strings{});
  EXPECT_EQ(frontend_->phonemize("🙂"), Strings{});
}

TEST_F(TextFrontendTest, LongSentencesAreCut) {
  std::string clauses, words, solid;
  for (int i = 0; i < 200; ++i) clauses += "one two three, ";
  for (int i = 0; i < 400; ++i) words += "seven ";
  for (int i = 0; i < 600; ++i) solid += "nineteen";
  struct Case {
    std::string text;
    size_t words;  // none may get lost
  };
  // A run without spaces is read in parts of 160 characters.
  for (const Case& c : {Case{clauses, 600}, Case{words, 400}, Case{solid, 600 * 8 / 160}}) {
    const Strings pieces = frontend_->phonemize(c.text);
    EXPECT_GT(pieces.size(), 1u);
    size_t spoken = 0;
    for (const std::string& piece : pieces) {
      EXPECT_GE(characters(piece), 1u);
      EXPECT_LE(characters(piece), TextFrontend::kPhonemesMax);
      spoken += 1 + static_cast<size_t>(std::count(piece.begin(), piece.end(), ' '));
    }
    EXPECT_EQ(spoken, c.words);
  }
  EXPECT_EQ(frontend_->phonemize(clauses).front().substr(0, 6), "wˈʌn");
}

TEST_F(TextFrontendTest, Speakable) {
  for (const char* text :
       {"Hello", "", "123", "!?", "café", "The value of π is 3.14", "a 你", "Москва is Moscow"}) {
    EXPECT_TRUE(frontend_->speakable(text)) << text;
  }
  for (const char* text :
       {"你好，世界", "مرحبا بالعالم", "Привет, мир", "Καλημέρα", "こんにちは、世界 OK です"}) {
    EXPECT_FALSE(frontend_->speakable(text)) << text;
  }
}

TEST_F(TextFrontendTest, OddInputIsRead) {
  const Strings odd = {std::string("nul\0 byte", 9),
                       "\xff\xfe\x80",
                       std::string(2000, '-'),
                       std::string(2000, '\''),
                       std::string(3000, '.'),
                       "-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-",
                       "1" + std::string(500, '0'),
                       "$" + std::string(60, '9') + ".99",
                       "-",
                       "'",
                       "s'",
                       "'s",
                       "2²",
                       "½",
                       "٣:٣٠",
                       "[x](/y/)",
                       "[x](//)",
                       "[]()",
                       ",,,,1,,,,",
                       "1.2.3.4.5",
                       "-5",
                       "5'9\"",
                       "#",
                       "$",
                       "$.",
                       "st",
                       "0th",
                       "1,st",
                       ".5",
                       "5.",
                       "A.B.C.D.E",
                       "....a....",
                       "\xe2\x80\x8b"};
  for (const std::string& text : odd) {
    for (const std::string& piece : frontend_->phonemize(text)) {
      EXPECT_LE(characters(piece), TextFrontend::kPhonemesMax) << text;
    }
  }
}

// The package stops with an exception here.
TEST_F(TextFrontendTest, RaisedDigitsInUnknownWordsAreReadWithWhatFollows) {
  EXPECT_EQ(frontend_->phonemize("②Zorblax"), Strings{"tˈu " + frontend_->phonemize("Zorblax")[0]});
}

TEST_F(TextFrontendTest, RandomTextIsRead) {
  static const char* const kParts[] = {"'",  "’", "-",  ".",   ",",  "/",   ":",   "$",   "£", "%",
                                       "(",  ")", "[",  "](",  "\"", "1",   "20",  "305", "0", "th",
                                       "st", "s", "'s", "ing", "a",  "The", "USB", "é",   "ß", "ж",
                                       "½",  "²", "°",  "C",   " ",  " ",   " ",   "\n",  "—", "_",
                                       "*",  "#", "@",  "x",   "Dr", "II"};
  std::mt19937 rng(11);
  std::uniform_int_distribution<size_t> pick(0, std::size(kParts) - 1);
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += kParts[pick(rng)];
    for (const std::string& piece : frontend_->phonemize(text)) {
      EXPECT_LE(characters(piece), TextFrontend::kPhonemesMax) << text;
      EXPECT_FALSE(piece.empty());
    }
  }
}

TEST_F(TextFrontendTest, ThreadsShareOneFrontend) {
  const std::string text = "Zorblax paid $3.50 at 7:30 pm on March 3rd, didn't he?";
  const Strings expected = frontend_->phonemize(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) equal[t] += frontend_->phonemize(text) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 20));
}

// A copy of the asset folder (links) in which one file is missing or holds other text.
class DamagedAssets {
 public:
  DamagedAssets(const std::string& file, const char* content)
      : dir_(testing::TempDir() + "oms_hibari_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directory(dir_);
    for (const auto& entry : std::filesystem::directory_iterator(asset_dir())) {
      if (entry.path().filename() != file) {
        std::filesystem::create_symlink(entry.path(),
                                        dir_ + "/" + entry.path().filename().string());
      }
    }
    if (content != nullptr) std::ofstream(dir_ + "/" + file) << content;
  }
  ~DamagedAssets() { std::filesystem::remove_all(dir_); }
  const std::string& dir() const { return dir_; }

 private:
  std::string dir_;
};

TEST_F(TextFrontendTest, DamagedAssetsAreNamed) {
  for (const char* file :
       {"normalize.json", "tokenizer_exceptions.json", "tagger.json", "lexicon_us_gold.json",
        "lexicon_us_silver.json", "oov.json", "oov.safetensors", "vocab.json"}) {
    for (const char* content :
         {static_cast<const char*>(nullptr), "{}", "[1]", "{\"x\": {\"y\": \"z\"", ""}) {
      const DamagedAssets assets(file, content);
      auto loaded = TextFrontend::load(assets.dir());
      // An empty table of special cases is odd but complete.
      if (std::string_view(file) == "tokenizer_exceptions.json" && content != nullptr &&
          std::string_view(content) == "{}") {
        EXPECT_TRUE(loaded.ok());
        continue;
      }
      ASSERT_FALSE(loaded.ok()) << file << " " << (content ? content : "(missing)");
      EXPECT_NE(loaded.status().message().find(file), std::string::npos)
          << loaded.status().message();
      EXPECT_EQ(loaded.status().code(), content ? StatusCode::kInvalid : StatusCode::kNotFound);
    }
  }
  EXPECT_EQ(TextFrontend::load("/nonexistent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace omnistage::hibari
