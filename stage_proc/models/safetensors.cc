#include "stage_proc/models/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "shm/base/fd.h"
#include "shm/base/limits.h"

namespace omnistage {
namespace {

struct DtypeInfo {
  Dtype dtype;
  const char* name;
  size_t size;
};

constexpr DtypeInfo kDtypes[] = {
    {Dtype::kBool, "BOOL", 1}, {Dtype::kU8, "U8", 1},   {Dtype::kI8, "I8", 1},
    {Dtype::kI16, "I16", 2},   {Dtype::kU16, "U16", 2}, {Dtype::kF16, "F16", 2},
    {Dtype::kBF16, "BF16", 2}, {Dtype::kI32, "I32", 4}, {Dtype::kU32, "U32", 4},
    {Dtype::kF32, "F32", 4},   {Dtype::kF64, "F64", 8}, {Dtype::kI64, "I64", 8},
    {Dtype::kU64, "U64", 8},
};

// File content in messages: short, and printable whatever the bytes are.
std::string in_quotes(std::string_view name) {
  std::string out = "'";
  for (char c : name.substr(0, 80)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (name.size() > 80) out += "...";
  return out + "'";
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ",";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

struct Entry {
  TensorView view;
  uint64_t begin = 0;
  uint64_t end = 0;
};

using Tensors = std::map<std::string, Entry, std::less<>>;

// Reads the header as a stream of events. A DOM would accept repeated keys silently and keep
// whatever nesting a hostile file has; here every event outside the two known shapes is an error.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(Tensors* tensors) : tensors_(tensors) {}

  const std::string& error() const { return error_; }

  bool null() override { return fail("null is not allowed"); }
  bool boolean(bool) override { return fail("a boolean is not allowed"); }
  bool number_float(number_float_t, const string_t&) override {
    return fail("a number is not a whole number");
  }
  bool binary(binary_t&) override { return fail("binary data is not allowed"); }
  bool number_integer(number_integer_t) override { return fail("a number is negative"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return fail("a number stands outside of shape and data_offsets");
    if (array_.size() >= kArrayMax) return fail("a list is longer than 8");
    if (value > static_cast<uint64_t>(INT64_MAX)) return fail("a number is too large");
    array_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || in_array_ || key_ != "dtype") return fail("a string is out of place");
    for (const DtypeInfo& info : kDtypes) {
      if (value == info.name) {
        dtype_ = info.dtype;
        return true;
      }
    }
    return fail("data type " + in_quotes(value) + " is not supported");
  }

  bool start_object(size_t) override {
    if (in_array_ || ++depth_ > 2) return fail("objects are nested too deep");
    return true;
  }

  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) return finish_tensor();
    in_metadata_ = false;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || in_metadata_ || key_ == "dtype")
      return fail("a list is out of place");
    in_array_ = true;
    array_.clear();
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    (key_ == "shape" ? shape_ : offsets_) = array_;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) return start_tensor(value);
    if (in_metadata_) return true;
    key_ = value;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return fail("unknown key " + in_quotes(key_));
    }
    if ((key_ == "dtype" && dtype_) || (key_ == "shape" && shape_) ||
        (key_ == "data_offsets" && offsets_)) {
      return fail("key " + in_quotes(key_) + " occurs twice");
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("not valid JSON at byte " + std::to_string(position));
  }

 private:
  static constexpr size_t kArrayMax = limits::kTensorDimsMax;

  bool fail(std::string what) {
    if (error_.empty())
      error_ = (name_.empty() ? "" : "tensor " + in_quotes(name_) + ": ") + std::move(what);
    return false;
  }

  bool start_tensor(const std::string& name) {
    name_.clear();
    if (name.empty() || name.size() > SafetensorsFile::kNameBytesMax) {
      return fail("a tensor name is empty or longer than 1024 bytes");
    }
    in_metadata_ = name == "__metadata__";
    name_ = name;
    if (tensors_->size() >= SafetensorsFile::kTensorsMax) return fail("more than 1048576 tensors");
    if (tensors_->count(name) != 0) return fail("occurs twice");
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    return true;
  }

  bool finish_tensor() {
    if (!dtype_ || !shape_ || !offsets_)
      return fail("dtype, shape and data_offsets are all needed");
    if (offsets_->size() != 2) return fail("data_offsets needs two numbers");
    Entry entry;
    entry.begin = static_cast<uint64_t>((*offsets_)[0]);
    entry.end = static_cast<uint64_t>((*offsets_)[1]);
    if (entry.begin > entry.end) return fail("data_offsets run backwards");
    uint64_t bytes = dtype_size(*dtype_);
    for (int64_t dim : *shape_) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
        return fail("shape " + shape_text(*shape_) + " is too large");
      }
    }
    if (bytes != entry.end - entry.begin) {
      return fail("shape " + shape_text(*shape_) + " needs " + std::to_string(bytes) +
                  " bytes, data_offsets give " + std::to_string(entry.end - entry.begin));
    }
    entry.view.dtype = *dtype_;
    entry.view.shape = std::move(*shape_);
    entry.view.bytes = bytes;
    tensors_->emplace(name_, std::move(entry));
    return true;
  }

  Tensors* tensors_;
  std::string error_;
  int depth_ = 0;
  bool in_array_ = false;
  bool in_metadata_ = false;
  std::string name_, key_;
  std::vector<int64_t> array_;
  std::optional<Dtype> dtype_;
  std::optional<std::vector<int64_t>> shape_, offsets_;
};

