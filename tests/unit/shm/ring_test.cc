// The ring on plain memory: order, wrap-around, positions near 2^32 and 2^64, hostile words, two
// threads (the form that ThreadSanitizer can watch, because both ends use one mapping).
#include "shm/ring/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>

namespace omnistage::shm {
namespace {

struct HeapRing {
  explicit HeapRing(uint64_t capacity, uint64_t start = 0, uint32_t epoch = 3)
      : memory(new std::byte[capacity + 128]),
        base(memory.get() + (128 - reinterpret_cast<uintptr_t>(memory.get()) % 128)),
        writer(base, capacity, &head, start, epoch),
        reader(base, capacity, &head, &tail, start, epoch) {
    writer.attach(&tail);
  }
  // The header that the next write puts down.
  RecordHeader* header_at(uint64_t position) {
    return reinterpret_cast<RecordHeader*>(base + (position & (writer.capacity() - 1)));
  }

  std::unique_ptr<std::byte[]> memory;
  std::byte* base;
  alignas(128) std::atomic<uint64_t> head{0};
  alignas(128) std::atomic<uint64_t> tail{0};
  RingWriter writer;
  RingReader reader;
};

std::vector<std::byte> payload_of(uint64_t number, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i * 7);
  return bytes;
}

RingReader::Outcome read(HeapRing& ring, std::vector<std::byte>& bytes) {
  RecordHeader header;
  return ring.reader.read(header, bytes);
}

class RingStarts : public testing::TestWithParam<uint64_t> {};

TEST_P(RingStarts, WrapsManyTimes) {
  HeapRing ring(4096, GetParam());
  std::mt19937 random(17);
  std::vector<std::byte> bytes;
  uint64_t written = 0, got = 0;
  std::vector<size_t> sizes;
  while (got < 5000) {
    size_t size = random() % 700;
    if (ring.writer.write(9, payload_of(written, size)) == RingWriter::Outcome::kOk) {
      sizes.push_back(size);
      ++written;
      continue;
    }
    for (unsigned n = 1 + random() % 6; n > 0 && got < written; --n, ++got) {
      ASSERT_EQ(read(ring, bytes), RingReader::Outcome::kRecord) << ring.reader.error();
      ASSERT_EQ(bytes, payload_of(got, sizes[got]));
    }
  }
}

TEST_P(RingStarts, FullMeansFullAndEmptyMeansEmpty) {
  HeapRing ring(4096, GetParam());
  EXPECT_TRUE(ring.writer.empty());
  int n = 0;
  while (ring.writer.write(9, {}) == RingWriter::Outcome::kOk) ++n;
  EXPECT_EQ(n, 4096 / 32);
  EXPECT_EQ(ring.writer.room(0), 0u);
  std::vector<std::byte> bytes;
  for (; n > 0; --n) ASSERT_EQ(read(ring, bytes), RingReader::Outcome::kRecord);
  EXPECT_EQ(read(ring, bytes), RingReader::Outcome::kEmpty);
  EXPECT_TRUE(ring.writer.empty());
}

INSTANTIATE_TEST_SUITE_P(Positions, RingStarts,
                         testing::Values(0, (1ull << 32) - 64, (1ull << 32) - 2048, 0ull - 64,
                                         0ull - 4096));

TEST(Ring, LargestRecordAlwaysFitsAnEmptyRing) {
  HeapRing ring(4096);
  EXPECT_EQ(ring.writer.record_bytes_max(), 4096u / 2 - 32);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(ring.writer.write(9, payload_of(1, ring.writer.record_bytes_max())),
              RingWriter::Outcome::kOk);
    ASSERT_EQ(read(ring, bytes), RingReader::Outcome::kRecord);
    ASSERT_EQ(ring.writer.write(9, payload_of(2, static_cast<size_t>(i))),
              RingWriter::Outcome::kOk);
    ASSERT_EQ(read(ring, bytes), RingReader::Outcome::kRecord);
  }
  EXPECT_EQ(ring.writer.write(9, payload_of(1, 4096 / 2 - 31)), RingWriter::Outcome::kTooLarge);
}

TEST(Ring, NothingIsSeenBeforeCommit) {
  HeapRing ring(4096);
  RingWriter::Outcome outcome;
  auto place = ring.writer.reserve(100, 0, outcome);
  ASSERT_EQ(outcome, RingWriter::Outcome::kOk);
  std::memset(place.data(), 1, place.size());
  EXPECT_FALSE(ring.reader.unread());
  EXPECT_FALSE(ring.writer.commit(9, 101));
  EXPECT_TRUE(ring.writer.commit(9, 50));
  EXPECT_FALSE(ring.writer.commit(9, 50));
  std::vector<std::byte> bytes;
  EXPECT_EQ(read(ring, bytes), RingReader::Outcome::kRecord);
  EXPECT_EQ(bytes.size(), 50u);
}

