#include "stage_proc/supervisor/process_log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "shm/base/log.h"

namespace omnistage {
namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("OMNISTAGE_LOG");
  if (text == nullptr || *text == '\0') return LogLevel::kWarn;
  const std::string_view names[] = {"trace", "debug", "info", "warn", "error", "off"};
  for (size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == text) return static_cast<LogLevel>(i);
  }
  std::fprintf(stderr, "OMNISTAGE_LOG: unknown level '%.32s', using warn\n", text);
  return LogLevel::kWarn;
}

spdlog::level::level_enum spd_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void start_process_log(const std::string& process_name) {
  const LogLevel level = level_from_environment();
  try {
    auto logger = std::make_shared<spdlog::logger>(
        process_name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_level(spd_level(level));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l [%n %P] %v");
    set_log_sink(
        [logger](LogLevel at, std::string_view component, std::string_view message) {
          logger->log(spd_level(at), "{}: {}", component, message);
        },
        level);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: no logging: %s\n", process_name.c_str(), error.what());
  }
}

}  // namespace omnistage
