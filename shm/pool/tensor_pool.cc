#include "shm/pool/tensor_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#include "shm/base/check.h"
#include "shm/base/limits.h"
#include "shm/pool/lease_table.h"
#include "shm/pool/slab.h"

namespace omnistage::shm {
namespace {

constexpr uint64_t kFirstSlabBytes = 1u << 20;  // further slabs double up to kSlabBytesMax
// Empty slabs kept, so that a pool in steady use never asks the kernel: making a slab costs
// milliseconds (zeroed pages, memory check, another fd for every peer).
constexpr uint64_t kEmptyBytesKept = kSlabSegmentBytesMax;

class PoolImpl final : public TensorPool, public std::enable_shared_from_this<PoolImpl> {
 public:
  explicit PoolImpl(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  Result<HostTensor> allocate(DType dtype, std::vector<int64_t> shape) override {
    uint64_t bytes = dtype_bytes(dtype);
    for (int64_t d : shape) {
      if (d < 0) return invalid("tensor dimension must not be negative, got " + std::to_string(d));
      if (d != 0 && bytes > limits::kSlabBytesMax / static_cast<uint64_t>(d) &&
          !contains_zero(shape))
        return invalid("tensor is larger than the pool's limit of " +
                       std::to_string(limits::kSlabBytesMax) + " bytes");
      bytes *= static_cast<uint64_t>(d);
    }
    HostTensor tensor{dtype, std::move(shape), nullptr};
    if (bytes == 0) return tensor;
    Place place{};
    {
      std::lock_guard lock(mutex_);
      look_for_leavers();
      auto found = find_room(bytes);
      if (!found.ok()) return found.status();
      place = *found;
    }
    try {
      // If the handle cannot be made, its constructor runs the deleter.
      tensor.data = std::shared_ptr<std::byte>(
          place.memory, [self = shared_from_this(), number = place.slab,
                         start = place.start](std::byte*) { self->release_local(number, start); });
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kNoMemory, "out of memory for a tensor handle");
    }
    return tensor;
  }

  Result<TensorRef> lease(ConsumerId consumer, const std::byte* data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    Slab* slab = slab_of(data);
    uint64_t start = 0;
    Block* block = nullptr;
    const uint64_t offset =
        slab == nullptr ? 0 : static_cast<uint64_t>(data - slab->segment().base());
    if (slab != nullptr) block = slab->find(offset, bytes, start);
    if (block == nullptr)
      return Status(StatusCode::kNotFound,
                    std::to_string(bytes) + " bytes at this address are not a block of the pool");
    TensorRef ref;
    if (!leases_.add(consumer, {slab->number(), start}, ref.lease, ref.generation))
      return Status(StatusCode::kFull,
                    "all " + std::to_string(LeaseTable::kLeasesMax) + " tensor leases are out");
    ++block->leases;
    ref.slab = slab->number();
    ref.offset = offset;
    ref.bytes = bytes;
    return ref;
  }

  void return_lease(ConsumerId consumer, uint32_t lease, uint32_t generation) override {
    std::vector<std::unique_ptr<Slab>> dropped;
    std::lock_guard lock(mutex_);
    if (auto block = leases_.take(consumer, lease, generation)) drop_lease(*block, dropped);
  }

  void consumer_died(ConsumerId consumer) override {
    std::vector<std::unique_ptr<Slab>> dropped;
    std::lock_guard lock(mutex_);
    for (const LeasedBlock& block : leases_.take_all(consumer)) drop_lease(block, dropped);
  }

  void consumer_left(ConsumerId consumer, UniqueFd socket) override {
    std::lock_guard lock(mutex_);
    if (leases_.has(consumer)) leavers_.push_back({consumer, std::move(socket)});
  }

