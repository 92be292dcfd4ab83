// oms_abi_version, oms_version_string, oms_status_*, oms_set_log_callback.
#include "capi/abi/checks.h"
#include "shm/base/log.h"

namespace {

#define OMS_CHECK_CODE_(name, number, text) static_assert(number > 0 || name == number);
OMS_STATUS_LIST(OMS_CHECK_CODE_)
#undef OMS_CHECK_CODE_
using omnistage::StatusCode;
static_assert(OMS_WOKEN == static_cast<int32_t>(StatusCode::kWoken));
static_assert(OMS_E_FULL == static_cast<int32_t>(StatusCode::kFull));
static_assert(OMS_E_STAGE_DIED == static_cast<int32_t>(StatusCode::kStageDied));
static_assert(OMS_E_INTERNAL == static_cast<int32_t>(StatusCode::kInternal));

}  // namespace

extern "C" {

uint32_t oms_abi_version(void) noexcept {
  return OMS_ABI_VERSION;
}

const char* oms_version_string(void) noexcept {
  return OMNISTAGE_VERSION;
}

const char* oms_status_name(oms_status status) noexcept {
  switch (status) {
#define OMS_NAME_(name, number, text) \
  case number:                        \
    return #name;
    OMS_STATUS_LIST(OMS_NAME_)
#undef OMS_NAME_
    default:
      return "OMS_UNKNOWN";
  }
}

const char* oms_status_text(oms_status status) noexcept {
  switch (status) {
#define OMS_TEXT_(name, number, text) \
  case number:                        \
    return text;
    OMS_STATUS_LIST(OMS_TEXT_)
#undef OMS_TEXT_
    default:
      return "a status this library does not know";
  }
}

void oms_set_log_callback(oms_log_fn fn, void* user, int32_t level_min) noexcept {
  using omnistage::LogLevel;
  omnistage::capi::guarded(nullptr, [&] {
    if (fn == nullptr) {
      omnistage::set_log_sink({}, LogLevel::kWarn);
      return OMS_OK;
    }
    const int32_t level = level_min < OMS_LOG_TRACE ? OMS_LOG_TRACE
                          : level_min > OMS_LOG_OFF ? OMS_LOG_OFF
                                                    : level_min;
    omnistage::set_log_sink(
        [fn, user](LogLevel line_level, std::string_view component, std::string_view message) {
          // Components are string literals of this library, hence terminated.
          fn(user, static_cast<int32_t>(line_level), component.data(), message.data(),
             message.size());
        },
        static_cast<LogLevel>(level));
    return OMS_OK;
  });
}

}  // extern "C"
