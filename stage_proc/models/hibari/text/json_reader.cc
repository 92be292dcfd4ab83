#include "stage_proc/models/hibari/text/json_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <cmath>

#include "shm/base/fd.h"
#include "stage_proc/models/hibari/text/unicode.h"

namespace omnistage::hibari {

Result<JsonReader> JsonReader::open(const std::string& path, StringPool* pool) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return Status(StatusCode::kNotFound, path + ": no such file");
    return Status::from_errno(path);
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(path);
  if (!S_ISREG(info.st_mode)) return invalid(path + ": not a regular file");
  if (static_cast<uint64_t>(info.st_size) > kFileBytesMax) {
    return invalid(path + ": larger than the limit of " + std::to_string(kFileBytesMax) + " bytes");
  }
  pool->text.resize(static_cast<size_t>(info.st_size));
  size_t have = 0;
  while (have < pool->text.size()) {
    const ssize_t got = ::read(fd.get(), pool->text.data() + have, pool->text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(path);
    if (got == 0) return invalid(path + ": the file became shorter while it was read");
    have += static_cast<size_t>(got);
  }
  return JsonReader(path, pool);
}

Status JsonReader::status() const {
  if (ok()) return Status();
  return invalid(path_ + ": byte " + std::to_string(at_) + ": " + error_);
}

bool JsonReader::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
  return false;
}

void JsonReader::skip_space() {
  const std::string& text = pool_->text;
  while (at_ < text.size()) {
    const char c = text[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++at_;
  }
}

char JsonReader::peek() {
  skip_space();
  return at_ < pool_->text.size() ? pool_->text[at_] : '\0';
}

bool JsonReader::take_if(char c) {
  if (!ok() || peek() != c || at_ >= pool_->text.size()) return false;
  ++at_;
  return true;
}

bool JsonReader::take(char c) {
  if (take_if(c)) return true;
  return fail(std::string("expected '") + c + "'");
}

bool JsonReader::string(std::string_view* out) {
  if (!take('"')) return false;
  const std::string& text = pool_->text;
  const size_t begin = at_;
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (c == '"') {
      *out = std::string_view(text).substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (c == '\\') return unescape(begin, out);
    if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
  }
  return fail("the file ends inside a string");
}

bool JsonReader::unescape(size_t begin, std::string_view* out) {
  const std::string& text = pool_->text;
  std::string plain = text.substr(begin, at_ - begin);
  while (at_ < text.size()) {
    const char c = text[at_++];
    if (c == '"') {
      pool_->unescaped.push_back(std::move(plain));
      *out = pool_->unescaped.back();
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
    if (c != '\\') {
      plain += c;
    } else if (!escape_sequence(&plain)) {
      return false;
    }
  }
  return fail("the file ends inside a string");
}

bool JsonReader::escape_sequence(std::string* out) {
  const std::string& text = pool_->text;
  if (at_ >= text.size()) return fail("the file ends inside a string");
  const char c = text[at_++];
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    *out += kTo[i];
    return true;
  }
  uint32_t code = 0;
  if (c != 'u' || !hex4(&code)) return fail("bad escape in a string");
  if (code >= 0xd800 && code < 0xdc00) {
    uint32_t low = 0;
    if (text.compare(at_, 2, "\\u") != 0) return fail("half a surrogate pair");
    at_ += 2;
    if (!hex4(&low) || low < 0xdc00 || low > 0xdfff) return fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail("half a surrogate pair");
  }
  append_utf8(code, out);
  return true;
}

bool JsonReader::hex4(uint32_t* out) {
  const std::string& text = pool_->text;
  if (text.size() - at_ < 4) return false;
  const char* begin = text.data() + at_;
  const auto result = std::from_chars(begin, begin + 4, *out, 16);
  if (result.ec != std::errc() || result.ptr != begin + 4) return false;
  at_ += 4;
  return true;
}

bool JsonReader::number(double* out) {
  const char c = peek();
  if (!ok()) return false;
  if (c != '-' && (c < '0' || c > '9')) return fail("expected a number");
  const char* end = pool_->text.data() + pool_->text.size();
  const auto result = std::from_chars(pool_->text.data() + at_, end, *out);
  if (result.ec != std::errc() || !std::isfinite(*out)) return fail("bad number");
  at_ = static_cast<size_t>(result.ptr - pool_->text.data());
  return true;
}

bool JsonReader::integer(uint32_t max, uint32_t* out) {
  double value = 0;
  if (!number(&value)) return false;
  if (value < 0 || value > max || value != std::floor(value)) {
    return fail("expected a whole number from 0 to " + std::to_string(max));
  }
  *out = static_cast<uint32_t>(value);
  return true;
}

bool JsonReader::null() {
  if (peek() != 'n' || !ok() || pool_->text.compare(at_, 4, "null") != 0)
    return fail("expected null");
  at_ += 4;
  return true;
}

bool JsonReader::finish() {
  if (!ok()) return false;
  peek();
  return at_ == pool_->text.size() || fail("text after the end of the JSON value");
}

}  // namespace omnistage::hibari
