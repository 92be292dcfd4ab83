#include "shm/link/borrowed.h"

#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <string>

namespace omnistage::shm {
namespace {

Status refuse(const std::string& why) {
  return Status(StatusCode::kProtocol, "link: " + why);
}

}  // namespace

Status Borrowed::add_slab(uint32_t slab, uint64_t bytes, UniqueFd fd) {
  auto attached = PeerSegment::attach(std::move(fd), SegmentKind::kSlab, kSlabSegmentBytesMax);
  if (!attached.ok()) return attached.status();
  if (attached->header().slab != slab || attached->bytes() != bytes)
    return refuse("slab " + std::to_string(slab) + " is not what was announced");
  auto segment = std::make_shared<PeerSegment>(std::move(*attached));
  std::lock_guard lock(mutex_);
  if (slabs_.size() >= kPeerSlabsMax)
    return refuse("more than " + std::to_string(kPeerSlabsMax) + " slabs");
  if (!slabs_.emplace(slab, std::move(segment)).second)
    return refuse("slab " + std::to_string(slab) + " came twice");
  return Status();
}

Status Borrowed::remove_slab(uint32_t slab) {
  std::shared_ptr<PeerSegment> last;  // unmapped without the lock
  std::lock_guard lock(mutex_);
  auto at = slabs_.find(slab);
  if (at == slabs_.end()) return refuse("withdrawal of an unknown slab " + std::to_string(slab));
  last = std::move(at->second);
  slabs_.erase(at);
  return Status();
}

bool Borrowed::has_slab(uint32_t slab) const {
  std::lock_guard lock(mutex_);
  return slabs_.count(slab) != 0;
}

Result<std::shared_ptr<std::byte>> Borrowed::open(const TensorRef& ref) {
  std::shared_ptr<PeerSegment> slab;
  {
    std::lock_guard lock(mutex_);
    if (finished_) return Status(StatusCode::kClosed, "link: closed");
    auto at = slabs_.find(ref.slab);
    if (at == slabs_.end()) return refuse("tensor in an unknown slab " + std::to_string(ref.slab));
    slab = at->second;
    const SegmentHeader& header = slab->header();
    const bool fits = ref.reserved == 0 && ref.bytes > 0 && ref.offset >= header.data_offset &&
                      ref.offset <= slab->bytes() && ref.bytes <= slab->bytes() - ref.offset;
    if (!fits)
      return refuse("tensor of " + std::to_string(ref.bytes) + " bytes at " +
                    std::to_string(ref.offset) + " does not fit slab " + std::to_string(ref.slab));
    ++views_;
  }
  // Read-only memory: writing through the pointer faults.
  auto* bytes = const_cast<std::byte*>(slab->base() + ref.offset);
  const LeaseReturn lease{ref.lease, ref.generation};
  try {
    return std::shared_ptr<std::byte>(bytes,
                                      [self = shared_from_this(), slab, lease](std::byte*) mutable {
                                        slab.reset();
                                        self->release(lease);
                                      });
  } catch (const std::bad_alloc&) {  // the deleter has run
    return Status(StatusCode::kNoMemory, "out of memory for a tensor handle");
  }
}

void Borrowed::release(LeaseReturn lease) {
  std::shared_ptr<Doorbell> doorbell;
  {
    std::lock_guard lock(mutex_);
    --views_;
    shut_down_if_unused();
    if (finished_) return;  // the end of file returns every lease
    returns_.push_back(lease);
    const size_t before = pending_.fetch_add(1, std::memory_order_release);
    // The data thread sends returns before it sleeps; from another thread it has to be woken for
    // the first.
    if (before == 0 && data_thread_.load(std::memory_order_relaxed) != std::this_thread::get_id())
      doorbell = doorbell_;
  }
  if (doorbell != nullptr) doorbell->ring();
}

std::vector<LeaseReturn> Borrowed::take_returns(size_t max) {
  std::lock_guard lock(mutex_);
  const size_t n = std::min(max, returns_.size());
  std::vector<LeaseReturn> taken(returns_.begin(), returns_.begin() + static_cast<ptrdiff_t>(n));
  returns_.erase(returns_.begin(), returns_.begin() + static_cast<ptrdiff_t>(n));
  pending_.store(returns_.size(), std::memory_order_release);
  return taken;
}

void Borrowed::put_back(const std::vector<LeaseReturn>& returns) {
  std::lock_guard lock(mutex_);
  returns_.insert(returns_.begin(), returns.begin(), returns.end());
  pending_.store(returns_.size(), std::memory_order_release);
}

void Borrowed::set_doorbell(std::shared_ptr<Doorbell> doorbell) {
  std::lock_guard lock(mutex_);
  doorbell_ = std::move(doorbell);
}

void Borrowed::ring() const {
  std::shared_ptr<Doorbell> doorbell;
  {
    std::lock_guard lock(mutex_);
    doorbell = doorbell_;
  }
  if (doorbell != nullptr) doorbell->ring();
}

void Borrowed::finish() {
  std::lock_guard lock(mutex_);
  finished_ = true;
  shut_down_if_unused();
}

void Borrowed::shut_down_if_unused() {
  if (finished_ && views_ == 0) shutdown(socket_.get(), SHUT_WR);
}

}  // namespace omnistage::shm
