#include <cstring>

#include "shm/ring/ring.h"

namespace omnistage::shm {

RingReader::RingReader(const std::byte* base, uint64_t capacity, const std::atomic<uint64_t>* head,
                       std::atomic<uint64_t>* tail, uint64_t start, uint32_t epoch)
    : base_(base),
      capacity_(capacity),
      head_(head),
      tail_(tail),
      position_(start),
      cached_head_(start),
      epoch_(epoch) {
  tail_->store(start, std::memory_order_release);
}

RingReader::Outcome RingReader::fail(const char* error) {
  error_ = error;
  return Outcome::kBroken;
}

bool RingReader::unread() const {
  if (capacity_ == 0 || error_ != nullptr) return false;
  return cached_head_ != position_ || head_->load(std::memory_order_acquire) != position_;
}

const char* RingReader::check(const RecordHeader& header, uint64_t available) const {
  const uint64_t rest = capacity_ - (position_ & (capacity_ - 1));
  if (header.position != position_) return "record header has another position";
  if (header.sequence != sequence_) return "record numbers have a gap";
  if (header.epoch != epoch_) return "record of another epoch";
  if (header.reserved != 0 || (header.flags & ~kRecordPadding) != 0)
    return "record header has unknown flags";
  if (header.flags == kRecordPadding) {
    if (header.kind != 0 || header.bytes != rest - sizeof(RecordHeader))
      return "padding does not end the ring";
    return rest < available ? nullptr : "padding without a record behind it";
  }
  if (header.bytes > limits::kRecordBytesMax) return "record longer than the limit";
  const uint64_t stride = record_stride(header.bytes);
  if (stride > rest) return "record crosses the end of the ring";
  if (stride > available) return "record longer than what was published";
  return nullptr;
}

RingReader::Outcome RingReader::read(RecordHeader& header, std::vector<std::byte>& bytes) {
  if (error_ != nullptr) return Outcome::kBroken;
  if (capacity_ == 0) return Outcome::kEmpty;
  if (cached_head_ == position_) {
    const uint64_t head = head_->load(std::memory_order_acquire);
    if (head - position_ > capacity_) return fail("head is more than the ring away from the tail");
    if (head % kRecordAlign != 0) return fail("head is not aligned");
    if (head == position_) return Outcome::kEmpty;
    cached_head_ = head;
  }
  header = copy_shared<RecordHeader>(base_ + (position_ & (capacity_ - 1)));
  if (const char* error = check(header, cached_head_ - position_)) return fail(error);
  if (header.flags == kRecordPadding) {
    // Padding ends the ring, so what follows starts at its beginning and cannot be padding again:
    // that one would have to be as long as the ring and would fail the check against what was
    // published.
    position_ += sizeof(RecordHeader) + header.bytes;
    header = copy_shared<RecordHeader>(base_ + (position_ & (capacity_ - 1)));
    if (header.flags == kRecordPadding) return fail("padding behind padding");
    if (const char* error = check(header, cached_head_ - position_)) return fail(error);
  }
  const std::byte* payload = base_ + (position_ & (capacity_ - 1)) + sizeof(RecordHeader);
  bytes.assign(payload, payload + header.bytes);
  position_ += record_stride(header.bytes);
  ++sequence_;
  tail_->store(position_, std::memory_order_release);
  return Outcome::kRecord;
}

}  // namespace omnistage::shm
