#include "stage_proc/models/hibari/text/json_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>

namespace omnistage::hibari {
namespace {

// Reads {"key": "text" | number | ["text", ...]} and reports the values as text.
Result<std::map<std::string, std::string>> read(const std::string& json) {
  const std::string path = testing::TempDir() + "oms_json_reader_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << json;
  StringPool pool;
  auto reader = JsonReader::open(path, &pool);
  std::remove(path.c_str());
  if (!reader.ok()) return reader.status();
  std::map<std::string, std::string> out;
  reader->object([&](std::string_view key) {
    std::string& value = out[std::string(key)];
    std::string_view text;
    if (reader->peek() == '[') {
      return reader->array([&] {
        if (!reader->string(&text)) return false;
        value += std::string(text) + ";";
        return true;
      });
    }
    if (reader->peek() == 'n') return reader->null();
    if (reader->peek() != '"') {
      double number = 0;
      if (!reader->number(&number)) return false;
      value = std::to_string(number);
      return true;
    }
    if (!reader->string(&text)) return false;
    value = text;
    return true;
  });
  reader->finish();
  if (!reader->ok()) return reader->status();
  return out;
}

TEST(JsonReader, ReadsValues) {
  auto got =
      read(" {\"a\" : \"x\", \"b\":[ \"p\",\"q\"] ,\n\"c\":-1.5e2, \"d\":[], \"e\":null} \n");
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->at("a"), "x");
  EXPECT_EQ(got->at("b"), "p;q;");
  EXPECT_EQ(got->at("c"), "-150.000000");
  EXPECT_EQ(got->at("d"), "");
}

TEST(JsonReader, Unescapes) {
  auto got = read(R"({"a\"b":"\\ \/ \n \t \u00e9 \ud83d\ude42 é"})");
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->at("a\"b"), "\\ / \n \t é 🙂 é");
  EXPECT_TRUE(read("{}").ok());
}

TEST(JsonReader, RefusesBrokenText) {
  for (const char* json : {"",
                           "[",
                           "{",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":\"x",
                           "{\"a\":\"x\"",
                           "{\"a\":\"x\",}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\u12\"}",
                           "{\"a\":\"\\ud800\"}",
                           "{\"a\":\"\\udc00\"}",
                           "{\"a\":\"\\ud800\\u0041\"}",
                           "{\"a\":1e999}",
                           "{\"a\":-}",
                           "{\"a\":nul}",
                           "{\"a\":[\"x\" \"y\"]}",
                           "{} {}",
                           "{\"a\":\"\n\"}",
                           "{a:1}",
                           "{\"a\":\"\\"}) {
    auto got = read(json);
    EXPECT_FALSE(got.ok()) << json;
    EXPECT_NE(got.status().message().find("byte"), std::string::npos)
        << json << ": " << got.status().message();
  }
}

TEST(JsonReader, MissingFile) {
  StringPool pool;
  auto reader = JsonReader::open("/nonexistent/file.json", &pool);
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
  EXPECT_NE(reader.status().message().find("/nonexistent/file.json"), std::string::npos);
}

}  // namespace
}  // namespace omnistage::hibari
