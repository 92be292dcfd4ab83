// Borrowed: the part of a link that lives as long as the last tensor it opened: the peer's slabs as
// mapped here, the lease returns that wait to be sent, and the socket, whose end of file tells the
// owner that nothing is read any more. Shared by the link and the deleters of opened tensors.
//
// Threads: all functions by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "shm/base/fd.h"
#include "shm/base/status.h"
#include "shm/pool/tensor_pool.h"
#include "shm/segment/segment.h"
#include "shm/wait/doorbell.h"

namespace omnistage::shm {

// One returned lease as it stands in a kLinkLeaseReturn record.
struct LeaseReturn {
  uint32_t lease;
  uint32_t generation;
};
static_assert(sizeof(LeaseReturn) == 8);

class Borrowed : public std::enable_shared_from_this<Borrowed> {
 public:
  // Slabs one peer may have mapped here at a time.
  static constexpr size_t kPeerSlabsMax = 1024;

  explicit Borrowed(UniqueFd socket) : socket_(std::move(socket)) {}
  int socket() const { return socket_.get(); }

  Status add_slab(uint32_t slab, uint64_t bytes, UniqueFd fd);
  Status remove_slab(uint32_t slab);  // views of it keep the mapping
  bool has_slab(uint32_t slab) const;

  // A view of the block; its deleter queues the return. kProtocol when the reference does not fit.
  Result<std::shared_ptr<std::byte>> open(const TensorRef& ref);

  // Up to `max` queued returns, oldest first; put_back() if they could not be sent.
  std::vector<LeaseReturn> take_returns(size_t max);
  void put_back(const std::vector<LeaseReturn>& returns);
  bool has_returns() const { return pending_.load(std::memory_order_acquire) != 0; }

  void set_doorbell(std::shared_ptr<Doorbell> doorbell);
  void ring() const;
  void set_data_thread() {
    data_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }

  // No more tensors are opened. The socket is shut down for writing as soon as no view is left.
  void finish();

 private:
  void release(LeaseReturn lease);
  void shut_down_if_unused();  // with mutex_ held

  const UniqueFd socket_;
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, std::shared_ptr<PeerSegment>> slabs_;
  std::vector<LeaseReturn> returns_;
  std::shared_ptr<Doorbell> doorbell_;
  std::atomic<size_t> pending_{0};
  std::atomic<std::thread::id> data_thread_{};
  uint64_t views_ = 0;
  bool finished_ = false;
};

}  // namespace omnistage::shm
