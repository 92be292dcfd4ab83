#include "shm/pool/lease_table.h"

#include <algorithm>

namespace omnistage::shm {

bool LeaseTable::add(ConsumerId consumer, LeasedBlock block, uint32_t& slot, uint32_t& generation) {
  if (free_.empty()) {
    if (slots_.size() >= kLeasesMax) return false;
    slots_.emplace_back();
    free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
  }
  slot = free_.back();
  free_.pop_back();
  Slot& entry = slots_[slot];
  entry.used = true;
  generation = ++entry.generation;
  entry.consumer = consumer;
  entry.block = block;
  ++count_;
  return true;
}

std::optional<LeasedBlock> LeaseTable::take(ConsumerId consumer, uint32_t slot,
                                            uint32_t generation) {
  if (slot >= slots_.size()) return std::nullopt;
  Slot& entry = slots_[slot];
  if (!entry.used || entry.generation != generation || entry.consumer != consumer)
    return std::nullopt;
  entry.used = false;
  free_.push_back(slot);
  --count_;
  return entry.block;
}

std::vector<LeasedBlock> LeaseTable::take_all(ConsumerId consumer) {
  std::vector<LeasedBlock> blocks;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (auto block = take(consumer, slot, slots_[slot].generation)) blocks.push_back(*block);
  return blocks;
}

bool LeaseTable::has(ConsumerId consumer) const {
  return std::any_of(slots_.begin(), slots_.end(), [consumer](const Slot& slot) {
    return slot.used && slot.consumer == consumer;
  });
}

}  // namespace omnistage::shm
