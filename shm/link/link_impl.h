// LinkImpl: the one implementation of Link. It joins an owned segment, the peer's segment once the
// hello is here, two ring writers, two ring readers, the borrowed tensors and the attached pool.
//
// Threads as in Link. The control thread fills `peer_` and then stores attached_; the data thread
// takes the peer's rings into use when it sees that, so the rings themselves need no lock. Messages
// on the socket are read under socket_mutex_, because open_tensor() may have to fetch a slab that
// the control thread has not read yet.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "shm/link/borrowed.h"
#include "shm/link/link.h"
#include "shm/link/messages.h"
#include "shm/ring/ring.h"
#include "shm/segment/segment.h"
#include "shm/wait/wait_point.h"

namespace omnistage::shm {

// The sender's last record: it has closed its end in order and sends nothing behind it.
constexpr RecordKind kLinkClose = 2;

constexpr size_t kLeaseReturnsPerRecord = 64;
// Of the control ring: what user records leave free, so that lease returns and the close get
// through an otherwise full ring, and what lease returns leave for the close.
constexpr uint64_t kKeepForLink = 2048;
constexpr uint64_t kKeepForClose = record_stride(0);
static_assert(2 * record_stride(8 + kLeaseReturnsPerRecord * sizeof(LeaseReturn)) + kKeepForClose <=
              kKeepForLink);

class LinkImpl final : public Link, public WaitPoint {
 public:
  LinkImpl(OwnedSegment segment, const SegmentHeader& header, UniqueFd socket, LinkIdentity self,
           LinkIdentity expected_peer);
  ~LinkImpl() override;
  Status send_hello();

  int socket_fd() const override { return borrowed_->socket(); }
  Status on_socket() override;
  bool connected() const override { return attached_.load(std::memory_order_acquire); }
  bool peer_dead() const override { return dead_.load(std::memory_order_acquire); }
  bool peer_closed() const override { return peer_closed_.load(std::memory_order_acquire); }
  const LinkIdentity& peer() const override { return connected() ? identified_ : expected_; }

  SendResult try_send(RecordKind kind, std::span<const std::byte> record) override;
  SendResult try_send_control(RecordKind kind, std::span<const std::byte> record) override;
  std::span<std::byte> try_reserve(size_t size, SendResult& result) override;
  void commit(RecordKind kind, size_t size) override;
  void abort_reservation() override { data_out_.writer.abort(); }
  size_t data_room() const override;
  bool poll(Record& out) override;
  Result<std::shared_ptr<std::byte>> open_tensor(const TensorRef& ref) override;
  void flush_returns() override;
  void attach_pool(std::shared_ptr<TensorPool> pool) override;
  Result<TensorRef> lease(const std::byte* data, size_t bytes) override;
  void unlease(const TensorRef& ref) override;
  void close() override;

  void set_doorbell(std::shared_ptr<Doorbell> doorbell) override {
    borrowed_->set_doorbell(std::move(doorbell));
  }
  bool ready() override;
  const std::atomic<uint32_t>* arm(uint32_t& expected) override;
  void disarm() override;
  void before_sleep() override { flush_returns(); }

 private:
  struct Out {
    RingWriter writer;
    bool wants_room = false;    // a send was refused since the peer last freed space
    uint64_t tail_at_full = 0;  // the peer's position then
  };
  struct In {
    RingReader reader;
    uint64_t told_freed = 0;  // position at which a sender waiting for room was last thought of
    uint64_t user_records = 0;
  };

  LinkWords& words() const { return *reinterpret_cast<LinkWords*>(segment_.base() + kWordsOffset); }
  const LinkWords& peer_words() const {
    return *reinterpret_cast<const LinkWords*>(peer_->base() + kWordsOffset);
  }

  // Control side, with socket_mutex_ held.
  Status drain_socket(int messages_max);
  Status handle(Received received);
  Status handle_hello(const LinkMessage& hello, UniqueFd fd);
  void mark_dead();
  void end_of_file();
  Status protocol_error(const Status& status);

  // Data side.
  bool sync_attach();  // takes the peer's rings into use; true when they are
  SendResult sendable(RecordKind kind) const;
  SendResult translate(RingWriter::Outcome outcome, Out& out);
  void wake_peer(uint32_t reason);
  void tell_freed(In& in, bool drained);
  bool read_ring(In& in, bool control, Record& out);
  bool handle_internal(const RecordHeader& header, std::span<const std::byte> bytes);
  bool has_room_again(Out& out);
  void withdraw_slabs();
  void look_after_close();
  void return_all_leases();

  OwnedSegment segment_;
  const LinkIdentity self_;
  const LinkIdentity expected_;
  LinkIdentity identified_;  // set once, before attached_
  const std::string label_;  // "stage 1 'talker'" for messages
  std::shared_ptr<Borrowed> borrowed_;

  std::mutex socket_mutex_;
  std::unique_ptr<PeerSegment> peer_;  // set once, before attached_
  bool eof_ = false;                   // with socket_mutex_
  std::atomic<bool> attached_{false};
  std::atomic<bool> dead_{false};
  std::atomic<bool> refused_{false};  // the peer broke the protocol: nothing is read any more

  bool synced_ = false;  // data thread from here on
  mutable Out data_out_;
  Out control_out_;
  In data_in_, control_in_;
  uint32_t sleep_count_ = 0;
  uint32_t sleep_answered_ = 0;  // the peer's sleep word that was already woken for
  bool death_reported_ = false;
  bool leases_came_back_ = false;  // since the wait set asked last
  bool closed_ = false;
  bool close_sent_ = false;
  bool close_read_ = false;
  std::atomic<bool> peer_closed_{false};

  const ConsumerId consumer_id_;
  std::mutex pool_mutex_;  // the pool is set by the data thread and used by both
  std::shared_ptr<TensorPool> pool_;
  bool leases_returned_ = false;  // with pool_mutex_
  std::unordered_set<uint32_t> announced_;
  uint64_t slabs_released_seen_ = 0;
};

}  // namespace omnistage::shm
