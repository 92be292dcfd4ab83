#include "capi/abi/checks.h"

#include <algorithm>
#include <string_view>

#include "capi/state/utf8.h"

namespace omnistage::capi {
namespace {

uint32_t size_of(const void* from) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  return size;
}

Status check_size(uint32_t size, const char* name) {
  if (size >= sizeof(uint64_t) && size <= kStructBytesMax) return Status();
  return invalid(std::string(name) + ".struct_size is " + std::to_string(size) +
                 "; set it to sizeof of the struct");
}

}  // namespace

void copy_text(const std::string& text, char* to, size_t capacity) {
  std::string_view part(text);
  if (part.size() >= capacity) part = part.substr(0, capacity - 1);
  part = part.substr(0, utf8_valid_prefix(part));
  std::memcpy(to, part.data(), part.size());
  to[part.size()] = '\0';
}

oms_status report(oms_error* err, const Status& status, int32_t stage) {
  const auto code = static_cast<oms_status>(status.code());
  if (err == nullptr || code >= 0) return code;
  oms_error own{};
  own.code = code;
  own.sys_errno = status.system_errno();
  own.stage_index = stage;
  copy_text(status.message(), own.message, sizeof(own.message));
  (void)copy_struct_out(&own, sizeof(own), err, "err");
  return code;
}

Status copy_struct_in(const void* from, void* to, uint32_t own_size, const char* name) {
  const uint32_t size = size_of(from);
  OMS_RETURN_IF_ERROR(check_size(size, name));
  std::memcpy(to, from, std::min(size, own_size));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (uint32_t i = own_size; i < size; ++i) {
    if (bytes[i] != 0) {
      return Status(StatusCode::kUnsupported,
                    std::string(name) + " has a field at byte " + std::to_string(i) +
                        " that this library (ABI " + std::to_string(OMS_ABI_MAJOR) + "." +
                        std::to_string(OMS_ABI_MINOR) + ") does not know");
    }
  }
  return Status();
}

Status copy_struct_out(const void* own, uint32_t own_size, void* to, const char* name) {
  const uint32_t size = size_of(to);
  OMS_RETURN_IF_ERROR(check_size(size, name));
  auto* bytes = static_cast<unsigned char*>(to);
  const uint32_t known = std::min(size, own_size);
  std::memcpy(bytes + sizeof(uint32_t), static_cast<const unsigned char*>(own) + sizeof(uint32_t),
              known - sizeof(uint32_t));
  std::memset(bytes + known, 0, size - known);
  return Status();
}

}  // namespace omnistage::capi