  Result<UniqueFd> slab_fd(uint32_t slab, uint64_t& bytes) const override {
    std::lock_guard lock(mutex_);
    auto at = slabs_.find(slab);
    if (at == slabs_.end()) return Status(StatusCode::kNotFound, "no slab " + std::to_string(slab));
    UniqueFd fd(fcntl(at->second->segment().fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return Status::from_errno("duplicating the fd of a slab");
    bytes = at->second->segment().bytes();
    return fd;
  }

  bool has_slab(uint32_t slab) const override {
    std::lock_guard lock(mutex_);
    return slabs_.count(slab) != 0;
  }
  uint64_t slabs_released() const override {
    std::lock_guard lock(mutex_);
    return released_;
  }

  bool contains(const std::byte* data) const override {
    std::lock_guard lock(mutex_);
    return slab_of(data) != nullptr;
  }

  void count_copy(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    copied_ += bytes;
  }

  PoolStats stats() const override {
    std::lock_guard lock(mutex_);
    PoolStats stats;
    stats.slabs = slabs_.size();
    stats.slab_bytes = slab_bytes_;
    for (const auto& [number, slab] : slabs_) stats.blocks += slab->blocks();
    stats.leases = leases_.count();
    stats.payload_bytes_copied = copied_;
    return stats;
  }

 private:
  struct Place {
    uint32_t slab = 0;
    uint64_t start = 0;  // offset in the slab
    std::byte* memory = nullptr;
  };
  struct Leaver {
    ConsumerId consumer;
    UniqueFd socket;
  };

  static bool contains_zero(const std::vector<int64_t>& shape) {
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
  }

  Slab* slab_of(const std::byte* data) const {
    auto at = by_address_.upper_bound(data);
    if (at == by_address_.begin()) return nullptr;
    Slab* slab = std::prev(at)->second;
    return data < slab->segment().base() + slab->segment().bytes() ? slab : nullptr;
  }

  static Place place(const Slab& slab, std::byte* memory) {
    return {slab.number(), static_cast<uint64_t>(memory - slab.segment().base()), memory};
  }

  Result<Place> find_room(uint64_t bytes) {
    for (auto& [number, slab] : slabs_)
      if (std::byte* memory = slab->allocate(bytes)) return place(*slab, memory);
    auto slab = grow(bytes);
    if (!slab.ok()) return slab.status();
    std::byte* memory = (*slab)->allocate(bytes);
    OMS_CHECK(memory != nullptr, "a new slab has no room for the block it was made for");
    return place(**slab, memory);
  }

  Result<Slab*> grow(uint64_t bytes) {
    const uint64_t left = max_bytes_ - std::min(max_bytes_, slab_bytes_);
    if (bytes + kSlabOverheadBytes > left)
      return Status(StatusCode::kNoMemory, "tensor pool: " + std::to_string(bytes) +
                                               " bytes needed, " + std::to_string(slab_bytes_) +
                                               " of at most " + std::to_string(max_bytes_) +
                                               " bytes are reserved and have no room for them");
    uint64_t payload = std::max<uint64_t>(
        bytes, std::min<uint64_t>(kFirstSlabBytes << std::min<size_t>(slabs_.size(), 8),
                                  limits::kSlabBytesMax));
    payload = std::min(payload, left - kSlabOverheadBytes) / kSegmentPage * kSegmentPage;
    payload = std::max(payload, bytes);
    auto slab = Slab::create(next_number_, payload);
    if (!slab.ok() && slab.status().code() == StatusCode::kNoMemory && payload > bytes)
      slab = Slab::create(next_number_, bytes);  // memory is tight: just what is needed
    if (!slab.ok()) return slab.status();
    Slab* raw = slab->get();
    slab_bytes_ += raw->segment().bytes();
    by_address_[raw->segment().base()] = raw;
    slabs_[next_number_++] = std::move(*slab);
    return raw;
  }

  void release_local(uint32_t number, uint64_t start) {
    std::vector<std::unique_ptr<Slab>> dropped;
    std::lock_guard lock(mutex_);
    auto at = slabs_.find(number);
    OMS_CHECK(at != slabs_.end(), "a block outlived its slab");
    uint64_t found = 0;
    Block* block = at->second->find(start, 0, found);
    OMS_CHECK(block != nullptr && found == start, "a block is not where it was");
    block->owned = false;
    at->second->free_if_unneeded(start);
    trim(dropped);
  }

  void drop_lease(const LeasedBlock& leased, std::vector<std::unique_ptr<Slab>>& dropped) {
    auto at = slabs_.find(leased.slab);
    OMS_CHECK(at != slabs_.end(), "a leased block outlived its slab");
    uint64_t found = 0;
    Block* block = at->second->find(leased.start, 0, found);
    OMS_CHECK(block != nullptr && found == leased.start && block->leases > 0,
              "a leased block is not where it was");
    --block->leases;
    at->second->free_if_unneeded(leased.start);
    trim(dropped);
  }

  void trim(std::vector<std::unique_ptr<Slab>>& dropped) {
    uint64_t empty = 0;
    for (auto at = slabs_.begin(); at != slabs_.end();) {
      const Slab& slab = *at->second;
      if (!slab.empty() || (empty += slab.segment().bytes()) <= kEmptyBytesKept) {
        ++at;
        continue;
      }
      empty -= slab.segment().bytes();
      slab_bytes_ -= slab.segment().bytes();
      by_address_.erase(slab.segment().base());
      dropped.push_back(std::move(at->second));
      at = slabs_.erase(at);
      ++released_;
    }
  }

  void look_for_leavers() {
    std::vector<std::unique_ptr<Slab>> dropped;
    for (size_t i = 0; i < leavers_.size();) {
      pollfd poll_fd{leavers_[i].socket.get(), POLLIN, 0};
      // The peer has nothing to say any more: whatever is readable is its end of file, or comes
      // before it.
      bool gone =
          poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
      if (!gone) {
        ++i;
        continue;
      }
      for (const LeasedBlock& block : leases_.take_all(leavers_[i].consumer))
        drop_lease(block, dropped);
      leavers_.erase(leavers_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  const uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Slab>> slabs_;  // by number: the oldest is filled first
  std::map<const std::byte*, Slab*> by_address_;
  std::vector<Leaver> leavers_;
  LeaseTable leases_;
  uint32_t next_number_ = 1;
  uint64_t slab_bytes_ = 0;
  uint64_t released_ = 0;
  uint64_t copied_ = 0;
};

}  // namespace

std::shared_ptr<TensorPool> TensorPool::create(uint64_t max_bytes) {
  return std::make_shared<PoolImpl>(max_bytes);
}

}  // namespace omnistage::shm
