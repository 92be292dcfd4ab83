// A million messages of 1 B to 4 KiB (log-uniform) with checksums and random stalls: through a ring
// between two threads, with positions that pass 2^32 and 2^64, and through a link between two
// processes. OMS_STRESS_MESSAGES changes the number.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "shm/base/clock.h"
#include "shm/link/link.h"
#include "shm/ring/ring.h"
#include "shm/wait/wait_set.h"

namespace omnistage::shm {
namespace {

uint64_t messages() {
  const char* text = std::getenv("OMS_STRESS_MESSAGES");
  if (text != nullptr) return std::strtoull(text, nullptr, 10);
#ifdef OMNISTAGE_SANITIZED
  return 100'000;
#else
  return 1'000'000;
#endif
}

// Both sides make the same stream of messages from the same seed; the reader compares every byte.
class Stream {
 public:
  explicit Stream(unsigned seed) : random_(seed) {
    for (uint64_t& word : noise_) word = random_();
  }
  std::span<const std::byte> next() {
    const double exponent = static_cast<double>(random_() >> 11) / 9007199254740992.0;
    const size_t size = std::min<size_t>(4096, static_cast<size_t>(std::exp2(12.0 * exponent)));
    const size_t from = random_() % 4096;
    return {reinterpret_cast<const std::byte*>(noise_) + from, std::max<size_t>(size, 1)};
  }

 private:
  std::mt19937_64 random_;
  uint64_t noise_[1024];
};

class Stalls {
 public:
  explicit Stalls(unsigned seed) : random_(seed) {}
  void maybe() {
    const uint32_t draw = random_() % 20'000;
    if (draw == 0) usleep(1 + random_() % 2000);
    if (draw < 20) sched_yield();
  }

 private:
  std::mt19937 random_;
};

bool equal(const std::vector<std::byte>& got, std::span<const std::byte> expected) {
  return got.size() == expected.size() && std::memcmp(got.data(), expected.data(), got.size()) == 0;
}

void run_threads(uint64_t capacity, uint64_t start, uint64_t count) {
  std::vector<std::byte> memory(capacity);
  alignas(128) std::atomic<uint64_t> head{0};
  alignas(128) std::atomic<uint64_t> tail{0};
  RingWriter writer(memory.data(), capacity, &head, start, 1);
  RingReader reader(memory.data(), capacity, &head, &tail, start, 1);
  writer.attach(&tail);
  std::thread thread([&] {
    Stream stream(11);
    Stalls stalls(1);
    for (uint64_t i = 0; i < count; ++i) {
      std::span<const std::byte> message = stream.next();
      while (writer.write(9, message) == RingWriter::Outcome::kFull) usleep(20);
      stalls.maybe();
    }
  });
  Stream stream(11);
  Stalls stalls(2);
  std::vector<std::byte> bytes;
  RecordHeader header;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count;) {
    const RingReader::Outcome outcome = reader.read(header, bytes);
    if (outcome == RingReader::Outcome::kBroken) break;
    if (outcome == RingReader::Outcome::kEmpty) {
      usleep(20);  // not a yield: on a busy machine that gives a whole time slice away
      continue;
    }
    wrong += !equal(bytes, stream.next()) || header.sequence != i;
    ++i;
    stalls.maybe();
  }
  ASSERT_EQ(reader.error(), nullptr) << reader.error();
  thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(writer.empty());
}

TEST(RingStress, Threads) {
  run_threads(1 << 16, 0, messages());
}
TEST(RingStress, ThreadsSmallRing) {
  run_threads(1 << 14, 0, messages() / 10);
}
TEST(RingStress, ThreadsPast2To32) {
  run_threads(1 << 16, (1ull << 32) - (1 << 20), messages() / 10);
}
TEST(RingStress, ThreadsPast2To64) {
  run_threads(1 << 16, 0ull - (1 << 20), messages() / 10);
}

LinkIdentity stage(uint32_t index) {
  return {LinkIdentity::Role::kStage, index, 1, "s" + std::to_string(index)};
}

bool connect(Link& link) {
  for (int i = 0; i < 600 && !link.connected() && !link.peer_dead(); ++i) {
    pollfd fd{link.socket_fd(), POLLIN, 0};
    if (poll(&fd, 1, 100) > 0 && !link.on_socket().ok()) return false;
  }
  return link.connected();
}

// Both sleep in a WaitSet whenever they have to wait, so lost wake-ups would end in the timeout.
int send_all(UniqueFd socket, uint64_t count) {
  auto link = Link::create(std::move(socket), stage(2), stage(1), {1u << 16, 1u << 14});
  if (!link.ok() || !connect(**link)) return 3;
  auto waits = WaitSet::create();
  waits->add(link->get());
  Stream stream(12);
  Stalls stalls(3);
  for (uint64_t i = 0; i < count; ++i) {
    std::span<const std::byte> message = stream.next();
    for (;;) {
      SendResult result = (*link)->try_send(kFirstUserKind, message);
      if (result == SendResult::kOk) break;
      if (result != SendResult::kFull) return 4;
      if (!waits->wait(monotonic_ns() + 60 * kSecond).ok()) return 5;
    }
    stalls.maybe();
  }
  return 0;
}

TEST(RingStress, ProcessesWithWakeUps) {
  const uint64_t count = messages();
  UniqueFd here, there;
  ASSERT_TRUE(make_socketpair(here, there).ok());
  pid_t child = fork();
  if (child == 0) {
    here.reset();
    _exit(send_all(std::move(there), count));
  }
  there.reset();
  auto link = *Link::create(std::move(here), stage(1), stage(2), {0, 1u << 14});
  ASSERT_TRUE(connect(*link));
  auto waits = WaitSet::create();
  waits->add(link.get());
  Stream stream(12);
  Stalls stalls(4);
  Record record;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count;) {
    if (!link->poll(record)) {
      ASSERT_FALSE(link->peer_dead());
      ASSERT_TRUE(waits->wait(monotonic_ns() + 60 * kSecond).ok()) << "after " << i << " records";
      continue;
    }
    wrong += !equal(record.bytes, stream.next()) || record.sequence != i;
    ++i;
    stalls.maybe();
  }
  EXPECT_EQ(wrong, 0u);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  waits.reset();
}

}  // namespace
}  // namespace omnistage::shm
