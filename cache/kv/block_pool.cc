#include "cache/kv/block_pool.h"

#include <string>

#include "shm/base/check.h"

namespace omnistage::cache {

Status BlockPool::validate(const BlockPoolOptions& options) {
  if (options.block_size < 1 || options.block_size > BlockPoolOptions::kBlockSizeMax)
    return invalid("block_size must be in [1, " + std::to_string(BlockPoolOptions::kBlockSizeMax) +
                   "], got " + std::to_string(options.block_size));
  if (options.num_blocks < 1 || options.num_blocks > BlockPoolOptions::kNumBlocksMax)
    return invalid("num_blocks must be in [1, " + std::to_string(BlockPoolOptions::kNumBlocksMax) +
                   "], got " + std::to_string(options.num_blocks));
  return Status();
}

BlockPool::BlockPool(const BlockPoolOptions& options) : block_size_(options.block_size) {
  OMS_CHECK(validate(options).ok(), "options were not validated");
  refs_.assign(static_cast<size_t>(options.num_blocks), 0);
  free_.resize(refs_.size());
  for (size_t i = 0; i < free_.size(); ++i) free_[i] = static_cast<int32_t>(i);
  free_count_ = options.num_blocks;
}

int32_t BlockPool::allocate() {
  OMS_CHECK(free_count_ > 0, "allocate() on an empty pool");
  int32_t block = free_[free_head_];
  free_head_ = (free_head_ + 1) % free_.size();
  --free_count_;
  OMS_CHECK(refs_[block] == 0, "a block of the free list is in use");
  refs_[block] = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  OMS_CHECK(block >= 0 && block < total(), "retain() of a block that is not of this pool");
  OMS_CHECK(refs_[block] > 0, "retain() of a free block");
  OMS_CHECK(refs_[block] < UINT32_MAX, "too many holders of one block");
  ++refs_[block];
}

void BlockPool::release(int32_t block) {
  OMS_CHECK(block >= 0 && block < total(), "release() of a block that is not of this pool");
  OMS_CHECK(refs_[block] > 0, "release() of a free block");
  if (--refs_[block] > 0) return;
  free_[(free_head_ + static_cast<size_t>(free_count_)) % free_.size()] = block;
  ++free_count_;
}

uint32_t BlockPool::references(int32_t block) const {
  OMS_CHECK(block >= 0 && block < total(), "references() of a block that is not of this pool");
  return refs_[block];
}

void BlockPool::check_invariants() const {
  std::vector<bool> seen(refs_.size(), false);
  OMS_CHECK(free_count_ >= 0 && free_count_ <= total(), "free count out of range");
  for (int32_t i = 0; i < free_count_; ++i) {
    int32_t block = free_[(free_head_ + static_cast<size_t>(i)) % free_.size()];
    OMS_CHECK(block >= 0 && block < total(), "free list holds a foreign block");
    OMS_CHECK(!seen[block], "a block is twice in the free list");
    OMS_CHECK(refs_[block] == 0, "a block of the free list is in use");
    seen[block] = true;
  }
  for (size_t i = 0; i < refs_.size(); ++i)
    OMS_CHECK(seen[i] == (refs_[i] == 0), "a block without holders is not in the free list");
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_), blocks_(std::move(other.blocks_)) {
  other.blocks_.clear();
}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  blocks_ = std::move(other.blocks_);
  other.blocks_.clear();
  return *this;
}

int32_t BlockTable::missing_for(int64_t tokens) const {
  int32_t need = pool_->blocks_for(tokens) - static_cast<int32_t>(blocks_.size());
  return need > 0 ? need : 0;
}

bool BlockTable::grow_to(int64_t tokens) {
  int32_t need = missing_for(tokens);
  if (need > pool_->free()) return false;
  for (; need > 0; --need) blocks_.push_back(pool_->allocate());
  return true;
}

BlockTable BlockTable::share() const {
  BlockTable copy(*pool_);
  copy.blocks_.reserve(blocks_.size());
  for (int32_t block : blocks_) {
    pool_->retain(block);
    copy.blocks_.push_back(block);
  }
  return copy;
}

void BlockTable::clear() {
  while (!blocks_.empty()) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

}  // namespace omnistage::cache
