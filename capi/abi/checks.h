// The rules every function of the C interface follows: struct sizes, error structs, fork, and the
// wall that no exception crosses. Internal to capi/abi.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "omnistage/omnistage.h"
#include "shm/base/status.h"

namespace omnistage::capi {

constexpr uint32_t kStructBytesMax = 1u << 16;

// Fills `err` (may be null) and gives the code. `stage` = -1: about no stage.
oms_status report(oms_error* err, const Status& status, int32_t stage = -1);

// Copies a struct of the caller whose size may differ from ours: a missing tail becomes zero, an
// unknown tail has to be zero. `name` is for messages.
Status copy_struct_in(const void* from, void* to, uint32_t own_size, const char* name);
template <typename T>
Status copy_in(const T* from, T& to, const char* name) {
  if (from == nullptr) return invalid(std::string(name) + " is NULL");
  to = T{};
  return copy_struct_in(from, &to, sizeof(T), name);
}

// Writes as much of `own` as the caller's struct has; its unknown tail becomes zero, its
// struct_size stays.
Status copy_struct_out(const void* own, uint32_t own_size, void* to, const char* name);
template <typename T>
Status copy_out(const T& own, T* to, const char* name) {
  if (to == nullptr) return invalid(std::string(name) + " is NULL");
  return copy_struct_out(&own, sizeof(T), to, name);
}

// For the _init functions: writes the first `struct_size` bytes of `defaults` and zeros beyond.
template <typename T>
void init_struct(T* to, uint32_t struct_size, T defaults) {
  if (to == nullptr || struct_size < sizeof(uint32_t) || struct_size > kStructBytesMax) return;
  std::memset(static_cast<void*>(to), 0, struct_size);
  defaults.struct_size = struct_size;
  std::memcpy(static_cast<void*>(to), &defaults, struct_size < sizeof(T) ? struct_size : sizeof(T));
}

// The first element's struct_size is the distance of the elements.
template <typename T>
const T* element(const T* array, uint32_t stride, uint32_t index) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + size_t{stride} * index);
}

// Copies into a fixed, NUL-terminated field, cut at a character border.
void copy_text(const std::string& text, char* to, size_t capacity);

// Runs `body` (returning oms_status); exceptions become codes.
template <typename Body>
oms_status guarded(oms_error* err, Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    // Reporting allocates nothing that it needs: the short text fits the string itself.
    return report(err, Status(StatusCode::kNoMemory, "out of memory"));
  } catch (const std::exception& error) {
    try {
      return report(err, internal_error(error.what()));
    } catch (...) {
      return OMS_E_INTERNAL;
    }
  } catch (...) {
    return OMS_E_INTERNAL;
  }
}

}  // namespace omnistage::capi
