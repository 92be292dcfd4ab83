// The GGUF reader on files written here byte by byte: what it reads, and every way it must refuse.
#include "stage_proc/models/gguf/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <string>

namespace omnistage::gguf {
namespace {

class Writer {
 public:
  template <typename T>
  Writer& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& u32(uint32_t v) { return put(v); }
  Writer& u64(uint64_t v) { return put(v); }
  Writer& text(const std::string& s) {
    u64(s.size());
    bytes_ += s;
    return *this;
  }
  Writer& key(const std::string& name, ValueType type) {
    return text(name).u32(static_cast<uint32_t>(type));
  }
  Writer& tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type,
                 uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
  Writer& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return u32(0x46554747).u32(version).u64(tensors).u64(keys);
  }
  Writer& pad(size_t alignment, size_t extra) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + extra);
    return *this;
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf");
}

std::string error_of(const std::string& bytes) {
  const auto file = parse(bytes);
  return file.ok() ? "accepted" : file.status().message();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_ERROR(bytes, part) EXPECT_TRUE(contains(error_of(bytes), part)) << error_of(bytes)

Writer good() {
  Writer w;
  w.header(2, 6);
  w.key("a.count", ValueType::kU32).u32(30);
  w.key("a.negative", ValueType::kI32).put(int32_t{-5});
  w.key("a.rate", ValueType::kF32).put(0.5f);
  w.key("a.name", ValueType::kString).text("llama");
  w.key("a.words", ValueType::kArray).u32(8).u64(3).text("x").text("").text("yz");
  w.key("a.numbers", ValueType::kArray).u32(5).u64(2).put(int32_t{7}).put(int32_t{-8});
  w.tensor("norm", {4}, 0, 0);
  w.tensor("weight", {64, 2}, 3, 32);
  w.pad(32, 32 + 80);
  return w;
}

TEST(Gguf, ReadsKeysOfEveryShape) {
  Writer w = good();
  const auto file = parse(w.bytes());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->get_uint("a.count").value(), 30u);
  EXPECT_EQ(file->get_float("a.rate").value(), 0.5);
  EXPECT_EQ(file->get_string("a.name").value(), "llama");
  EXPECT_EQ(file->get_strings("a.words").value(), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file->get_ints("a.numbers").value(), (std::vector<int64_t>{7, -8}));
  EXPECT_TRUE(file->has("a.count"));
  EXPECT_FALSE(file->has("a.missing"));
}

TEST(Gguf, PlacesTensors) {
  Writer w = good();
  w.bytes()[w.bytes().size() - 80] = 77;
  const auto file = parse(w.bytes());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const Tensor* weight = file->find_tensor("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type, TensorType::kQ4_1);
  EXPECT_EQ(weight->dims, (std::vector<uint64_t>{64, 2}));
  EXPECT_EQ(weight->elements, 128u);
  ASSERT_EQ(weight->data.size(), 80u);  // 4 blocks of 20 bytes
  EXPECT_EQ(std::to_integer<int>(weight->data[0]), 77);
  EXPECT_EQ(file->find_tensor("norm")->data.size(), 16u);
  EXPECT_EQ(file->find_tensor("other"), nullptr);
}

TEST(Gguf, WrongTypesNameTheKey) {
  Writer w = good();
  const auto file = parse(w.bytes());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->get_uint("nope").status().code(), StatusCode::kNotFound);
  for (const Status& status :
       {file->get_uint("a.negative").status(), file->get_uint("a.words").status(),
        file->get_float("a.count").status(), file->get_string("a.words").status(),
        file->get_strings("a.numbers").status(), file->get_ints("a.words").status(),
        file->get_ints("a.count").status(), file->get_bool("a.count").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalid);
    EXPECT_TRUE(contains(status.message(), "test.gguf: key 'a.")) << status.message();
  }
}

TEST(Gguf, EveryCutIsRefusedOrHarmless) {
  Writer w = good();
  const std::string whole = w.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse(whole.substr(0, size)).ok()) << size;
  }
}

TEST(Gguf, EveryFlippedByteIsSafe) {
  Writer w = good();
  const std::string whole = w.bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const auto file = parse(bad);  // may be fine; must not read outside (sanitizers watch)
      if (!file.ok()) continue;
      for (const Tensor& tensor : file->tensors()) {
        EXPECT_LE(tensor.data.size(), bad.size());
      }
      (void)file->get_strings("a.words");
      (void)file->get_ints("a.numbers");
    }
  }
}

