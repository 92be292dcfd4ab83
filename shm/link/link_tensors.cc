// Tensors on a link: leases given to the peer, tensors borrowed from it, and the returns of both.
#include <cstring>

#include "shm/link/link_impl.h"

namespace omnistage::shm {
namespace {

constexpr int kMessagesPerFetch = 8192;  // everything an honest peer can have under way

}  // namespace

Result<std::shared_ptr<std::byte>> LinkImpl::open_tensor(const TensorRef& ref) {
  borrowed_->set_data_thread();
  if (!borrowed_->has_slab(ref.slab)) {
    // The announcement was sent before the record, so it is on the socket unless the peer lies.
    std::lock_guard lock(socket_mutex_);
    if (!eof_ && !refused_.load()) OMS_RETURN_IF_ERROR(drain_socket(kMessagesPerFetch));
  }
  return borrowed_->open(ref);
}

void LinkImpl::flush_returns() {
  sync_attach();
  while (borrowed_->has_returns()) {
    std::vector<LeaseReturn> batch = borrowed_->take_returns(kLeaseReturnsPerRecord);
    if (peer_dead() || closed_ || batch.empty()) continue;  // nobody to return them to
    std::byte record[sizeof(uint64_t) + kLeaseReturnsPerRecord * sizeof(LeaseReturn)];
    const uint64_t count = batch.size();
    std::memcpy(record, &count, sizeof count);
    std::memcpy(record + sizeof count, batch.data(), count * sizeof(LeaseReturn));
    const std::span<const std::byte> bytes(record, sizeof count + count * sizeof(LeaseReturn));
    if (translate(control_out_.writer.write(kLinkLeaseReturn, bytes, kKeepForClose),
                  control_out_) == SendResult::kOk) {
      wake_peer(kSleepData);
      continue;
    }
    borrowed_->put_back(batch);
    break;
  }
  withdraw_slabs();
  look_after_close();
}

void LinkImpl::attach_pool(std::shared_ptr<TensorPool> pool) {
  std::lock_guard lock(pool_mutex_);
  if (pool_ != nullptr) pool_->consumer_died(consumer_id_);
  pool_ = std::move(pool);
}

Result<TensorRef> LinkImpl::lease(const std::byte* data, size_t bytes) {
  if (closed_) return Status(StatusCode::kClosed, label_ + ": the link is closed");
  std::lock_guard lock(pool_mutex_);
  if (pool_ == nullptr) return invalid(label_ + ": no tensor pool is attached to the link");
  if (leases_returned_ || peer_dead()) return Status(StatusCode::kClosed, label_ + " is dead");
  OMS_ASSIGN_OR_RETURN(TensorRef ref, pool_->lease(consumer_id_, data, bytes));
  if (announced_.count(ref.slab) != 0) return ref;
  uint64_t slab_bytes = 0;
  auto fd = pool_->slab_fd(ref.slab, slab_bytes);
  Status sent = fd.status();
  if (fd.ok()) {
    LinkMessage message = make_message(MessageType::kSlab);
    message.slab = ref.slab;
    message.bytes = slab_bytes;
    sent = send_message(borrowed_->socket(), message, fd->get());
  }
  if (!sent.ok()) {
    pool_->return_lease(consumer_id_, ref.lease, ref.generation);
    return sent;
  }
  announced_.insert(ref.slab);
  return ref;
}

void LinkImpl::unlease(const TensorRef& ref) {
  std::lock_guard lock(pool_mutex_);
  if (pool_ != nullptr) pool_->return_lease(consumer_id_, ref.lease, ref.generation);
}

void LinkImpl::withdraw_slabs() {
  std::lock_guard lock(pool_mutex_);
  if (pool_ == nullptr || announced_.empty() || closed_ || peer_dead()) return;
  const uint64_t released = pool_->slabs_released();
  if (released == slabs_released_seen_) return;
  for (auto at = announced_.begin(); at != announced_.end();) {
    if (pool_->has_slab(*at)) {
      ++at;
      continue;
    }
    LinkMessage message = make_message(MessageType::kSlabGone);
    message.slab = *at;
    if (!send_message(borrowed_->socket(), message, -1).ok()) return;  // at the next call
    at = announced_.erase(at);
  }
  slabs_released_seen_ = released;
}

}  // namespace omnistage::shm
