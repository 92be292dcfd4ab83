// The bytes two processes share, exactly as they lie in memory; FORMAT.md describes the same in
// words. Everything is in the byte order of the machine (little endian is required and checked). A
// segment is written by the one process that made it. A reader copies what it needs, checks the
// copy and uses only the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shm/base/limits.h"

namespace omnistage::shm {

constexpr uint64_t kSegmentMagic = 0x31304D4853534D4FULL;  // "OMSSHM01" as bytes
constexpr uint16_t kLayoutMajor = 1;                       // another major is refused
constexpr uint16_t kLayoutMinor = 0;                       // minor N reads N-1 and N+1
constexpr uint32_t kByteOrderMark = 0x01020304;
constexpr uint64_t kFeaturesKnown =
    0;  // a required feature that the reader does not know is refused

constexpr uint64_t kSegmentPage =
    4096;                             // the header's page; rings and slab payload start behind it
constexpr uint64_t kLineBytes = 128;  // two cache lines: the adjacent-line prefetcher couples pairs
constexpr uint64_t kRecordAlign = 32;  // a header always fits before the ring's end
constexpr uint32_t kDataRingMin = 64u << 10, kDataRingMax = 64u << 20;
constexpr uint32_t kControlRingMin = 16u << 10, kControlRingMax = 16u << 20;
constexpr uint64_t kSlabOverheadBytes = 64u
                                        << 10;  // header page and the allocator's own structures
constexpr uint64_t kSlabSegmentBytesMax = limits::kSlabBytesMax + kSlabOverheadBytes;

enum class SegmentKind : uint32_t { kLink = 1, kSlab = 2 };

// At offset 0 of every segment; constant once the segment is sealed.
struct SegmentHeader {
  uint64_t magic;
  uint16_t layout_major;
  uint16_t layout_minor;
  uint32_t byte_order;
  uint64_t features;     // required to understand this segment
  uint64_t total_bytes;  // equals the size of the file
  uint32_t kind;         // SegmentKind
  uint32_t pid;          // of the writer, in its own pid namespace; for people, never acted upon
  uint64_t start_time;   // of the writer: field 22 of /proc/<pid>/stat
  uint32_t role;         // LinkIdentity of the writer; 0 in slabs
  uint32_t index;
  uint32_t epoch;
  uint32_t slab;         // slab number; 0 in link segments
  uint64_t data_offset;  // link: the data ring; slab: the allocator's area
  uint64_t data_bytes;
  uint64_t control_offset;  // link: the control ring; slab: 0
  uint64_t control_bytes;
  uint8_t reserved[160];  // zero
};

// At kWordsOffset of a link segment; changed by the writer while it lives. Head words count what I
// wrote into my rings, tail words what I read from the peer's rings.
struct LinkWords {
  alignas(kLineBytes) std::atomic<uint64_t> data_head;
  alignas(kLineBytes) std::atomic<uint64_t> control_head;
  alignas(kLineBytes) std::atomic<uint64_t> data_tail;
  alignas(kLineBytes) std::atomic<uint64_t> control_tail;
  alignas(kLineBytes) std::atomic<uint32_t> sleep;  // count << 2 | kSleepRoom | kSleepData
  alignas(kLineBytes)
      std::atomic<uint32_t> signal;  // futex word the peer sleeps on; counts my wake-ups of it
};
constexpr uint64_t kWordsOffset = 1024;
constexpr uint32_t kSleepData = 1;  // wake me when you commit a record
constexpr uint32_t kSleepRoom = 2;  // wake me when you free ring space

// In front of every record in a ring, at positions that are multiples of kRecordAlign.
struct RecordHeader {
  uint32_t bytes;     // payload; the record takes record_stride(bytes)
  uint16_t kind;      // RecordKind; 0 in padding
  uint16_t flags;     // kRecordPadding
  uint32_t epoch;     // of the writer
  uint32_t reserved;  // zero
  uint64_t sequence;  // per ring, from 0; padding repeats the number of the record behind it
  uint64_t position;  // free-running position of this header
};
constexpr uint16_t kRecordPadding = 1;  // skip to the ring's start

constexpr uint64_t record_stride(uint64_t bytes) {
  return sizeof(RecordHeader) + (bytes + kRecordAlign - 1) / kRecordAlign * kRecordAlign;
}

static_assert(sizeof(SegmentHeader) == 256 && std::is_trivially_copyable_v<SegmentHeader>);
static_assert(offsetof(SegmentHeader, layout_major) == 8 &&
              offsetof(SegmentHeader, byte_order) == 12);
static_assert(offsetof(SegmentHeader, features) == 16 &&
              offsetof(SegmentHeader, total_bytes) == 24);
static_assert(offsetof(SegmentHeader, kind) == 32 && offsetof(SegmentHeader, pid) == 36);
static_assert(offsetof(SegmentHeader, start_time) == 40 && offsetof(SegmentHeader, role) == 48);
static_assert(offsetof(SegmentHeader, index) == 52 && offsetof(SegmentHeader, epoch) == 56);
static_assert(offsetof(SegmentHeader, slab) == 60 && offsetof(SegmentHeader, data_offset) == 64);
static_assert(offsetof(SegmentHeader, data_bytes) == 72 &&
              offsetof(SegmentHeader, control_offset) == 80);
static_assert(offsetof(SegmentHeader, control_bytes) == 88 &&
              offsetof(SegmentHeader, reserved) == 96);
static_assert(sizeof(LinkWords) == 6 * kLineBytes && std::is_standard_layout_v<LinkWords>);
static_assert(offsetof(LinkWords, data_head) == 0 && offsetof(LinkWords, control_head) == 128);
static_assert(offsetof(LinkWords, data_tail) == 256 && offsetof(LinkWords, control_tail) == 384);
static_assert(offsetof(LinkWords, sleep) == 512 && offsetof(LinkWords, signal) == 640);
static_assert(kWordsOffset >= sizeof(SegmentHeader) &&
              kWordsOffset + sizeof(LinkWords) <= kSegmentPage);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint64_t>) == 8 && sizeof(std::atomic<uint32_t>) == 4);
static_assert(sizeof(RecordHeader) == 32 && sizeof(RecordHeader) == kRecordAlign);
static_assert(offsetof(RecordHeader, kind) == 4 && offsetof(RecordHeader, flags) == 6);
static_assert(offsetof(RecordHeader, epoch) == 8 && offsetof(RecordHeader, reserved) == 12);
static_assert(offsetof(RecordHeader, sequence) == 16 && offsetof(RecordHeader, position) == 24);

// Copies a struct out of memory that another process may be changing. The barrier forbids the
// compiler to read the source a second time, so a check and the use behind it see the same value.
template <typename T>
T copy_shared(const std::byte* source) {
  static_assert(std::is_trivially_copyable_v<T>);
  T copy;
  std::memcpy(&copy, source, sizeof copy);
  asm volatile("" : "+m"(copy) : : "memory");
  return copy;
}

}  // namespace omnistage::shm
