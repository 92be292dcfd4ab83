// Log facade. Libraries call OMS_LOG_*; the program decides where lines go by setting one sink: the
// stage and the supervisor hand them to spdlog, the C library to the host's callback. Without a
// sink lines at or above kWarn go to stderr. Any thread may log; set_log_sink may be called at any
// time and returns only when no call to the old sink is running.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace omnistage {

enum class LogLevel : int32_t {
  kTrace = 0,
  kDebug = 1,
  kInfo = 2,
  kWarn = 3,
  kError = 4,
  kOff = 5
};

using LogSink = std::function<void(LogLevel, std::string_view component, std::string_view message)>;

void set_log_sink(LogSink sink, LogLevel minimum);  // an empty sink restores stderr
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view component, const std::string& message);

}  // namespace omnistage

// OMS_LOG(kWarn, "shm", "peer " + name + " died"): the message is only built when the level is on.
#define OMS_LOG(level, component, message)                                         \
  do {                                                                             \
    if (::omnistage::log_enabled(::omnistage::LogLevel::level))                    \
      ::omnistage::log_line(::omnistage::LogLevel::level, (component), (message)); \
  } while (0)
