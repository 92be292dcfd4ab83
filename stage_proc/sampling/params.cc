#include "stage_proc/sampling/params.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "shm/base/limits.h"

namespace omnistage::sampling {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

Status out_of_range(const std::string& field, const char* range, const std::string& value) {
  return invalid(field + " must be " + range + ", got " + value);
}

// Comparisons are written so that NaN fails them.
Status validate_numbers(const engine::SamplingParams& p) {
  if (!(p.temperature >= 0 && p.temperature <= kTemperatureMax))
    return out_of_range("temperature", "in [0, 2]", number(p.temperature));
  if (p.top_k < -1)
    return out_of_range("top_k", "-1 or 0 (off) or at least 1", std::to_string(p.top_k));
  if (!(p.top_p > 0 && p.top_p <= 1)) return out_of_range("top_p", "in (0, 1]", number(p.top_p));
  if (!(p.min_p >= 0 && p.min_p <= 1)) return out_of_range("min_p", "in [0, 1]", number(p.min_p));
  if (!(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty)))
    return out_of_range("repetition_penalty", "greater than 0 and finite",
                        number(p.repetition_penalty));
  if (!(p.presence_penalty >= -2 && p.presence_penalty <= 2))
    return out_of_range("presence_penalty", "in [-2, 2]", number(p.presence_penalty));
  if (!(p.frequency_penalty >= -2 && p.frequency_penalty <= 2))
    return out_of_range("frequency_penalty", "in [-2, 2]", number(p.frequency_penalty));
  if (p.max_tokens < 1)
    return out_of_range("max_tokens", "at least 1", std::to_string(p.max_tokens));
  if (p.min_tokens < 0 || p.min_tokens > p.max_tokens)
    return out_of_range("min_tokens",
                        ("in [0, max_tokens = " + std::to_string(p.max_tokens) + "]").c_str(),
                        std::to_string(p.min_tokens));
  return Status();
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
    unsigned char lead = byte(i);
    size_t extra = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead >= 0x80 && (lead < 0xC2 || lead > 0xF4)) return false;
    if (text.size() - i <= extra) return false;
    for (size_t k = 1; k <= extra; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    if (extra >= 2) {
      unsigned char second = byte(i + 1);
      if (lead == 0xE0 && second < 0xA0) return false;
      if (lead == 0xED && second > 0x9F) return false;
      if (lead == 0xF0 && second < 0x90) return false;
      if (lead == 0xF4 && second > 0x8F) return false;
    }
    i += extra + 1;
  }
  return true;
}

Status validate_sampling(const engine::SamplingParams& p, int32_t vocab_size) {
  OMS_RETURN_IF_ERROR(validate_numbers(p));
  if (p.stop.size() > limits::kStopStringsMax)
    return invalid("stop must have at most " + std::to_string(limits::kStopStringsMax) +
                   " strings, got " + std::to_string(p.stop.size()));
  for (size_t i = 0; i < p.stop.size(); ++i) {
    const std::string name = "stop[" + std::to_string(i) + "]";
    const std::string& text = p.stop[i];
    if (text.empty()) return invalid(name + " must not be empty");
    if (text.size() > limits::kStopStringBytesMax)
      return invalid(name + " must have at most " + std::to_string(limits::kStopStringBytesMax) +
                     " bytes, got " + std::to_string(text.size()));
    if (!is_valid_utf8(text)) return invalid(name + " must be valid UTF-8");
  }
  if (p.stop_token_ids.size() > static_cast<size_t>(kStopTokenIdsMax))
    return invalid("stop_token_ids must have at most " + std::to_string(kStopTokenIdsMax) +
                   " ids, got " + std::to_string(p.stop_token_ids.size()));
  for (size_t i = 0; i < p.stop_token_ids.size(); ++i) {
    int32_t id = p.stop_token_ids[i];
    if (id < 0 || (vocab_size > 0 && id >= vocab_size))
      return invalid("stop_token_ids[" + std::to_string(i) + "] must be " +
                     (vocab_size > 0 ? "in [0, " + std::to_string(vocab_size) + ")"
                                     : std::string("at least 0")) +
                     ", got " + std::to_string(id));
  }
  return Status();
}

}  // namespace omnistage::sampling
