// GgufFile: a checked view of a GGUF model file (versions 2 and 3, little endian). open() maps the
// file read-only and owns the mapping; parse() reads memory the caller keeps. All strings and
// tensor data are views into that memory and live as long as it. Immutable after construction: any
// thread.
//
// The file is not trusted: every count, length, type and offset is checked before use, and the work
// done is proportional to the file size. Errors are kInvalid (kUnsupported for versions and types
// this reader does not know) and name the file and the key or tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::gguf {

constexpr uint64_t kMaxKeys = 1u << 16;
constexpr uint64_t kMaxTensors = 1u << 16;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxNameBytes = 1u << 10;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kQ8K = 15,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kBF16 = 30,
};

// "Q4_1"; "type 77" for numbers this reader does not know.
std::string tensor_type_name(TensorType type);

struct Tensor {
  std::string_view name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> dims;  // innermost first: a matrix of n rows and k columns is {k, n}
  uint64_t elements = 0;
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // `name` stands for the file in errors.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  bool has(std::string_view key) const { return values_.contains(key); }

  // Values by key. Errors: kNotFound without the key, kInvalid when the type does not fit. Any
  // integer type is accepted for get_uint when the value is not negative.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Null when there is none.
  const Tensor* find_tensor(std::string_view name) const;

 private:
  friend class Parser;
  struct Value {
    ValueType type = ValueType::kU8;  // element type of an array
    bool is_array = false;
    uint64_t count = 1;
    std::span<const std::byte> bytes;  // the encoded elements
  };

  Result<const Value*> find(std::string_view key) const;
  Status mismatch(std::string_view key, const char* wanted) const;

  std::string name_;
  std::shared_ptr<const std::byte> mapping_;  // null after parse()
  std::unordered_map<std::string_view, Value> values_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace omnistage::gguf
