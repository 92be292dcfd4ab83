// Two real processes: traffic, SIGKILL of the writer at random moments, SIGKILL of a consumer with
// leases. What is delivered is whole and complete, the survivor notices, nothing is left behind.
#include <poll.h>

#include <sys/mman.h>
#include <atomic>
#include <cstring>
#include <new>
#include <random>

#include "shm/base/clock.h"
#include "shm/wait/wait_set.h"
#include "tests/unit/shm/link_pair.h"
#include "tests/unit/shm/processes.h"

namespace omnistage::shm {
namespace {

constexpr LinkOptions kOptions{128u << 10, 16u << 10};
constexpr int64_t kGenerous = 60 * kSecond;

uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t hash = 1469598103934665603ull;
  for (std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211ull;
  return hash;
}

// A record: checksum of the rest, number, filling.
void fill(std::vector<std::byte>& bytes, uint64_t number, size_t size) {
  bytes.assign(16 + size, static_cast<std::byte>(number * 13));
  std::memcpy(bytes.data() + 8, &number, 8);
  const uint64_t sum = checksum(std::span<const std::byte>(bytes).subspan(8));
  std::memcpy(bytes.data(), &sum, 8);
}

bool whole(const std::vector<std::byte>& bytes, uint64_t number) {
  uint64_t sum, got;
  if (bytes.size() < 16) return false;
  std::memcpy(&sum, bytes.data(), 8);
  std::memcpy(&got, bytes.data() + 8, 8);
  return got == number && sum == checksum(std::span<const std::byte>(bytes).subspan(8));
}

// Waits on the socket as a control thread does.
bool socket_step(Link& link, int timeout_ms) {
  pollfd fd{link.socket_fd(), POLLIN, 0};
  if (poll(&fd, 1, timeout_ms) <= 0) return false;
  return link.on_socket().ok();
}

bool connect(Link& link) {
  const int64_t end = monotonic_ns() + kGenerous;
  while (!link.connected() && !link.peer_dead() && monotonic_ns() < end) socket_step(link, 1000);
  return link.connected();
}

std::unique_ptr<Link> child_link(UniqueFd socket) {
  auto link = Link::create(std::move(socket), stage(2, "beta"), stage(1, "alpha"), kOptions);
  return link.ok() && connect(**link) ? std::move(*link) : nullptr;
}

// A counter that parent and child share; outside of what is tested.
struct SharedCounter {
  SharedCounter()
      : value(new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                  std::atomic<uint64_t>(0)) {}
  ~SharedCounter() { munmap(value, 4096); }
  std::atomic<uint64_t>* value;
};

[[noreturn]] void write_for_ever(UniqueFd socket, std::atomic<uint64_t>* committed, unsigned seed) {
  auto link = child_link(std::move(socket));
  if (link == nullptr) _exit(3);
  std::mt19937 random(seed);
  std::vector<std::byte> bytes;
  for (uint64_t number = 0;;) {
    fill(bytes, number, random() % 20000);
    if (link->try_send(kKind, bytes) != SendResult::kOk) {
      sched_yield();
      continue;
    }
    committed->store(++number);
  }
}

TEST(Processes, KilledWriterNeverShowsATornRecord) {
  const size_t fds = open_fds(), maps = shared_mappings();
  std::mt19937 random(99);
  uint64_t delivered = 0;
  for (unsigned kill_number = 0; kill_number < 50; ++kill_number) {
    UniqueFd here, there;
    ASSERT_TRUE(make_socketpair(here, there).ok());
    SharedCounter committed;
    pid_t child = fork();
    if (child == 0) {
      here.reset();
      write_for_ever(std::move(there), committed.value, kill_number);
    }
    there.reset();
    auto link = *Link::create(std::move(here), stage(1, "alpha"), stage(2, "beta"), kOptions);
    ASSERT_TRUE(connect(*link));
    const int64_t kill_at = monotonic_ns() + static_cast<int64_t>(random() % 20'000'000);
    bool killed = false;
    uint64_t number = 0;
    Record record;
    const int64_t end = monotonic_ns() + kGenerous;
    for (;;) {
      if (!killed && monotonic_ns() >= kill_at) killed = kill(child, SIGKILL) == 0;
      if (link->poll(record)) {
        ASSERT_TRUE(whole(record.bytes, number))
            << "record " << number << " of writer " << kill_number;
        ASSERT_EQ(record.sequence, number);
        ++number;
        continue;
      }
      if (link->peer_dead()) break;
      ASSERT_LT(monotonic_ns(), end);
      socket_step(*link, 0);
    }
    while (link->poll(record)) ASSERT_TRUE(whole(record.bytes, number++));
    EXPECT_EQ(exit_code(child), 128 + SIGKILL);
    EXPECT_GE(number, committed.value->load()) << "a committed record was lost";
    EXPECT_LE(number, committed.value->load() + 1);
    delivered += number;
  }
  EXPECT_GT(delivered, 50u);
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(shared_mappings(), maps);
}

// Opens every tensor it is told of, checks it and keeps it; answers each with its number.
int keep_tensors(UniqueFd socket) {
  auto link = child_link(std::move(socket));
  if (link == nullptr) return 3;
  std::vector<std::shared_ptr<std::byte>> kept;
  Record record;
  for (const int64_t end = monotonic_ns() + kGenerous; monotonic_ns() < end;) {
    if (!link->poll(record)) {
      sched_yield();
      continue;
    }
    TensorRef ref;
    if (record.bytes.size() != sizeof ref) return 4;
    std::memcpy(&ref, record.bytes.data(), sizeof ref);
    auto view = link->open_tensor(ref);
    if (!view.ok()) return 5;
    const std::byte expected = static_cast<std::byte>(kept.size());
    for (size_t i = 0; i < ref.bytes; ++i)
      if (view->get()[i] != expected) return 6;
    kept.push_back(std::move(*view));
    if (link->try_send(kKind, std::as_bytes(std::span(&ref, 1))) != SendResult::kOk) return 7;
  }
  return 8;
}

TEST(Processes, LeasesOfAKilledConsumerComeBack) {
  const size_t fds = open_fds(), maps = shared_mappings();
  {
    UniqueFd here, there;
    ASSERT_TRUE(make_socketpair(here, there).ok());
    pid_t child = run_child([&] {
      here.reset();
      return keep_tensors(std::move(there));
    });
    there.reset();
    auto link = *Link::create(std::move(here), stage(1, "alpha"), stage(2, "beta"), kOptions);
    auto pool = TensorPool::create(32u << 20);
    link->attach_pool(pool);
    ASSERT_TRUE(connect(*link));
    constexpr unsigned kTensors = 40;
    for (unsigned i = 0; i < kTensors; ++i) {
      auto tensor = pool->allocate(DType::kU8, {100'000});
      ASSERT_TRUE(tensor.ok());
      std::memset(tensor->data.get(), static_cast<int>(i), tensor->bytes());
      auto ref = link->lease(tensor->data.get(), tensor->bytes());
      ASSERT_TRUE(ref.ok()) << ref.status().to_string();
      ASSERT_EQ(link->try_send(kKind, std::as_bytes(std::span(&*ref, 1))), SendResult::kOk);
    }
    Record record;
    const int64_t end = monotonic_ns() + kGenerous;
    for (unsigned answers = 0; answers < kTensors;) {
      answers += link->poll(record);
      ASSERT_LT(monotonic_ns(), end);
      ASSERT_FALSE(link->peer_dead());
      socket_step(*link, 0);
    }
    EXPECT_EQ(pool->stats().leases, kTensors);
    kill(child, SIGKILL);
    while (!link->peer_dead()) {
      socket_step(*link, 1000);
      ASSERT_LT(monotonic_ns(), end);
    }
    EXPECT_EQ(exit_code(child), 128 + SIGKILL);
    EXPECT_EQ(pool->stats().leases, 0u);
    EXPECT_EQ(pool->stats().blocks, 0u);
  }
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(shared_mappings(), maps);
}

// The dead producer's tensors stay readable, also those whose slabs were still on the socket.
TEST(Processes, TensorsOfAKilledProducerStayReadable) {
  UniqueFd here, there;
  ASSERT_TRUE(make_socketpair(here, there).ok());
  pid_t child = run_child([&] {
    here.reset();
    auto link = child_link(std::move(there));
    if (link == nullptr) return 3;
    auto pool = TensorPool::create(32u << 20);
    link->attach_pool(pool);
    for (int i = 0; i < 5; ++i) {
      auto tensor = pool->allocate(DType::kU8, {3'000'000});
      if (!tensor.ok()) return 4;
      std::memset(tensor->data.get(), i, tensor->bytes());
      auto ref = link->lease(tensor->data.get(), tensor->bytes());
      if (!ref.ok()) return 5;
      if (link->try_send(kKind, std::as_bytes(std::span(&*ref, 1))) != SendResult::kOk) return 6;
    }
    raise(SIGKILL);
    return 7;
  });
  there.reset();
  auto link = *Link::create(std::move(here), stage(1, "alpha"), stage(2, "beta"), kOptions);
  EXPECT_EQ(exit_code(child), 128 + SIGKILL);
  while (!link->peer_dead()) ASSERT_TRUE(link->on_socket().ok());
  Record record;
  int opened = 0;
  for (; link->poll(record); ++opened) {
    TensorRef ref;
    ASSERT_EQ(record.bytes.size(), sizeof ref);
    std::memcpy(&ref, record.bytes.data(), sizeof ref);
    auto view = link->open_tensor(ref);
    ASSERT_TRUE(view.ok()) << view.status().to_string();
    EXPECT_EQ(view->get()[0], static_cast<std::byte>(opened));
    EXPECT_EQ(view->get()[2'999'999], static_cast<std::byte>(opened));
  }
  EXPECT_EQ(opened, 5);
}

TEST(Processes, PingPongAcrossProcessesSleepsAndWakes) {
  constexpr int kRounds = 5000;
  UniqueFd here, there;
  ASSERT_TRUE(make_socketpair(here, there).ok());
  auto serve = [](Link& link, bool first) {
    auto waits = WaitSet::create();
    waits->add(&link);
    Record record;
    for (int i = 0; i < kRounds; ++i) {
      if (first && link.try_send(kKind, bytes_of("ping")) != SendResult::kOk) return 4;
      while (!link.poll(record))
        if (!waits->wait(monotonic_ns() + kGenerous).ok()) return 5;
      if (!first && link.try_send(kKind, bytes_of("pong")) != SendResult::kOk) return 6;
    }
    waits->remove(&link);
    return 0;
  };
  pid_t child = run_child([&] {
    here.reset();
    auto link = child_link(std::move(there));
    return link == nullptr ? 3 : serve(*link, false);
  });
  there.reset();
  auto link = *Link::create(std::move(here), stage(1, "alpha"), stage(2, "beta"), kOptions);
  ASSERT_TRUE(connect(*link));
  EXPECT_EQ(serve(*link, true), 0);
  EXPECT_EQ(exit_code(child), 0);
}

}  // namespace
}  // namespace omnistage::shm
