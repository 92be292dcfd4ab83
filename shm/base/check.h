// OMS_CHECK: a broken invariant of our own code ends the process with one line; it is on in every
// build. Never use it on input: what comes from a caller, a peer or a file gets a Status.
#pragma once

#include <cstdlib>

#include "shm/base/log.h"

namespace omnistage::detail {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const char* what) {
  log_line(LogLevel::kError, "check",
           std::string(file) + ":" + std::to_string(line) + ": " + condition + ": " + what);
  std::abort();
}

}  // namespace omnistage::detail

#define OMS_CHECK(condition, what)                                             \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::omnistage::detail::check_failed(__FILE__, __LINE__, #condition, what); \
  } while (0)
