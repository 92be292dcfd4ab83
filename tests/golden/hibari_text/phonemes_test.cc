// The readings of 300 sentences beside those of the Python package hibari-tts (phonemes.json,
// written by make_goldens.py): at least 99 % of the package's words must come out equal. Every
// difference is printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stage_proc/models/hibari/text/text_frontend.h"
#include "tests/golden/hibari_text/assets.h"

namespace omnistage::hibari {
namespace {

using Strings = std::vector<std::string>;

// Words of all sentences of one text, with a bar between sentences so that these count, too.
Strings words_of(const Strings& sentences) {
  Strings out;
  for (const std::string& sentence : sentences) {
    if (!out.empty()) out.push_back("|");
    std::istringstream stream(sentence);
    for (std::string word; stream >> word;) out.push_back(word);
  }
  return out;
}

struct Agreement {
  size_t equal = 0;
  size_t extra = 0;  // words of ours that the package does not have
  std::string differences;
};

// Longest common subsequence: a missing word costs itself and not all words after it.
Agreement compare(const Strings& expected, const Strings& ours) {
  const size_t n = expected.size(), m = ours.size();
  std::vector<std::vector<size_t>> best(n + 1, std::vector<size_t>(m + 1, 0));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      best[i][j] = expected[i] == ours[j] ? best[i + 1][j + 1] + 1
                                          : std::max(best[i + 1][j], best[i][j + 1]);
    }
  }
  Agreement out;
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && expected[i] == ours[j]) {
      ++i, ++j, ++out.equal;
    } else if (j == m || (i < n && best[i + 1][j] >= best[i][j + 1])) {
      out.differences += " -" + expected[i++];
    } else {
      out.differences += " +" + ours[j++];
      ++out.extra;
    }
  }
  return out;
}

TEST(HibariText, ComparisonCountsWords) {
  EXPECT_EQ(compare({"a", "b", "c"}, {"a", "b", "c"}).equal, 3u);
  const Agreement one_off = compare({"a", "b", "c"}, {"a", "x", "c"});
  EXPECT_EQ(one_off.equal, 2u);
  EXPECT_EQ(one_off.differences, " -b +x");
  EXPECT_EQ(compare({"a", "b"}, {"z", "a", "b"}).extra, 1u);
  EXPECT_EQ(compare({"a"}, {}).equal, 0u);
}

TEST(HibariText, WordsAgreeWithThePackage) {
  auto frontend = TextFrontend::load(asset_dir());
  ASSERT_TRUE(frontend.ok()) << frontend.status().to_string() << "\n" << kAssetHelp;
  std::ifstream file(OMS_SOURCE_DIR "/tests/golden/hibari_text/phonemes.json");
  const auto golden = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(golden.is_object()) << "phonemes.json cannot be read";
  const auto& sentences = golden.at("sentences");
  ASSERT_GE(sentences.size(), 300u);

  size_t words = 0, equal = 0, extra = 0;
  for (const auto& item : sentences) {
    const std::string text = item.at("text");
    const Strings expected = words_of(item.at("phonemes").get<Strings>());
    const Agreement agreement = compare(expected, words_of((*frontend)->phonemize(text)));
    words += expected.size();
    equal += agreement.equal;
    extra += agreement.extra;
    if (!agreement.differences.empty())
      std::printf("%s\n   %s\n", text.c_str(), agreement.differences.c_str());
  }
  std::printf("%zu of %zu words equal (%.2f %%), %zu extra\n", equal, words,
              100.0 * static_cast<double>(equal) / static_cast<double>(words), extra);
  EXPECT_GE(static_cast<double>(equal), 0.99 * static_cast<double>(words));
  EXPECT_LE(static_cast<double>(extra), 0.01 * static_cast<double>(words));
}

}  // namespace
}  // namespace omnistage::hibari
