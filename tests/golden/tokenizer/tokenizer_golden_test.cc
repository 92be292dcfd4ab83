// The real SmolLM2 vocabulary against Hugging Face tokenizers: 525 texts, both directions, and the
// streaming way.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stage_proc/config/deploy_config.h"
#include "stage_proc/models/gguf/gguf.h"
#include "stage_proc/models/smollm2/text.h"
#include "stage_proc/tokenizer/tokenizer.h"
#include "stage_proc/tokenizer/utf8.h"

namespace omnistage::tokenizer {
namespace {

using nlohmann::json;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

class TokenizerGolden : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string path = config::default_cache_dir() +
                             "/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
    ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: run scripts/setup";
    auto file = gguf::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    auto text = models::smollm2::ChatText::create(*file, 49152);
    ASSERT_TRUE(text.ok()) << text.status().to_string();
    tokenizer_ = text->tokenizer();
    std::ifstream in(OMS_SOURCE_DIR "/tests/golden/tokenizer/smollm2.json");
    cases_ = json::parse(in).at("cases");
    ASSERT_EQ(cases_.size(), 525u);
  }
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }

  static inline std::shared_ptr<const Tokenizer> tokenizer_;
  static inline json cases_;
};

TEST_F(TokenizerGolden, EncodesEveryCase) {
  for (const json& c : cases_) {
    EXPECT_EQ(tokenizer_->encode(from_hex(c.at("bytes_hex")), true),
              c.at("ids").get<std::vector<int32_t>>())
        << c.at("name");
  }
}

TEST_F(TokenizerGolden, DecodesEveryCaseBack) {
  for (const json& c : cases_) {
    const auto ids = c.at("ids").get<std::vector<int32_t>>();
    const std::string text = repair_utf8(from_hex(c.at("bytes_hex")));
    EXPECT_EQ(tokenizer_->decode(ids, false), text) << c.at("name");
    if (!c.contains("pieces_hex")) continue;
    for (size_t i = 0; i < ids.size(); ++i)
      EXPECT_EQ(tokenizer_->piece_bytes(ids[i]), from_hex(c.at("pieces_hex")[i])) << c.at("name");
  }
}

TEST_F(TokenizerGolden, StreamsOnlyWholeCharacters) {
  for (const json& c : cases_) {
    Detokenizer stream(tokenizer_, false);
    std::string all;
    for (const int32_t id : c.at("ids").get<std::vector<int32_t>>()) {
      const std::string piece = stream.push(id);
      EXPECT_EQ(repair_utf8(piece), piece) << c.at("name");
      all += piece;
    }
    all += stream.finish();
    EXPECT_EQ(all, repair_utf8(from_hex(c.at("bytes_hex")))) << c.at("name");
  }
}

}  // namespace
}  // namespace omnistage::tokenizer
