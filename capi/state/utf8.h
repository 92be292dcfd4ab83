// UTF-8 checks for text that crosses the library's border, in either direction. Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace omnistage::capi {

// Bytes at the start of `text` that are whole, valid characters (no surrogates, no overlong forms).
size_t utf8_valid_prefix(std::string_view text);
inline bool utf8_valid(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

}  // namespace omnistage::capi