TEST(Ring, KeepFreeIsKept) {
  HeapRing ring(4096);
  while (ring.writer.write(9, payload_of(0, 32), 1024) == RingWriter::Outcome::kOk) {
  }
  EXPECT_EQ(ring.writer.write(9, payload_of(0, 900)), RingWriter::Outcome::kOk);
}

TEST(Ring, HostileHeads) {
  for (uint64_t head :
       {uint64_t{8}, uint64_t{33}, uint64_t{4096 + 32}, uint64_t{0} - 32, uint64_t{1} << 63}) {
    HeapRing ring(4096);
    ring.head.store(head);
    std::vector<std::byte> bytes;
    EXPECT_EQ(read(ring, bytes), RingReader::Outcome::kBroken) << head;
    EXPECT_NE(ring.reader.error(), nullptr);
    ring.head.store(0);
    EXPECT_EQ(read(ring, bytes), RingReader::Outcome::kBroken) << "broken is for ever";
  }
}

TEST(Ring, HostileTails) {
  for (uint64_t tail : {uint64_t{4096}, uint64_t{0} - 32, uint64_t{1} << 63}) {
    HeapRing ring(4096);
    ASSERT_EQ(ring.writer.write(9, payload_of(0, 1000)), RingWriter::Outcome::kOk);
    ring.tail.store(tail);
    while (ring.writer.write(9, payload_of(0, 1000)) == RingWriter::Outcome::kOk) {
    }
    EXPECT_EQ(ring.writer.write(9, payload_of(0, 1000)), RingWriter::Outcome::kBroken) << tail;
  }
}

TEST(Ring, TailThatMovesBack) {
  HeapRing ring(4096);
  auto fill = [&] {
    RingWriter::Outcome outcome;
    while ((outcome = ring.writer.write(9, payload_of(0, 992))) == RingWriter::Outcome::kOk) {
    }
    return outcome;
  };
  EXPECT_EQ(fill(), RingWriter::Outcome::kFull);
  ring.tail.store(1024);
  EXPECT_EQ(fill(), RingWriter::Outcome::kFull);
  ring.tail.store(0);
  EXPECT_EQ(fill(), RingWriter::Outcome::kBroken);
}

TEST(Ring, HostileHeaders) {
  auto broken = [](auto change) {
    HeapRing ring(4096);
    std::vector<std::byte> bytes;
    EXPECT_EQ(ring.writer.write(9, payload_of(0, 40)), RingWriter::Outcome::kOk);
    change(*ring.header_at(0));
    return read(ring, bytes) == RingReader::Outcome::kBroken;
  };
  EXPECT_FALSE(broken([](RecordHeader&) {}));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.bytes = 65; }));  // beyond the head
  EXPECT_TRUE(broken([](RecordHeader& h) { h.bytes = 5000; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.bytes = UINT32_MAX; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.epoch = 4; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.sequence = 1; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.position = 32; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.reserved = 1; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.flags = 2; }));
  EXPECT_TRUE(broken([](RecordHeader& h) { h.flags = kRecordPadding; }));
}

TEST(Ring, PaddingMustBeFollowedByARecord) {
  HeapRing ring(4096);
  RecordHeader padding{};
  padding.bytes = 4096 - 32;
  padding.flags = kRecordPadding;
  padding.epoch = 3;
  std::memcpy(ring.base, &padding, sizeof padding);
  ring.head.store(4096);
  std::vector<std::byte> bytes;
  EXPECT_EQ(read(ring, bytes), RingReader::Outcome::kBroken);
}

TEST(Ring, TwoThreadsOneMapping) {
  constexpr uint64_t kRecords = 100'000;
  HeapRing ring(1 << 14, (1ull << 32) - 4096);
  std::thread writer([&] {
    std::mt19937 random(5);
    for (uint64_t n = 0; n < kRecords;) {
      size_t size = 8 + random() % 300;
      std::vector<std::byte> bytes = payload_of(n, size);
      std::memcpy(bytes.data(), &n, sizeof n);
      while (ring.writer.write(9, bytes) == RingWriter::Outcome::kFull) std::this_thread::yield();
      ++n;
    }
  });
  std::vector<std::byte> bytes;
  for (uint64_t n = 0; n < kRecords;) {
    RecordHeader header;
    auto outcome = ring.reader.read(header, bytes);
    if (outcome == RingReader::Outcome::kEmpty) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(outcome, RingReader::Outcome::kRecord) << ring.reader.error();
    std::vector<std::byte> expected = payload_of(n, bytes.size());
    std::memcpy(expected.data(), &n, sizeof n);
    ASSERT_EQ(bytes, expected) << n;
    ++n;
  }
  writer.join();
}

}  // namespace
}  // namespace omnistage::shm
