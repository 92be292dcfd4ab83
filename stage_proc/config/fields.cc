#include "stage_proc/config/fields.h"

#include <charconv>
#include <cmath>

namespace omnistage::config {
namespace {

std::string number_text(double value) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}

bool is_plain(const Value& value) {
  return value.is_scalar() && !value.quoted;
}

}  // namespace

void Problems::add(const Value& where, const std::string& message, StatusCode code) {
  const bool same_file = file_ != nullptr && where.file != nullptr && *file_ == *where.file;
  if (!first_.ok() && !(same_file && where.line < line_)) return;
  first_ = Status(code, where.where(message));
  file_ = where.file;
  line_ = where.line;
}

std::optional<int64_t> as_int(const Value& value) {
  if (!is_plain(value)) return std::nullopt;
  std::string_view text = value.scalar;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> as_number(const Value& value) {
  if (!is_plain(value)) return std::nullopt;
  std::string_view text = value.scalar;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<bool> as_bool(const Value& value) {
  if (!is_plain(value)) return std::nullopt;
  for (const char* text : {"true", "True", "TRUE"})
    if (value.scalar == text) return true;
  for (const char* text : {"false", "False", "FALSE"})
    if (value.scalar == text) return false;
  return std::nullopt;
}

const Value* Fields::get(std::string_view key) {
  mark_known(key);
  const Value* found = map_.find(key);
  return found != nullptr && !found->is_null() ? found : nullptr;
}

bool Fields::read_int(std::string_view key, int64_t low, int64_t high, int64_t* out) {
  const Value* found = get(key);
  if (found == nullptr) return false;
  const std::optional<int64_t> number = as_int(*found);
  if (!number || *number < low || *number > high) {
    const std::string kind = number ? "must be " : "must be a whole number, ";
    problems_->add(*found, kind + std::to_string(low) + ".." + std::to_string(high) + ", got " +
                               describe(*found));
    return false;
  }
  *out = *number;
  return true;
}

bool Fields::read_int(std::string_view key, int64_t low, int64_t high, int* out) {
  int64_t wide = 0;
  if (!read_int(key, low, high, &wide)) return false;
  *out = static_cast<int>(wide);
  return true;
}

bool Fields::read_int(std::string_view key, int64_t low, int64_t high, std::optional<int>* out) {
  int number = 0;
  if (!read_int(key, low, high, &number)) return false;
  *out = number;
  return true;
}

bool Fields::read_bool(std::string_view key, bool* out) {
  const Value* found = get(key);
  if (found == nullptr) return false;
  const std::optional<bool> flag = as_bool(*found);
  if (!flag) {
    problems_->add(*found, "must be true or false, got " + describe(*found));
    return false;
  }
  *out = *flag;
  return true;
}

bool Fields::read_number(std::string_view key, double low, bool open_low, double high,
                         std::optional<double>* out) {
  const Value* found = get(key);
  if (found == nullptr) return false;
  const std::optional<double> number = as_number(*found);
  if (!number || *number < low || (open_low && *number == low) || *number > high) {
    problems_->add(*found, std::string("must be a number ") + (open_low ? "above " : "from ") +
                               number_text(low) + " to " + number_text(high) + ", got " +
                               describe(*found));
    return false;
  }
  *out = *number;
  return true;
}

bool Fields::read_text(std::string_view key, size_t bytes_max, std::string* out) {
  const Value* found = get(key);
  if (found == nullptr) return false;
  if (!found->is_scalar() || found->scalar.empty() || found->scalar.size() > bytes_max) {
    problems_->add(*found, "must be text of 1.." + std::to_string(bytes_max) + " bytes, got " +
                               (found->is_scalar() && !found->scalar.empty()
                                    ? std::to_string(found->scalar.size()) + " bytes"
                                    : describe(*found)));
    return false;
  }
  *out = found->scalar;
  return true;
}

bool Fields::read_ints(std::string_view key, int64_t low, int64_t high, size_t count_max,
                       std::vector<int>* out) {
  const Value* found = get(key);
  if (found == nullptr) return false;
  const std::string bounds = "numbers " + std::to_string(low) + ".." + std::to_string(high);
  if (!found->is_list() || found->list.size() > count_max) {
    problems_->add(
        *found,
        "must be a list of at most " + std::to_string(count_max) + " " + bounds + ", got " +
            (found->is_list() ? std::to_string(found->list.size()) + " items" : describe(*found)));
    return false;
  }
  std::vector<int> numbers;
  for (const Value& item : found->list) {
    const std::optional<int64_t> number = as_int(item);
    if (!number || *number < low || *number > high) {
      problems_->add(item, "must be a list of " + bounds + ", got " + describe(item));
      return false;
    }
    numbers.push_back(static_cast<int>(*number));
  }
  *out = std::move(numbers);
  return true;
}

void Fields::finish(const std::string& what) {
  for (const auto& [key, value] : map_.map) {
    if (known_.count(key) != 0) continue;
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    problems_->add(value, "unknown key; " + what + " has: " + names);
  }
}

}  // namespace omnistage::config
