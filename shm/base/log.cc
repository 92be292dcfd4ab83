#include "shm/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <shared_mutex>

namespace omnistage {
namespace {

// Leaked on purpose: threads may still log while static destructors run.
struct LogState {
  std::shared_mutex mutex;
  LogSink sink;
};
LogState& state() {
  static LogState* instance = new LogState;
  return *instance;
}
std::atomic<int32_t> minimum_level{static_cast<int32_t>(LogLevel::kWarn)};

}  // namespace

void set_log_sink(LogSink sink, LogLevel minimum) {
  std::unique_lock lock(state().mutex);
  state().sink = std::move(sink);
  minimum_level.store(static_cast<int32_t>(minimum), std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return static_cast<int32_t>(level) >= minimum_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view component, const std::string& message) {
  std::shared_lock lock(state().mutex);
  if (state().sink) {
    state().sink(level, component, message);
    return;
  }
  std::fprintf(stderr, "omnistage: %.*s: %s\n", static_cast<int>(component.size()),
               component.data(), message.c_str());
}

}  // namespace omnistage
