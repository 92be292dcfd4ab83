#include "stage_proc/models/gguf/parser.h"

#include <algorithm>

namespace omnistage::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

struct Block {
  uint32_t elements = 0;  // 0: unknown type
  uint32_t bytes = 0;
};

Block block_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kI32:
      return {1, 4};
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kI16:
      return {1, 2};
    case TensorType::kI8:
      return {1, 1};
    case TensorType::kI64:
    case TensorType::kF64:
      return {1, 8};
    case TensorType::kQ4_0:
      return {32, 18};
    case TensorType::kQ4_1:
      return {32, 20};
    case TensorType::kQ5_0:
      return {32, 22};
    case TensorType::kQ5_1:
      return {32, 24};
    case TensorType::kQ8_0:
      return {32, 34};
    case TensorType::kQ8_1:
      return {32, 36};
    case TensorType::kQ2K:
      return {256, 84};
    case TensorType::kQ3K:
      return {256, 110};
    case TensorType::kQ4K:
      return {256, 144};
    case TensorType::kQ5K:
      return {256, 176};
    case TensorType::kQ6K:
      return {256, 210};
    case TensorType::kQ8K:
      return {256, 292};
  }
  return {};
}

// Names from the file go into messages only as far as they are short and printable.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 64)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out + (text.size() > 64 ? "...'" : "'");
}

}  // namespace

uint32_t fixed_size(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

Status Parser::error(const std::string& what) const {
  return invalid(file_->name_ + ": " + what);
}

Status Parser::truncated(const std::string& where) const {
  return error("the file ends inside " + where + " (" + std::to_string(bytes_.size()) + " bytes)");
}

Status Parser::header() {
  uint32_t magic = 0;
  uint32_t version = 0;
  if (!cursor_.read(&magic) || magic != kMagic) return error("not a GGUF file");
  if (!cursor_.read(&version)) return truncated("the header");
  if (version != 2 && version != 3) {
    return Status(StatusCode::kUnsupported, file_->name_ + ": GGUF version " +
                                                std::to_string(version) +
                                                " is not supported (2 and 3 are)");
  }
  if (!cursor_.read(&tensor_count_) || !cursor_.read(&key_count_)) return truncated("the header");
  if (tensor_count_ > kMaxTensors || tensor_count_ > cursor_.left() / kMinTensorBytes) {
    return error("tensor count " + std::to_string(tensor_count_) +
                 " is more than the file can hold or than " + std::to_string(kMaxTensors));
  }
  if (key_count_ > kMaxKeys || key_count_ > cursor_.left() / kMinKeyBytes) {
    return error("key count " + std::to_string(key_count_) +
                 " is more than the file can hold or than " + std::to_string(kMaxKeys));
  }
  return Status::ok_status();
}

Status Parser::array_value(std::string_view key, GgufFile::Value* value) {
  uint32_t type = 0;
  if (!cursor_.read(&type) || !cursor_.read(&value->count)) return truncated("key " + quoted(key));
  if (type > static_cast<uint32_t>(ValueType::kF64)) {
    return error("key " + quoted(key) + ": element type " + std::to_string(type) + " is unknown");
  }
  value->type = static_cast<ValueType>(type);
  value->is_array = true;
  if (value->type == ValueType::kArray) {
    return Status(StatusCode::kUnsupported,
                  file_->name_ + ": key " + quoted(key) + ": arrays of arrays are not supported");
  }
  // A string takes at least its length field, so a count beyond that cannot be honest.
  const uint64_t least = value->type == ValueType::kString ? 8 : fixed_size(value->type);
  if (value->count > cursor_.left() / least) {
    return error("key " + quoted(key) + ": " + std::to_string(value->count) +
                 " elements do not fit in the file");
  }
  if (value->type != ValueType::kString) {
    return cursor_.read_bytes(value->count * least, &value->bytes) ? Status::ok_status()
                                                                   : truncated(quoted(key));
  }
  const uint64_t start = cursor_.position();
  for (uint64_t i = 0; i < value->count; ++i) {
    std::string_view text;
    if (!cursor_.read_string(&text)) {
      return truncated("element " + std::to_string(i) + " of key " + quoted(key));
    }
  }
  value->bytes = bytes_.subspan(start, cursor_.position() - start);
  return Status::ok_status();
}

Status Parser::key_value(uint64_t index) {
  std::string_view key;
  uint32_t type = 0;
  if (!cursor_.read_string(&key) || !cursor_.read(&type)) {
    return truncated("key number " + std::to_string(index));
  }
  if (key.empty() || key.size() > kMaxNameBytes) {
    return error("key number " + std::to_string(index) + " has a name of " +
                 std::to_string(key.size()) + " bytes (1 to " + std::to_string(kMaxNameBytes) +
                 " are allowed)");
  }
  if (type > static_cast<uint32_t>(ValueType::kF64)) {
    return error("key " + quoted(key) + ": value type " + std::to_string(type) + " is unknown");
  }
  GgufFile::Value value;
  value.type = static_cast<ValueType>(type);
  if (value.type == ValueType::kArray) {
    OMS_RETURN_IF_ERROR(array_value(key, &value));
  } else if (value.type == ValueType::kString) {
    const uint64_t start = cursor_.position();
    std::string_view text;
    if (!cursor_.read_string(&text)) return truncated("key " + quoted(key));
    value.bytes = bytes_.subspan(start, cursor_.position() - start);
  } else if (!cursor_.read_bytes(fixed_size(value.type), &value.bytes)) {
    return truncated("key " + quoted(key));
  }
  if (!file_->values_.emplace(key, value).second) {
    return error("key " + quoted(key) + " appears twice");
  }
  return Status::ok_status();
}

Status Parser::tensor_info(uint64_t index) {
  Tensor tensor;
  uint32_t dims = 0;
  if (!cursor_.read_string(&tensor.name) || !cursor_.read(&dims)) {
    return truncated("tensor number " + std::to_string(index));
  }
  const std::string label = "tensor " + quoted(tensor.name);
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    return error("tensor number " + std::to_string(index) + " has a name of " +
                 std::to_string(tensor.name.size()) + " bytes");
  }
  if (dims == 0 || dims > kMaxDims) {
    return error(label + " has " + std::to_string(dims) + " dimensions (1 to " +
                 std::to_string(kMaxDims) + " are allowed)");
  }
  tensor.elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t dim = 0;
    if (!cursor_.read(&dim)) return truncated(label);
    if (dim == 0 || __builtin_mul_overflow(tensor.elements, dim, &tensor.elements)) {
      return error(label + ": dimension " + std::to_string(i) + " of " + std::to_string(dim) +
                   " is zero or too large");
    }
    tensor.dims.push_back(dim);
  }
  uint32_t type = 0;
  uint64_t offset = 0;
  if (!cursor_.read(&type) || !cursor_.read(&offset)) return truncated(label);
  tensor.type = static_cast<TensorType>(type);
  const Block block = block_of(tensor.type);
  if (block.elements == 0) {
    return Status(StatusCode::kUnsupported, file_->name_ + ": " + label + ": tensor type " +
                                                std::to_string(type) + " is unknown");
  }
  uint64_t bytes = 0;
  if (tensor.dims[0] % block.elements != 0 ||
      __builtin_mul_overflow(tensor.elements / block.elements, uint64_t{block.bytes}, &bytes)) {
    return error(label + ": rows of " + std::to_string(tensor.dims[0]) + " values do not fit " +
                 tensor_type_name(tensor.type));
  }
  placements_.push_back({offset, bytes, file_->tensors_.size()});
  if (!file_->by_name_.emplace(tensor.name, file_->tensors_.size()).second) {
    return error(label + " appears twice");
  }
  file_->tensors_.push_back(std::move(tensor));
  return Status::ok_status();
}

