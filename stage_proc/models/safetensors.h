// SafetensorsFile: read-only view of the tensors in one .safetensors file. Nothing is copied: the
// file is mapped, and a TensorView points into the mapping. Everything in the file is checked when
// it is opened (header size, names, types, shapes, and that the tensors tile the data part
// exactly), so that a view handed out later is safe to read to its last byte.
//
// Ownership: the object owns the mapping; views die with it. Copies share the mapping.
// Threads: immutable after open; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/status.h"

namespace omnistage {

enum class Dtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

const char* dtype_name(Dtype dtype);
size_t dtype_size(Dtype dtype);

struct TensorView {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;  // empty for a scalar
  const std::byte* data = nullptr;
  size_t bytes = 0;

  // Files of other writers may pad nothing; false means that the elements have to be copied out
  // first.
  bool aligned() const { return reinterpret_cast<uintptr_t>(data) % dtype_size(dtype) == 0; }
};

class SafetensorsFile {
 public:
  static constexpr uint64_t kHeaderBytesMax = 64ull << 20;
  static constexpr size_t kTensorsMax = 1u << 20;
  static constexpr size_t kNameBytesMax = 1024;

  // NOT_FOUND or SYSTEM when the file cannot be mapped, INVALID when its content breaks the format;
  // the message names the file and, where there is one, the tensor.
  static Result<SafetensorsFile> open(const std::string& path);

  // The same checks on bytes that the caller keeps alive; `name` stands for the path in messages.
  static Result<SafetensorsFile> parse(std::string name, std::span<const std::byte> bytes);

  // NOT_FOUND names the tensor and the file.
  Result<TensorView> get(std::string_view name) const;
  // Also INVALID when type or shape differ from what the caller is going to assume.
  Result<TensorView> get(std::string_view name, Dtype dtype, std::span<const int64_t> shape) const;

  bool contains(std::string_view name) const;
  // Sorted.
  std::vector<std::string> names() const;
  const std::string& path() const;

 private:
  struct State;
  explicit SafetensorsFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace omnistage
