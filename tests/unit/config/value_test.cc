// The YAML tree: bounds, duplicate keys, syntax errors, hostile text.
#include "stage_proc/config/value.h"

#include <random>

#include "stage_proc/config/fields.h"
#include "tests/unit/config/config_fixture.h"

namespace omnistage::config {
namespace {

std::string error_of_yaml(const std::string& text) {
  auto result = parse_yaml(text, "v.yaml");
  return result.ok() ? "(accepted)" : result.status().message();
}

TEST(ValueTest, RemembersLineAndPath) {
  auto root = parse_yaml("a:\n  - b: 1\n  - c:\n      d: 'x'\n", "v.yaml");
  ASSERT_TRUE(root.ok());
  const Value& d = *root->find("a")->list[1].find("c")->find("d");
  EXPECT_EQ(d.where("m"), "v.yaml:4: a[1].c.d: m");
  EXPECT_TRUE(d.quoted);
}

TEST(ValueTest, SyntaxAndShape) {
  EXPECT_EQ(error_of_yaml("a: 1\nb: [\n").rfind("v.yaml:3: YAML: ", 0), 0u)
      << error_of_yaml("a: 1\nb: [\n");
  EXPECT_EQ(error_of_yaml("a: 1\na: 2\n"), "v.yaml:2: a: this key is given twice");
  EXPECT_EQ(error_of_yaml("a: 1\n---\nb: 2\n"), "v.yaml:3: only one YAML document is allowed");
  EXPECT_EQ(error_of_yaml("? [a]\n: 1\n"), "v.yaml:1: a key must be text");
}

TEST(ValueTest, Bounds) {
  EXPECT_NE(error_of_yaml(std::string(kDeployBytesMax + 1, ' ')).find("larger than"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "[";
  EXPECT_NE(error_of_yaml(deep + std::string(20, ']')).find("nested deeper than 16"),
            std::string::npos);
  EXPECT_NE(error_of_yaml(std::string(100000, '[')), "(accepted)");
  // Aliases that double at each level: 2^40 values if they were expanded.
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i)
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            ", *a" + std::to_string(i - 1) + "]\n";
  EXPECT_NE(error_of_yaml(bomb), "(accepted)");
}

TEST(ValueTest, StrictScalars) {
  auto scalar = [](const std::string& text) { return parse_yaml(text, "v.yaml").value(); };
  EXPECT_EQ(as_int(scalar("-12")), -12);
  EXPECT_EQ(as_int(scalar("+12")), 12);
  for (const char* text : {"1.0", "0x10", "1e3", "'1'", "1 2", "+-1", "true", "~"})
    EXPECT_FALSE(as_int(scalar(text))) << text;
  EXPECT_EQ(as_number(scalar("1e-3")), 1e-3);
  for (const char* text : {".inf", "inf", "nan", "'1'", "1,5", "1e999"})
    EXPECT_FALSE(as_number(scalar(text))) << text;
  EXPECT_EQ(as_bool(scalar("True")), true);
  for (const char* text : {"yes", "on", "1", "'true'"}) EXPECT_FALSE(as_bool(scalar(text))) << text;
}

// Damaged copies of a real file: any answer is fine except a crash or an error without a place.
TEST_F(ConfigTest, DamagedFilesNeverCrash) {
  auto speak = load_deploy(OMS_SOURCE_DIR "/deploy/speak.yaml", options_);
  ASSERT_TRUE(speak.ok()) << speak.status().message();
  const std::string good = to_yaml(*speak);
  std::mt19937 random(7);
  const std::string alphabet = "{}[]:,-#&*!|>'\"%@`\n \t0a\\\x01\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
    }
    auto result = parse(text);
    if (!result.ok()) {
      EXPECT_EQ(result.status().message().rfind("test.yaml:", 0), 0u) << result.status().message();
    }
  }
}

}  // namespace
}  // namespace omnistage::config
