// Status and Result: how every module reports failure. No exceptions cross a module border;
// libraries that throw are wrapped where they are called. Values are immutable after construction,
// so any thread may read.
//
//   Result<Segment> segment = Segment::create(bytes);
//   if (!segment.ok()) return segment.status();
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace omnistage {

// The numbers equal the OMS_E_* codes of the C ABI, so that no table has to translate them.
enum class StatusCode : int32_t {
  kOk = 0,
  kAgain = 1,
  kTimeout = 2,
  kWoken = 3,
  kInvalid = -1,
  kNoMemory = -2,
  kNotFound = -3,
  kBusy = -4,
  kFull = -5,
  kClosed = -6,
  kCancelled = -7,
  kDeadline = -8,
  kStageDied = -9,
  kProtocol = -10,
  kUnsupported = -11,
  kSystem = -12,
  kForked = -13,
  kInternal = -14,
};

// "INVALID", "STAGE_DIED", ...; never null, also for unknown numbers.
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok_status() { return Status(); }
  // "<what>: <strerror(errno)>"; keeps errno in system_errno().
  static Status from_errno(std::string_view what, int error = errno);

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  int system_errno() const { return errno_; }
  const std::string& message() const { return message_; }
  // "INVALID: temperature must be ...", for logs.
  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  int errno_ = 0;
  std::string message_;
};

inline Status invalid(std::string message) {
  return Status(StatusCode::kInvalid, std::move(message));
}
inline Status internal_error(std::string message) {
  return Status(StatusCode::kInternal, std::move(message));
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = internal_error("Result made from an OK status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace omnistage

#define OMS_CONCAT_(a, b) a##b
#define OMS_CONCAT(a, b) OMS_CONCAT_(a, b)
// Returns from the calling function when `expression` (a Status) is not OK.
#define OMS_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                         \
    if (::omnistage::Status oms_status_ = (expression); !oms_status_.ok()) return oms_status_; \
  } while (0)
// OMS_ASSIGN_OR_RETURN(auto fd, open_file(path)): unwraps a Result or returns its Status.
#define OMS_ASSIGN_OR_RETURN(declaration, expression) \
  OMS_ASSIGN_OR_RETURN_(OMS_CONCAT(oms_result_, __LINE__), declaration, expression)
#define OMS_ASSIGN_OR_RETURN_(name, declaration, expression) \
  auto name = (expression);                                  \
  if (!name.ok()) return name.status();                      \
  declaration = std::move(name).value()
