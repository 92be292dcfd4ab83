#include "shm/link/link_impl.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>

#include "shm/base/log.h"

namespace omnistage::shm {
namespace {

constexpr int kInternalRecordsPerPoll = 256;

std::atomic<ConsumerId> next_consumer_id{1};

std::string label_of(const LinkIdentity& peer) {
  std::string role = peer.role == LinkIdentity::Role::kClient ? "client " : "stage ";
  std::string label = role + std::to_string(peer.index);
  return peer.name.empty() ? label : label + " '" + peer.name + "'";
}

}  // namespace

LinkImpl::LinkImpl(OwnedSegment segment, const SegmentHeader& header, UniqueFd socket,
                   LinkIdentity self, LinkIdentity expected_peer)
    : segment_(std::move(segment)),
      self_(std::move(self)),
      expected_(std::move(expected_peer)),
      label_(label_of(expected_)),
      borrowed_(std::make_shared<Borrowed>(std::move(socket))),
      consumer_id_(next_consumer_id.fetch_add(1)) {
  std::byte* base = segment_.base();
  if (header.data_bytes != 0)
    data_out_.writer = RingWriter(base + header.data_offset, header.data_bytes, &words().data_head,
                                  0, self_.epoch);
  control_out_.writer = RingWriter(base + header.control_offset, header.control_bytes,
                                   &words().control_head, 0, self_.epoch);
}

LinkImpl::~LinkImpl() {
  close();
  std::lock_guard lock(pool_mutex_);
  if (pool_ == nullptr || leases_returned_) return;
  // The peer may still read what it has leased; its end of the socket tells when it does not.
  UniqueFd socket(fcntl(borrowed_->socket(), F_DUPFD_CLOEXEC, 0));
  if (socket.valid())
    pool_->consumer_left(consumer_id_, std::move(socket));
  else
    OMS_LOG(kError, "shm",
            "no file descriptor left: tensors leased to " + label_ + " stay reserved");
}

Status LinkImpl::send_hello() {
  LinkMessage hello = make_message(MessageType::kHello);
  hello.role = static_cast<uint32_t>(self_.role);
  hello.index = self_.index;
  hello.epoch = self_.epoch;
  hello.name_bytes = static_cast<uint32_t>(self_.name.size());
  std::memcpy(hello.name, self_.name.data(), self_.name.size());
  hello.bytes = segment_.bytes();
  Status sent = send_message(borrowed_->socket(), hello, segment_.fd());
  segment_.close_fd();
  // A peer that is dead already is an event like any later death, seen by on_socket().
  return sent.code() == StatusCode::kClosed ? Status() : sent;
}

// --- life and death
// -----------------------------------------------------------------------------------------

void LinkImpl::mark_dead() {
  dead_.store(true, std::memory_order_release);
  borrowed_->ring();
}

void LinkImpl::return_all_leases() {
  std::lock_guard lock(pool_mutex_);
  leases_returned_ = true;
  if (pool_ != nullptr) pool_->consumer_died(consumer_id_);
}

void LinkImpl::end_of_file() {
  eof_ = true;
  return_all_leases();
  mark_dead();
}

Status LinkImpl::protocol_error(const Status& status) {
  Status named(status.code(), label_ + ": " + status.message());
  if (refused_.exchange(true)) return named;
  OMS_LOG(kError, "shm", "cutting off " + named.message());
  shutdown(borrowed_->socket(), SHUT_RDWR);
  return_all_leases();
  mark_dead();
  return named;
}

bool LinkImpl::sync_attach() {
  if (synced_) return true;
  if (!attached_.load(std::memory_order_acquire)) return false;
  const SegmentHeader& header = peer_->header();
  const std::byte* base = peer_->base();
  data_out_.writer.attach(&peer_words().data_tail);
  control_out_.writer.attach(&peer_words().control_tail);
  if (header.data_bytes != 0)
    data_in_.reader = RingReader(base + header.data_offset, header.data_bytes,
                                 &peer_words().data_head, &words().data_tail, 0, header.epoch);
  control_in_.reader =
      RingReader(base + header.control_offset, header.control_bytes, &peer_words().control_head,
                 &words().control_tail, 0, header.epoch);
  synced_ = true;
  // The peer may have attached first and sleep already, which could not be seen until now.
  wake_peer(kSleepData | kSleepRoom);
  return true;
}

void LinkImpl::close() {
  if (closed_) return;
  closed_ = true;
  data_out_.writer.abort();
  look_after_close();
  borrowed_->finish();
}

void LinkImpl::look_after_close() {
  if (!closed_ || close_sent_) return;
  sync_attach();
  if (control_out_.writer.write(kLinkClose, {}) == RingWriter::Outcome::kFull) return;
  close_sent_ = true;
  wake_peer(kSleepData);
}

// --- sending
// --------------------------------------------------------------------------------------------------

SendResult LinkImpl::sendable(RecordKind kind) const {
  if (closed_) return SendResult::kClosed;
  if (peer_dead()) return SendResult::kPeerDead;
  if (kind >= kFirstUserKind) return SendResult::kOk;
  OMS_LOG(kError, "shm", "record kind " + std::to_string(kind) + " belongs to the link itself");
  return SendResult::kTooLarge;
}

SendResult LinkImpl::translate(RingWriter::Outcome outcome, Out& out) {
  switch (outcome) {
    case RingWriter::Outcome::kOk:
      return SendResult::kOk;
    case RingWriter::Outcome::kTooLarge:
      return SendResult::kTooLarge;
    case RingWriter::Outcome::kFull:
      out.wants_room = true;
      out.tail_at_full = out.writer.seen_tail();
      return SendResult::kFull;
    case RingWriter::Outcome::kBroken:
      break;
  }
  (void)protocol_error(
      Status(StatusCode::kProtocol, "its tail position moved backwards or past the head"));
  return SendResult::kPeerDead;
}

void LinkImpl::wake_peer(uint32_t reason) {
  if (!synced_) return;
  full_fence();
  const uint32_t sleep = peer_words().sleep.load(std::memory_order_relaxed);
  // One wake-up per sleep is enough: the signal word differs from what this sleep expects from then
  // on.
  if ((sleep & reason) == 0 || sleep == sleep_answered_) return;
  sleep_answered_ = sleep;
  words().signal.store(words().signal.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
  futex_wake_all(&words().signal, false);
}

SendResult LinkImpl::try_send(RecordKind kind, std::span<const std::byte> record) {
  sync_attach();
  if (SendResult result = sendable(kind); result != SendResult::kOk) return result;
  SendResult result = translate(data_out_.writer.write(kind, record), data_out_);
  if (result == SendResult::kOk) wake_peer(kSleepData);
  return result;
}

SendResult LinkImpl::try_send_control(RecordKind kind, std::span<const std::byte> record) {
  sync_attach();
  if (SendResult result = sendable(kind); result != SendResult::kOk) return result;
  RingWriter& writer = control_out_.writer;
  // Padding and record together are below twice the stride and must leave the reserved room.
  if (record.size() > limits::kRecordBytesMax ||
      2 * record_stride(record.size()) > writer.capacity() - kKeepForLink)
    return SendResult::kTooLarge;
  SendResult result = translate(writer.write(kind, record, kKeepForLink), control_out_);
  if (result == SendResult::kOk) wake_peer(kSleepData);
  return result;
}

std::span<std::byte> LinkImpl::try_reserve(size_t size, SendResult& result) {
  sync_attach();
  result = sendable(kFirstUserKind);
  if (result != SendResult::kOk) return {};
  RingWriter::Outcome outcome;
  std::span<std::byte> place = data_out_.writer.reserve(size, 0, outcome);
  result = translate(outcome, data_out_);
  return place;
}

void LinkImpl::commit(RecordKind kind, size_t size) {
  if (kind < kFirstUserKind || !data_out_.writer.commit(kind, size)) {
    OMS_LOG(kError, "shm",
            "commit of " + std::to_string(size) + " bytes without a fitting reservation");
    data_out_.writer.abort();
    return;
  }
  wake_peer(kSleepData);
}

size_t LinkImpl::data_room() const {
  const_cast<LinkImpl*>(this)->sync_attach();  // a cache of what the control thread has found out
  return data_out_.writer.room(0);
}

// --- receiving
// ------------------------------------------------------------------------------------------------

bool LinkImpl::poll(Record& out) {
  if (!sync_attach()) return false;
  borrowed_->set_data_thread();
  if (read_ring(control_in_, true, out)) return true;
  if (read_ring(data_in_, false, out)) return true;
  if (close_read_ && !peer_closed() && !control_in_.reader.unread() && !data_in_.reader.unread()) {
    peer_closed_.store(true, std::memory_order_release);
    mark_dead();
  }
  return false;
}

bool LinkImpl::read_ring(In& in, bool control, Record& out) {
  for (int i = 0; i < kInternalRecordsPerPoll && !refused_.load(std::memory_order_relaxed); ++i) {
    RecordHeader header;
    switch (in.reader.read(header, out.bytes)) {
      case RingReader::Outcome::kEmpty:
        tell_freed(in, true);
        return false;
      case RingReader::Outcome::kBroken:
        (void)protocol_error(Status(StatusCode::kProtocol, in.reader.error()));
        return false;
      case RingReader::Outcome::kRecord:
        break;
    }
    tell_freed(in, false);
    if (header.kind >= kFirstUserKind) {
      out.kind = header.kind;
      out.control = control;
      out.sequence = in.user_records++;
      return true;
    }
    if (control && handle_internal(header, out.bytes)) continue;
    (void)protocol_error(
        Status(StatusCode::kProtocol, "link record of kind " + std::to_string(header.kind) +
                                          " with " + std::to_string(header.bytes) + " bytes"));
  }
  return false;
}

bool LinkImpl::handle_internal(const RecordHeader& header, std::span<const std::byte> bytes) {
  if (header.kind == kLinkClose) {
    close_read_ = bytes.empty();
    return close_read_;
  }
  uint64_t count = 0;
  if (header.kind != kLinkLeaseReturn || bytes.size() < sizeof count) return false;
  std::memcpy(&count, bytes.data(), sizeof count);
  if (count == 0 || count > kLeaseReturnsPerRecord ||
      bytes.size() != sizeof count + count * sizeof(LeaseReturn))
    return false;
  std::lock_guard lock(pool_mutex_);
  if (pool_ == nullptr) return false;
  leases_came_back_ = true;
  for (uint64_t i = 0; i < count; ++i) {
    LeaseReturn lease;
    std::memcpy(&lease, bytes.data() + sizeof count + i * sizeof lease, sizeof lease);
    pool_->return_lease(consumer_id_, lease.lease, lease.generation);
  }
  return true;
}

void LinkImpl::tell_freed(In& in, bool drained) {
  const uint64_t freed = in.reader.freed();
  // A sender that waits for room is woken by a quarter of the ring or by all of it, not by every
  // record.
  const bool much = freed - in.told_freed >= in.reader.capacity() / 4;
  if (freed == in.told_freed || !(much || drained)) return;
  in.told_freed = freed;
  wake_peer(kSleepRoom);
}

// --- waiting
// --------------------------------------------------------------------------------------------------

bool LinkImpl::has_room_again(Out& out) {
  if (!out.wants_room || out.writer.tail() == out.tail_at_full) return false;
  out.wants_room = false;
  return true;
}

bool LinkImpl::ready() {
  bool any = sync_attach() && !refused_.load(std::memory_order_relaxed) &&
             (data_in_.reader.unread() || control_in_.reader.unread());
  any |= has_room_again(data_out_);
  any |= has_room_again(control_out_);
  if (leases_came_back_) any = true, leases_came_back_ = false;
  if (peer_dead() && !death_reported_) any = death_reported_ = true;
  return any;
}

const std::atomic<uint32_t>* LinkImpl::arm(uint32_t& expected) {
  if (!synced_ || peer_dead()) return nullptr;
  const uint32_t room = data_out_.wants_room || control_out_.wants_room ? kSleepRoom : 0;
  // Before the flag: a wake-up that answers this very sleep must change the word after this look.
  expected = peer_words().signal.load(std::memory_order_acquire);
  words().sleep.store(++sleep_count_ << 2 | kSleepData | room, std::memory_order_seq_cst);
  return &peer_words().signal;
}

void LinkImpl::disarm() {
  words().sleep.store(sleep_count_ << 2, std::memory_order_release);
}

const char* to_string(SendResult result) {
  switch (result) {
    case SendResult::kOk:
      return "OK";
    case SendResult::kFull:
      return "FULL";
    case SendResult::kPeerDead:
      return "PEER_DEAD";
    case SendResult::kClosed:
      return "CLOSED";
    case SendResult::kTooLarge:
      return "TOO_LARGE";
  }
  return "UNKNOWN";
}

}  // namespace omnistage::shm
