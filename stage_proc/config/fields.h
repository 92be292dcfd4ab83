// Typed access to one map of a deploy file. Every read marks its key as known; finish() then
// reports what nobody asked for. All problems go to one Problems object; the earliest in the file
// is what the user sees.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stage_proc/config/value.h"

namespace omnistage::config {

class Problems {
 public:
  void add(const Value& where, const std::string& message, StatusCode code = StatusCode::kInvalid);
  bool empty() const { return first_.ok(); }
  // The problem at the lowest line of the first file that had one; OK without problems.
  const Status& first() const { return first_; }

 private:
  Status first_;
  std::shared_ptr<const std::string> file_;
  int line_ = 0;
};

// Scalar conversions; strict: the whole text must match and quoted text is never a number or a
// bool.
std::optional<int64_t> as_int(const Value& value);
std::optional<double> as_number(const Value& value);  // finite
std::optional<bool> as_bool(const Value& value);

class Fields {
 public:
  // REQUIRES: map.is_map(); map and problems outlive this object.
  Fields(const Value& map, Problems* problems) : map_(map), problems_(problems) {}

  const Value& value() const { return map_; }
  Problems& problems() { return *problems_; }
  // The value of `key` or nullptr when it is absent or null; marks the key as known.
  const Value* get(std::string_view key);

  // Each leaves *out alone when the key is absent or wrong and returns whether it was set.
  bool read_int(std::string_view key, int64_t low, int64_t high, int64_t* out);
  bool read_int(std::string_view key, int64_t low, int64_t high, int* out);
  bool read_int(std::string_view key, int64_t low, int64_t high, std::optional<int>* out);
  bool read_bool(std::string_view key, bool* out);
  // low < or <= value (open_low decides) and value <= high.
  bool read_number(std::string_view key, double low, bool open_low, double high,
                   std::optional<double>* out);
  // Not empty, at most `bytes_max` bytes.
  bool read_text(std::string_view key, size_t bytes_max, std::string* out);
  // A list of int in [low, high], at most count_max long.
  bool read_ints(std::string_view key, int64_t low, int64_t high, size_t count_max,
                 std::vector<int>* out);

  void mark_known(std::string_view key) { known_.emplace(key); }
  // Reports every key that nobody read, in the words "unknown key; <what> has: a, b, c".
  void finish(const std::string& what);

 private:
  const Value& map_;
  Problems* problems_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace omnistage::config