Status Parser::alignment() {
  if (!file_->has("general.alignment")) return Status::ok_status();
  OMS_ASSIGN_OR_RETURN(alignment_, file_->get_uint("general.alignment"));
  if (alignment_ < 8 || alignment_ > (1u << 20) || (alignment_ & (alignment_ - 1)) != 0) {
    return error("key 'general.alignment' is " + std::to_string(alignment_) +
                 " (a power of two from 8 to 1048576 is needed)");
  }
  return Status::ok_status();
}

Status Parser::place_tensors() {
  const uint64_t data = std::min<uint64_t>(
      (cursor_.position() + alignment_ - 1) / alignment_ * alignment_, bytes_.size());
  const uint64_t size = bytes_.size() - data;
  for (const Placement& p : placements_) {
    Tensor& tensor = file_->tensors_[p.tensor];
    if (p.offset % alignment_ != 0 || p.offset > size || p.bytes > size - p.offset) {
      return error("tensor " + quoted(tensor.name) + ": " + std::to_string(p.bytes) +
                   " bytes at offset " + std::to_string(p.offset) +
                   " are misaligned or outside the data of " + std::to_string(size) + " bytes");
    }
    tensor.data = bytes_.subspan(data + p.offset, p.bytes);
  }
  std::sort(placements_.begin(), placements_.end(),
            [](const Placement& a, const Placement& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < placements_.size(); ++i) {
    const Placement& before = placements_[i - 1];
    if (before.offset + before.bytes > placements_[i].offset) {
      return error("tensors " + quoted(file_->tensors_[before.tensor].name) + " and " +
                   quoted(file_->tensors_[placements_[i].tensor].name) + " overlap");
    }
  }
  return Status::ok_status();
}

Status Parser::run() {
  OMS_RETURN_IF_ERROR(header());
  for (uint64_t i = 0; i < key_count_; ++i) OMS_RETURN_IF_ERROR(key_value(i));
  OMS_RETURN_IF_ERROR(alignment());
  for (uint64_t i = 0; i < tensor_count_; ++i) OMS_RETURN_IF_ERROR(tensor_info(i));
  return place_tensors();
}

}  // namespace omnistage::gguf