// Tensors must tile the data part without gap or overlap: two names for the same bytes, or bytes
// that belong to nobody, mean a damaged or doctored file.
std::string place_tensors(Tensors* tensors, std::span<const std::byte> data) {
  std::vector<Tensors::value_type*> order;
  order.reserve(tensors->size());
  for (auto& item : *tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->second.begin, a->second.end) < std::tie(b->second.begin, b->second.end);
  });
  uint64_t at = 0;
  for (auto* item : order) {
    Entry& entry = item->second;
    if (entry.end > data.size()) {
      return "tensor " + in_quotes(item->first) + ": ends at byte " + std::to_string(entry.end) +
             " of the data part, which has " + std::to_string(data.size()) + " (file cut short?)";
    }
    if (entry.begin != at) {
      return "tensor " + in_quotes(item->first) + ": starts at byte " +
             std::to_string(entry.begin) + " of the data part, expected " + std::to_string(at);
    }
    entry.view.data = data.data() + entry.begin;
    at = entry.end;
  }
  if (at != data.size()) {
    return std::to_string(data.size() - at) + " bytes at the end belong to no tensor";
  }
  return "";
}

// Owns one read-only mapping.
class Mapping {
 public:
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  ~Mapping() { ::munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), bytes_};
  }

 private:
  void* address_;
  size_t bytes_;
};

Result<std::unique_ptr<Mapping>> map_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return Status(StatusCode::kNotFound, path + ": no such file");
    return Status::from_errno(path);
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(path);
  if (!S_ISREG(info.st_mode)) return invalid(path + ": not a regular file");
  if (info.st_size <= 0) return invalid(path + ": the file is empty");
  void* address =
      ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return Status::from_errno(path + ": mmap");
  return std::make_unique<Mapping>(address, static_cast<size_t>(info.st_size));
}

Status read_header(const std::string& name, std::span<const std::byte> bytes, Tensors* tensors) {
  auto bad = [&](const std::string& what) { return invalid(name + ": " + what); };
  if (bytes.size() < 8) return bad("shorter than the 8 byte header length");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (length > SafetensorsFile::kHeaderBytesMax) {
    return bad("header of " + std::to_string(length) + " bytes is above the limit of " +
               std::to_string(SafetensorsFile::kHeaderBytesMax) + " (not a safetensors file?)");
  }
  if (length > bytes.size() - 8) {
    return bad("header of " + std::to_string(length) + " bytes is longer than the file");
  }
  const char* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  if (length == 0 || text[0] != '{') return bad("the header is not a JSON object");
  HeaderReader reader(tensors);
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(text, text + length, &reader);
  } catch (const std::exception& error) {
    return bad(std::string("header: ") + error.what());
  }
  if (!parsed) return bad("header: " + reader.error());
  std::string error = place_tensors(tensors, bytes.subspan(8 + length));
  return error.empty() ? Status() : bad(error);
}

}  // namespace

const char* dtype_name(Dtype dtype) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.dtype == dtype) return info.name;
  }
  return "?";
}

size_t dtype_size(Dtype dtype) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.dtype == dtype) return info.size;
  }
  return 1;
}

struct SafetensorsFile::State {
  std::string path;
  std::unique_ptr<Mapping> mapping;  // null when the bytes are the caller's
  Tensors tensors;
};

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto state = std::make_shared<State>();
  state->path = path;
  OMS_ASSIGN_OR_RETURN(state->mapping, map_file(path));
  OMS_RETURN_IF_ERROR(read_header(path, state->mapping->bytes(), &state->tensors));
  return SafetensorsFile(std::move(state));
}

Result<SafetensorsFile> SafetensorsFile::parse(std::string name, std::span<const std::byte> bytes) {
  auto state = std::make_shared<State>();
  state->path = std::move(name);
  OMS_RETURN_IF_ERROR(read_header(state->path, bytes, &state->tensors));
  return SafetensorsFile(std::move(state));
}

Result<TensorView> SafetensorsFile::get(std::string_view name) const {
  auto it = state_->tensors.find(name);
  if (it == state_->tensors.end()) {
    return Status(StatusCode::kNotFound, state_->path + ": no tensor " + in_quotes(name));
  }
  return it->second.view;
}

Result<TensorView> SafetensorsFile::get(std::string_view name, Dtype dtype,
                                        std::span<const int64_t> shape) const {
  OMS_ASSIGN_OR_RETURN(TensorView view, get(name));
  if (view.dtype != dtype ||
      !std::equal(shape.begin(), shape.end(), view.shape.begin(), view.shape.end())) {
    return invalid(state_->path + ": tensor " + in_quotes(name) + " is " + dtype_name(view.dtype) +
                   shape_text(view.shape) + ", expected " + dtype_name(dtype) + shape_text(shape));
  }
  return view;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return state_->tensors.count(name) != 0;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> out;
  out.reserve(state_->tensors.size());
  for (const auto& item : state_->tensors) out.push_back(item.first);
  return out;
}

const std::string& SafetensorsFile::path() const {
  return state_->path;
}

}  // namespace omnistage
