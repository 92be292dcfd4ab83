// SafetensorsFile: what it accepts, and that each way a file can be wrong has a message that names
// it.
#include "stage_proc/models/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

namespace omnistage {
namespace {

std::string file_bytes(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}

Result<SafetensorsFile> parse(const std::string& bytes) {
  return SafetensorsFile::parse("mem", std::as_bytes(std::span(bytes.data(), bytes.size())));
}

const char kGood[] = R"({"__metadata__":{"format":"pt"},)"
                     R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
                     R"("a":{"shape":[4],"data_offsets":[0,4],"dtype":"I8"},)"
                     R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[12,12]},)"
                     R"("scalar":{"dtype":"BF16","shape":[],"data_offsets":[12,14]}}   )";

TEST(Safetensors, ReadsAllTensors) {
  const std::string bytes = file_bytes(kGood, "abcdefghijklmn");
  auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->names(), (std::vector<std::string>{"a", "b", "empty", "scalar"}));
  auto a = file->get("a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->dtype, Dtype::kI8);
  EXPECT_EQ(a->shape, std::vector<int64_t>{4});
  EXPECT_EQ(std::memcmp(a->data, "abcd", a->bytes), 0);
  auto b = file->get("b", Dtype::kF32, std::array<int64_t, 2>{2, 1});
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(std::memcmp(b->data, "efghijkl", b->bytes), 0);
  EXPECT_EQ(file->get("empty")->bytes, 0u);
  EXPECT_TRUE(file->get("scalar")->shape.empty());
  EXPECT_EQ(file->get("scalar")->bytes, 2u);
}

TEST(Safetensors, MissingTensorAndWrongShapeAreNamed) {
  const std::string bytes = file_bytes(kGood, "abcdefghijklmn");
  auto file = parse(bytes);
  ASSERT_TRUE(file.ok());
  auto missing = file->get("nope");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), "mem: no tensor 'nope'");
  auto wrong = file->get("b", Dtype::kF32, std::array<int64_t, 2>{1, 2});
  EXPECT_EQ(wrong.status().code(), StatusCode::kInvalid);
  EXPECT_EQ(wrong.status().message(), "mem: tensor 'b' is F32[2,1], expected F32[1,2]");
}

struct BadCase {
  const char* name;
  std::string bytes;
  const char* message_part;
};

std::string one(const std::string& fields, const std::string& data = "abcd") {
  return file_bytes("{\"t\":{" + fields + "}}", data);
}

TEST(Safetensors, RefusesBrokenFiles) {
  const std::vector<BadCase> cases = {
      {"short", "abc", "shorter than"},
      {"huge header", std::string(7, '\xff') + "\x7f{}", "above the limit"},
      {"long header", file_bytes("{}", "").substr(0, 9), "longer than the file"},
      {"no object", file_bytes("[]", ""), "not a JSON object"},
      {"empty header", file_bytes("", ""), "not a JSON object"},
      {"bad json", file_bytes("{\"a\":", ""), "not valid JSON"},
      {"trailing", file_bytes("{}{}", ""), "not valid JSON"},
      {"dtype", one(R"("dtype":"Q4","shape":[4],"data_offsets":[0,4])"), "data type 'Q4'"},
      {"missing shape", one(R"("dtype":"I8","data_offsets":[0,4])"), "tensor 't': dtype, shape"},
      {"negative", one(R"("dtype":"I8","shape":[-4],"data_offsets":[0,4])"), "negative"},
      {"float", one(R"("dtype":"I8","shape":[4.0],"data_offsets":[0,4])"), "whole number"},
      {"overflow", one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"),
       "too large"},
      {"too large", one(R"("dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,4])"),
       "too large"},
      {"size", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "needs 8 bytes"},
      {"past end", one(R"("dtype":"I8","shape":[8],"data_offsets":[0,8])"), "cut short"},
      {"backwards", one(R"("dtype":"I8","shape":[4],"data_offsets":[4,0])"), "backwards"},
      {"three offsets", one(R"("dtype":"I8","shape":[4],"data_offsets":[0,4,4])"), "two numbers"},
      {"gap", one(R"("dtype":"I8","shape":[2],"data_offsets":[2,4])"), "expected 0"},
      {"rest", one(R"("dtype":"I8","shape":[2],"data_offsets":[0,2])"), "belong to no tensor"},
      {"unknown key", one(R"("dtype":"I8","shape":[4],"data_offsets":[0,4],"x":1)"),
       "unknown key 'x'"},
      {"key twice", one(R"("dtype":"I8","dtype":"I8","shape":[4],"data_offsets":[0,4])"),
       "occurs twice"},
      {"nested list", one(R"("dtype":"I8","shape":[[4]],"data_offsets":[0,4])"), "out of place"},
      {"nested object", one(R"("dtype":{},"shape":[4],"data_offsets":[0,4])"), "too deep"},
      {"dims", one(R"("dtype":"I8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4])"),
       "longer than 8"},
      {"number", file_bytes(R"({"t":4})", ""), "outside of shape"},
      {"overlap",
       file_bytes(R"({"s":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
                  R"("t":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
                  "abcd"),
       "tensor 't': starts at byte 2"},
      {"name twice",
       file_bytes(R"({"s":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},)"
                  R"("s":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})",
                  ""),
       "tensor 's': occurs twice"},
  };
  for (const BadCase& c : cases) {
    auto file = parse(c.bytes);
    ASSERT_FALSE(file.ok()) << c.name;
    EXPECT_EQ(file.status().code(), StatusCode::kInvalid) << c.name;
    EXPECT_NE(file.status().message().find(c.message_part), std::string::npos)
        << c.name << ": " << file.status().message();
    EXPECT_EQ(file.status().message().rfind("mem: ", 0), 0u) << file.status().message();
  }
}

TEST(Safetensors, EveryTruncationOfAGoodFileIsRefused) {
  const std::string bytes = file_bytes(kGood, "abcdefghijklmn");
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(parse(bytes.substr(0, n)).ok()) << n;
  }
}

TEST(Safetensors, OpensFilesAndNamesThemInErrors) {
  std::string path = testing::TempDir() + "oms_safetensors_" + std::to_string(::getpid());
  auto missing = SafetensorsFile::open(path);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(path), std::string::npos);
  EXPECT_EQ(SafetensorsFile::open("/").status().code(), StatusCode::kInvalid);
  std::ofstream(path, std::ios::binary).close();
  EXPECT_NE(SafetensorsFile::open(path).status().message().find("empty"), std::string::npos);
  std::ofstream(path, std::ios::binary) << file_bytes(kGood, "abcdefghijklmn");
  auto file = SafetensorsFile::open(path);
  std::remove(path.c_str());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  SafetensorsFile copy = *file;
  file = Status(StatusCode::kClosed, "dropped");  // the copy keeps the mapping alive
  EXPECT_EQ(std::memcmp(copy.get("a")->data, "abcd", 4), 0);
}

}  // namespace
}  // namespace omnistage
