// Value: a YAML document as a plain tree in which every node remembers the file, line and key path
// it was written at, so that an error found after inheritance still points at the right place.
// yaml-cpp is used in value.cc only. Values own their children; copies are deep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shm/base/status.h"

namespace omnistage::config {

constexpr int kValueDepthMax = 16;
constexpr size_t kValueNodesMax = 20000;  // also what aliases may expand to
constexpr size_t kScalarBytesMax = 64 * 1024;

struct Member;

struct Value {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;
  bool quoted = false;  // "1" in quotes is text, not a number
  std::vector<Value> list;
  std::vector<Member> map;  // in file order, keys unique

  std::shared_ptr<const std::string> file;
  int line = 0;          // 1-based
  std::string key_path;  // "stages[1].max_num_seqs"; empty for the document

  bool is_null() const { return kind == Kind::kNull; }
  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }

  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // Adds or replaces.
  void set(std::string key, Value value);
  void erase(std::string_view key);

  // "file:line: key.path: <message>"
  std::string where(const std::string& message) const;
};

struct Member {
  std::string key;
  Value value;
};

// "a map", "a list", "nothing", "'text'": for messages.
std::string describe(const Value& value);

// Parses one YAML document. Errors: kInvalid with file and line for syntax, duplicate keys, keys
// that are not text, several documents, and documents over the bounds above.
Result<Value> parse_yaml(const std::string& text, const std::string& file);

// Reads and parses; kNotFound when the file cannot be opened.
Result<Value> load_yaml(const std::string& path);

}  // namespace omnistage::config
