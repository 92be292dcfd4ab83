// StringIndex: numbers distinct strings 0, 1, 2, ... in order of insertion and finds them again.
// Open addressing over 32-bit numbers; the strings are views whose storage the caller keeps (see
// StringPool). Values live in arrays of the caller, indexed by the number. Concurrent find() is
// safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace omnistage::hibari {

class StringIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void reserve(size_t count) {
    size_t slots = 16;
    while (slots < count * 2) slots *= 2;
    if (slots > slots_.size()) rehash(slots);
    keys_.reserve(count);
  }

  // The number of `key`; an equal string keeps the number it has.
  uint32_t insert(std::string_view key) {
    if ((keys_.size() + 1) * 2 > slots_.size()) rehash(slots_.empty() ? 16 : slots_.size() * 2);
    const size_t slot = find_slot(key);
    if (slots_[slot] == kNone) {
      slots_[slot] = static_cast<uint32_t>(keys_.size());
      keys_.push_back(key);
    }
    return slots_[slot];
  }

  uint32_t find(std::string_view key) const {
    return slots_.empty() ? kNone : slots_[find_slot(key)];
  }
  size_t size() const { return keys_.size(); }
  std::string_view key(uint32_t i) const { return keys_[i]; }

 private:
  size_t find_slot(std::string_view key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = std::hash<std::string_view>()(key) & mask;
    while (slots_[slot] != kNone && keys_[slots_[slot]] != key) slot = (slot + 1) & mask;
    return slot;
  }

  void rehash(size_t slots) {
    slots_.assign(slots, kNone);
    for (uint32_t i = 0; i < keys_.size(); ++i) slots_[find_slot(keys_[i])] = i;
  }

  std::vector<std::string_view> keys_;
  std::vector<uint32_t> slots_;
};

}  // namespace omnistage::hibari
