// JsonReader: a strict pull parser over a JSON text in memory. The dictionaries of the front end
// hold half a million small entries; reading them straight into flat arrays, with strings that
// point into the file's text, is what keeps the start of a stage short.
//
//   reader.object([&](std::string_view key) { ... read one value ...; return reader.ok(); });
//
// The first error sticks: all later calls do nothing and return false. Strings without escapes are
// views of the text; unescaped ones are kept by the StringPool. One thread at a time.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "shm/base/status.h"

namespace omnistage::hibari {

// A file's text plus the strings that had to be unescaped; views handed out live as long as this
// does.
struct StringPool {
  std::string text;
  std::deque<std::string> unescaped;
};

class JsonReader {
 public:
  static constexpr uint64_t kFileBytesMax = 64ull << 20;

  // Reads the whole file into `pool->text`. Errors name the file.
  static Result<JsonReader> open(const std::string& path, StringPool* pool);

  bool ok() const { return error_.empty(); }
  // INVALID "<file>: byte N: <what>", or OK.
  Status status() const;
  // Records `what` as the error; for checks of the caller. Always returns false.
  bool fail(std::string what);

  // The first character of the next value: one of { [ " t f n - 0..9; 0 at the end.
  char peek();

  // Calls each(key) with the reader before the key's value; each returns false to stop.
  template <typename Each>
  bool object(Each each) {
    if (!take('{')) return false;
    if (peek() == '}') return take('}');
    std::string_view key;
    do {
      if (!string(&key) || !take(':') || !each(key) || !ok()) return false;
    } while (take_if(','));
    return take('}');
  }

  // Calls each() with the reader before each element.
  template <typename Each>
  bool array(Each each) {
    if (!take('[')) return false;
    if (peek() == ']') return take(']');
    do {
      if (!each() || !ok()) return false;
    } while (take_if(','));
    return take(']');
  }

  bool string(std::string_view* out);
  bool number(double* out);
  // A whole number in [0, max].
  bool integer(uint32_t max, uint32_t* out);
  bool null();
  // Nothing but white space may follow.
  bool finish();

 private:
  JsonReader(std::string path, StringPool* pool) : path_(std::move(path)), pool_(pool) {}
  void skip_space();
  bool take(char c);
  bool take_if(char c);
  bool unescape(size_t begin, std::string_view* out);
  bool escape_sequence(std::string* out);
  bool hex4(uint32_t* out);

  std::string path_;
  StringPool* pool_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace omnistage::hibari