TEST(Gguf, RefusesBadHeaders) {
  EXPECT_ERROR("", "not a GGUF file");
  EXPECT_ERROR("GGML0000", "not a GGUF file");
  EXPECT_ERROR(Writer().header(0, 0, 1).bytes(), "version 1");
  EXPECT_ERROR(Writer().header(0, 0, 0x03000000).bytes(), "version 50331648");
  EXPECT_ERROR(Writer().header(uint64_t{1} << 60, 0).bytes(), "tensor count");
  EXPECT_ERROR(Writer().header(0, uint64_t{1} << 60).bytes(), "key count");
}

TEST(Gguf, RefusesBadKeys) {
  EXPECT_ERROR(Writer().header(0, 1).text("k").u32(99).u64(0).bytes(), "value type 99");
  EXPECT_ERROR(Writer().header(0, 1).key("k", ValueType::kArray).u32(99).u64(0).bytes(),
               "element type 99");
  EXPECT_ERROR(
      Writer().header(0, 1).key("k", ValueType::kArray).u32(9).u64(1).u32(4).u64(0).bytes(),
      "arrays of arrays");
  EXPECT_ERROR(
      Writer().header(0, 1).key("k", ValueType::kArray).u32(4).u64(uint64_t{1} << 62).bytes(),
      "do not fit");
  EXPECT_ERROR(
      Writer().header(0, 1).key("k", ValueType::kArray).u32(8).u64(2).text("a").u64(500).bytes(),
      "element 1 of key 'k'");
  EXPECT_ERROR(Writer().header(0, 1).text("").u32(4).u32(1).u64(0).bytes(), "a name of 0 bytes");
  EXPECT_ERROR(Writer()
                   .header(0, 2)
                   .key("k", ValueType::kU32)
                   .u32(1)
                   .key("k", ValueType::kU32)
                   .u32(2)
                   .bytes(),
               "'k' appears twice");
}

std::string with_tensor(const std::function<void(Writer*)>& add, uint64_t count = 1) {
  Writer w;
  w.header(count, 0);
  add(&w);
  w.pad(32, 64);
  return w.bytes();
}

TEST(Gguf, RefusesBadTensors) {
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {}, 0, 0); }), "0 dimensions");
  EXPECT_ERROR(with_tensor([](Writer* w) {
                 w->tensor("t", {1, 1, 1, 1, 1}, 0, 0);
               }),
               "5 dimensions");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {0}, 0, 0); }), "is zero or too large");
  EXPECT_ERROR(with_tensor([](Writer* w) {
                 w->tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0);
               }),
               "too large");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {uint64_t{1} << 63}, 28, 0); }),
               "do not fit F64");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {4}, 77, 0); }), "tensor type 77");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {33}, 3, 0); }), "do not fit Q4_1");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {4}, 0, 8); }), "misaligned");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {17}, 0, 0); }), "outside the data");
  EXPECT_ERROR(with_tensor([](Writer* w) { w->tensor("t", {4}, 0, ~uint64_t{31}); }),
               "outside the data");
  EXPECT_ERROR(with_tensor(
                   [](Writer* w) {
                     w->tensor("t", {4}, 0, 0);
                     w->tensor("t", {4}, 0, 32);
                   },
                   2),
               "appears twice");
  EXPECT_ERROR(with_tensor(
                   [](Writer* w) {
                     w->tensor("a", {12}, 0, 0);
                     w->tensor("b", {4}, 0, 32);
                   },
                   2),
               "overlap");
}

TEST(Gguf, RefusesBadAlignment) {
  for (const uint32_t alignment : {0u, 4u, 48u, 1u << 21}) {
    EXPECT_ERROR(
        Writer().header(0, 1).key("general.alignment", ValueType::kU32).u32(alignment).bytes(),
        "general.alignment");
  }
}

TEST(Gguf, OpenMapsAFileAndNamesIt) {
  const std::string path = testing::TempDir() + "oms_gguf_test_" + std::to_string(getpid());
  {
    Writer w = good();
    std::ofstream(path, std::ios::binary) << w.bytes();
  }
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const GgufFile moved = std::move(file).value();
  EXPECT_EQ(moved.get_string("a.name").value(), "llama");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << "";
  EXPECT_TRUE(contains(GgufFile::open(path).status().message(), path));
  unlink(path.c_str());
  EXPECT_TRUE(contains(GgufFile::open(path).status().message(), path));
  EXPECT_FALSE(GgufFile::open(testing::TempDir()).ok());
}

}  // namespace
}  // namespace omnistage::gguf
