#include "shm/base/status.h"

namespace omnistage {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kAgain:
      return "AGAIN";
    case StatusCode::kTimeout:
      return "TIMEOUT";
    case StatusCode::kWoken:
      return "WOKEN";
    case StatusCode::kInvalid:
      return "INVALID";
    case StatusCode::kNoMemory:
      return "NO_MEMORY";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kBusy:
      return "BUSY";
    case StatusCode::kFull:
      return "FULL";
    case StatusCode::kClosed:
      return "CLOSED";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kDeadline:
      return "DEADLINE";
    case StatusCode::kStageDied:
      return "STAGE_DIED";
    case StatusCode::kProtocol:
      return "PROTOCOL";
    case StatusCode::kUnsupported:
      return "UNSUPPORTED";
    case StatusCode::kSystem:
      return "SYSTEM";
    case StatusCode::kForked:
      return "FORKED";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status Status::from_errno(std::string_view what, int error) {
  char buffer[128];
  const char* text = strerror_r(error, buffer, sizeof buffer);
  Status status(StatusCode::kSystem, std::string(what) + ": " + text);
  status.errno_ = error;
  return status;
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(status_code_name(code_)) + ": " + message_;
}

}  // namespace omnistage
