#include <algorithm>
#include <cstring>

#include "shm/ring/ring.h"

namespace omnistage::shm {

RingWriter::RingWriter(std::byte* base, uint64_t capacity, std::atomic<uint64_t>* head,
                       uint64_t start, uint32_t epoch)
    : base_(base),
      capacity_(capacity),
      head_(head),
      start_(start),
      position_(start),
      cached_tail_(start),
      epoch_(epoch) {
  head_->store(start, std::memory_order_release);
}

uint64_t RingWriter::record_bytes_max() const {
  if (capacity_ == 0) return 0;
  // At half the ring, padding and record fit together whatever the position is.
  return std::min<uint64_t>(limits::kRecordBytesMax, capacity_ / 2 - sizeof(RecordHeader));
}

bool RingWriter::refresh_tail() {
  uint64_t tail = this->tail();
  // An honest tail only moves forward and never overtakes the head.
  if (tail - cached_tail_ > position_ - cached_tail_) {
    broken_ = true;
    return false;
  }
  cached_tail_ = tail;
  return true;
}

uint64_t RingWriter::padding_for(uint64_t stride) const {
  uint64_t rest = capacity_ - (position_ & (capacity_ - 1));
  return rest < stride ? rest : 0;
}

std::span<std::byte> RingWriter::reserve(uint64_t bytes, uint64_t keep_free, Outcome& outcome) {
  reserved_ = false;
  if (broken_) return outcome = Outcome::kBroken, std::span<std::byte>();
  if (bytes > record_bytes_max() || capacity_ == 0)
    return outcome = Outcome::kTooLarge, std::span<std::byte>();
  const uint64_t stride = record_stride(bytes);
  const uint64_t padding = padding_for(stride);
  const uint64_t need = padding + stride + keep_free;
  if (free_bytes() < need) {
    if (!refresh_tail()) return outcome = Outcome::kBroken, std::span<std::byte>();
    if (free_bytes() < need) return outcome = Outcome::kFull, std::span<std::byte>();
  }
  reserved_ = true;
  reserved_bytes_ = bytes;
  reserved_padding_ = padding;
  outcome = Outcome::kOk;
  return {base_ + ((position_ + padding) & (capacity_ - 1)) + sizeof(RecordHeader), bytes};
}

void RingWriter::put_header(uint64_t position, uint32_t bytes, uint16_t kind, uint16_t flags) {
  RecordHeader header{};
  header.bytes = bytes;
  header.kind = kind;
  header.flags = flags;
  header.epoch = epoch_;
  header.sequence = sequence_;
  header.position = position;
  std::memcpy(base_ + (position & (capacity_ - 1)), &header, sizeof header);
}

bool RingWriter::commit(uint16_t kind, uint64_t bytes) {
  if (!reserved_ || bytes > reserved_bytes_) return false;
  reserved_ = false;
  if (reserved_padding_ != 0)
    put_header(position_, static_cast<uint32_t>(reserved_padding_ - sizeof(RecordHeader)), 0,
               kRecordPadding);
  const uint64_t at = position_ + reserved_padding_;
  put_header(at, static_cast<uint32_t>(bytes), kind, 0);
  position_ = at + record_stride(bytes);
  ++sequence_;
  head_->store(position_, std::memory_order_release);
  return true;
}

RingWriter::Outcome RingWriter::write(uint16_t kind, std::span<const std::byte> payload,
                                      uint64_t keep_free) {
  Outcome outcome;
  std::span<std::byte> place = reserve(payload.size(), keep_free, outcome);
  if (outcome != Outcome::kOk) return outcome;
  if (!payload.empty()) std::memcpy(place.data(), payload.data(), payload.size());
  commit(kind, payload.size());
  return Outcome::kOk;
}

uint64_t RingWriter::room(uint64_t keep_free) {
  if (capacity_ == 0 || broken_ || !refresh_tail()) return 0;
  const uint64_t free = free_bytes();
  if (free <= keep_free) return 0;
  const uint64_t rest = capacity_ - (position_ & (capacity_ - 1));
  // Either in front of the ring's end or, behind padding, at its start.
  uint64_t in_place = std::min(free - keep_free, rest);
  uint64_t behind = free - keep_free > rest ? free - keep_free - rest : 0;
  uint64_t stride = std::max(in_place, behind) / kRecordAlign * kRecordAlign;
  if (stride < sizeof(RecordHeader)) return 0;
  return std::min(stride - sizeof(RecordHeader), record_bytes_max());
}

bool RingWriter::empty() {
  return capacity_ == 0 || (refresh_tail() && cached_tail_ == position_);
}

}  // namespace omnistage::shm
