// The one pass over the bytes of a GGUF file. Internal to the reader.
#pragma once

#include <cstring>
#include <string>

#include "stage_proc/models/gguf/gguf.h"

namespace omnistage::gguf {

// Bytes of one element; 0 for strings and arrays.
uint32_t fixed_size(ValueType type);

// A read position that cannot leave its bytes.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  template <typename T>
  bool read(T* value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool read_bytes(uint64_t count, std::span<const std::byte>* out) {
    if (left() < count) return false;
    *out = bytes_.subspan(position_, count);
    position_ += count;
    return true;
  }
  bool read_string(std::string_view* out) {
    uint64_t length = 0;
    std::span<const std::byte> bytes;
    if (!read(&length) || !read_bytes(length, &bytes)) return false;
    *out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, GgufFile* file)
      : bytes_(bytes), cursor_(bytes), file_(file) {}
  Status run();

 private:
  struct Placement {
    uint64_t offset;
    uint64_t bytes;
    size_t tensor;
  };

  Status error(const std::string& what) const;
  Status truncated(const std::string& where) const;
  Status header();
  Status key_value(uint64_t index);
  Status array_value(std::string_view key, GgufFile::Value* value);
  Status tensor_info(uint64_t index);
  Status alignment();
  Status place_tensors();

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  GgufFile* file_;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t alignment_ = 32;
  std::vector<Placement> placements_;
};

}  // namespace omnistage::gguf
