#include "stage_proc/models/gguf/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "shm/base/fd.h"
#include "stage_proc/models/gguf/parser.h"

namespace omnistage::gguf {
namespace {

template <typename T>
T element(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// False for types that are no integers and for 64-bit values beyond int64.
bool integer_at(ValueType type, std::span<const std::byte> bytes, uint64_t i, int64_t* out) {
  switch (type) {
    case ValueType::kU8:
      *out = element<uint8_t>(bytes, i);
      return true;
    case ValueType::kI8:
      *out = element<int8_t>(bytes, i);
      return true;
    case ValueType::kU16:
      *out = element<uint16_t>(bytes, i);
      return true;
    case ValueType::kI16:
      *out = element<int16_t>(bytes, i);
      return true;
    case ValueType::kU32:
      *out = element<uint32_t>(bytes, i);
      return true;
    case ValueType::kI32:
      *out = element<int32_t>(bytes, i);
      return true;
    case ValueType::kI64:
      *out = element<int64_t>(bytes, i);
      return true;
    case ValueType::kU64: {
      const uint64_t value = element<uint64_t>(bytes, i);
      *out = static_cast<int64_t>(value);
      return value <= static_cast<uint64_t>(INT64_MAX);
    }
    default:
      return false;
  }
}

}  // namespace

std::string tensor_type_name(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kF16:
      return "F16";
    case TensorType::kQ4_0:
      return "Q4_0";
    case TensorType::kQ4_1:
      return "Q4_1";
    case TensorType::kQ5_0:
      return "Q5_0";
    case TensorType::kQ5_1:
      return "Q5_1";
    case TensorType::kQ8_0:
      return "Q8_0";
    case TensorType::kQ8_1:
      return "Q8_1";
    case TensorType::kQ2K:
      return "Q2_K";
    case TensorType::kQ3K:
      return "Q3_K";
    case TensorType::kQ4K:
      return "Q4_K";
    case TensorType::kQ5K:
      return "Q5_K";
    case TensorType::kQ6K:
      return "Q6_K";
    case TensorType::kQ8K:
      return "Q8_K";
    case TensorType::kI8:
      return "I8";
    case TensorType::kI16:
      return "I16";
    case TensorType::kI32:
      return "I32";
    case TensorType::kI64:
      return "I64";
    case TensorType::kF64:
      return "F64";
    case TensorType::kBF16:
      return "BF16";
  }
  return "type " + std::to_string(static_cast<uint32_t>(type));
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  OMS_RETURN_IF_ERROR(Parser(bytes, &file).run());
  return file;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Status::from_errno("cannot open " + path);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno("cannot stat " + path);
  if (!S_ISREG(info.st_mode)) return invalid(path + ": not a regular file");
  if (info.st_size <= 0) return invalid(path + ": the file is empty");
  const size_t size = static_cast<size_t>(info.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (map == MAP_FAILED) return Status::from_errno("cannot map " + path);
  ::madvise(map, size, MADV_WILLNEED);
  std::shared_ptr<const std::byte> mapping(
      static_cast<const std::byte*>(map),
      [size](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); });
  OMS_ASSIGN_OR_RETURN(GgufFile file, parse({mapping.get(), size}, path));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<const GgufFile::Value*> GgufFile::find(std::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) {
    return Status(StatusCode::kNotFound, name_ + ": key '" + std::string(key) + "' is missing");
  }
  return &it->second;
}

Status GgufFile::mismatch(std::string_view key, const char* wanted) const {
  return invalid(name_ + ": key '" + std::string(key) + "' must be " + wanted);
}

Result<uint64_t> GgufFile::get_uint(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  int64_t number = 0;
  if (value->is_array || !integer_at(value->type, value->bytes, 0, &number) || number < 0) {
    return mismatch(key, "a whole number, not negative");
  }
  return static_cast<uint64_t>(number);
}

Result<double> GgufFile::get_float(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  if (!value->is_array && value->type == ValueType::kF32) {
    return static_cast<double>(element<float>(value->bytes, 0));
  }
  if (!value->is_array && value->type == ValueType::kF64) return element<double>(value->bytes, 0);
  return mismatch(key, "a float");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  if (value->is_array || value->type != ValueType::kBool) return mismatch(key, "a boolean");
  return element<uint8_t>(value->bytes, 0) != 0;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  std::string_view text;
  if (value->is_array || value->type != ValueType::kString ||
      !Cursor(value->bytes).read_string(&text)) {
    return mismatch(key, "a string");
  }
  return text;
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  if (!value->is_array || value->type != ValueType::kString) {
    return mismatch(key, "an array of strings");
  }
  std::vector<std::string_view> texts(value->count);
  Cursor cursor(value->bytes);
  for (std::string_view& text : texts) {
    if (!cursor.read_string(&text)) return mismatch(key, "an array of strings");
  }
  return texts;
}

Result<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  OMS_ASSIGN_OR_RETURN(const Value* value, find(key));
  std::vector<int64_t> numbers(value->is_array ? value->count : 0);
  bool fits = value->is_array;
  for (uint64_t i = 0; fits && i < value->count; ++i) {
    fits = integer_at(value->type, value->bytes, i, &numbers[i]);
  }
  if (!fits) return mismatch(key, "an array of whole numbers");
  return numbers;
}

const Tensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace omnistage::gguf
