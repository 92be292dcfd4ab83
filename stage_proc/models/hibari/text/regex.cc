#include "stage_proc/models/hibari/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 32
#include <pcre2.h>

#include <cstdint>

namespace omnistage::hibari {
namespace {

constexpr uint32_t kStepsMax = 1'000'000;
constexpr uint32_t kDepthMax = 10'000;

PCRE2_SPTR32 units(TextView text) {
  return reinterpret_cast<PCRE2_SPTR32>(text.data());
}

struct FreeMatchData {
  void operator()(pcre2_match_data_32* data) const { pcre2_match_data_free_32(data); }
};

// The limits are the same for all patterns, so that one read-only context serves all threads.
pcre2_match_context_32* match_context() {
  static pcre2_match_context_32* const context = [] {
    pcre2_match_context_32* made = pcre2_match_context_create_32(nullptr);
    if (made != nullptr) {
      pcre2_set_match_limit_32(made, kStepsMax);
      pcre2_set_depth_limit_32(made, kDepthMax);
    }
    return made;
  }();
  return context;
}

}  // namespace

Result<Regex> Regex::compile(TextView pattern, bool ignore_case) {
  uint32_t options = PCRE2_UTF | PCRE2_UCP;
  if (ignore_case) options |= PCRE2_CASELESS;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code_32* code =
      pcre2_compile_32(units(pattern), pattern.size(), options, &error, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR32 reason[128] = {};
    const int length = pcre2_get_error_message_32(error, reason, 128);
    std::string text;
    for (int i = 0; i < length; ++i) append_utf8(reason[i], &text);
    return invalid("pattern " + encode_utf8(pattern) + " at character " + std::to_string(offset) +
                   ": " + text);
  }
  Regex regex;
  regex.code_ = std::shared_ptr<const pcre2_real_code_32>(
      code, [](const pcre2_real_code_32* p) { pcre2_code_free_32(const_cast<pcre2_code_32*>(p)); });
  return regex;
}

bool Regex::search(TextView subject, size_t from, RegexMatch* match) const {
  if (code_ == nullptr || from > subject.size()) return false;
  std::unique_ptr<pcre2_match_data_32, FreeMatchData> data(
      pcre2_match_data_create_from_pattern_32(code_.get(), nullptr));
  if (data == nullptr) return false;
  const int count = pcre2_match_32(code_.get(), units(subject), subject.size(), from,
                                   PCRE2_NO_UTF_CHECK, data.get(), match_context());
  if (count <= 0) return false;
  const PCRE2_SIZE* spans = pcre2_get_ovector_pointer_32(data.get());
  match->subject_ = subject;
  match->spans_.assign(spans, spans + 2 * static_cast<size_t>(count));
  return true;
}

Text regex_escape(TextView literal) {
  Text out;
  for (char32_t c : literal) {
    const bool plain = c >= 0x80 || is_letter(c) || is_ascii_digit(c) || c == U'_';
    if (!plain) out += U'\\';
    out += c;
  }
  return out;
}

}  // namespace omnistage::hibari
