// WaitSet: every reason to wake wakes, nothing else does.
#include "shm/wait/wait_set.h"

#include <thread>

#include "shm/base/clock.h"
#include "tests/unit/shm/link_pair.h"

namespace omnistage::shm {
namespace {

constexpr LinkOptions kSmall{64u << 10, 16u << 10};
constexpr int64_t kGenerous = 60 * kSecond;

int64_t in(int64_t ns) {
  return monotonic_ns() + ns;
}

struct Waiting : LinkPair {
  std::unique_ptr<WaitSet> waits = WaitSet::create();
  explicit Waiting(LinkOptions options = {}, bool connect = true) : LinkPair(options, connect) {
    waits->add(b.get());
  }
  ~Waiting() { waits.reset(); }
};

TEST(WaitSet, TimeoutWhenNothingHappens) {
  Waiting w;
  while (w.waits->wait(0).ok()) {  // the connection itself is an event
  }
  EXPECT_EQ(w.waits->wait(in(20 * kMillisecond)).code(), StatusCode::kTimeout);
  EXPECT_EQ(w.waits->wait(0).code(), StatusCode::kTimeout);
}

TEST(WaitSet, RingBeforeWaitIsNotLost) {
  Waiting w;
  w.waits->ring();
  w.waits->ring();
  EXPECT_TRUE(w.waits->wait(kNever).ok());
  EXPECT_EQ(w.waits->wait(0).code(), StatusCode::kTimeout);
}

TEST(WaitSet, RingFromAnotherThreadWakes) {
  Waiting w;
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    w.waits->ring();
  });
  EXPECT_TRUE(w.waits->wait(in(kGenerous)).ok());
  ringer.join();
}

TEST(WaitSet, UnreadRecordKeepsWaitFromSleeping) {
  Waiting w;
  ASSERT_EQ(w.a->try_send(kKind, bytes_of("x")), SendResult::kOk);
  EXPECT_TRUE(w.waits->wait(kNever).ok());
  EXPECT_TRUE(w.waits->wait(kNever).ok());
  Record record;
  ASSERT_TRUE(w.b->poll(record));
  EXPECT_EQ(w.waits->wait(0).code(), StatusCode::kTimeout);
}

TEST(WaitSet, RecordWakesTheSleeper) {
  for (bool control : {false, true}) {
    Waiting w;
    std::thread sender([&] {
      for (int i = 0; i < 50; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
        control ? w.a->try_send_control(kKind, bytes_of("x")) : w.a->try_send(kKind, bytes_of("x"));
      }
    });
    Record record;
    for (int got = 0; got < 50;) {
      ASSERT_TRUE(w.waits->wait(in(kGenerous)).ok());
      while (w.b->poll(record)) ++got;
    }
    sender.join();
  }
}

TEST(WaitSet, RoomWakesABlockedSender) {
  Waiting w(kSmall);
  const std::string payload(4000, 'x');
  while (w.b->try_send(kKind, bytes_of(payload)) == SendResult::kOk) {
  }
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Record record;
    while (w.a->poll(record)) {
    }
  });
  ASSERT_TRUE(w.waits->wait(in(kGenerous)).ok());
  reader.join();
  EXPECT_EQ(w.b->try_send(kKind, bytes_of(payload)), SendResult::kOk);
  EXPECT_EQ(w.waits->wait(0).code(), StatusCode::kTimeout);
}

TEST(WaitSet, DeathIsReportedOnce) {
  Waiting w;
  std::thread control([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    w.a.reset();
    EXPECT_TRUE(w.b->on_socket().ok());
  });
  Record record;
  while (!w.b->peer_dead()) {
    ASSERT_TRUE(w.waits->wait(in(kGenerous)).ok());
    w.b->poll(record);
  }
  control.join();
  while (w.waits->wait(0).ok()) w.b->poll(record);
  EXPECT_EQ(w.waits->wait(in(5 * kMillisecond)).code(), StatusCode::kTimeout);
}

TEST(WaitSet, PeerThatAttachedFirstIsWoken) {
  LinkPair pair({}, false);
  auto waits = WaitSet::create();
  waits->add(pair.b.get());
  ASSERT_TRUE(pair.b->on_socket().ok());  // b knows a, a does not know b yet
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(pair.a->try_send(kKind, bytes_of("x")), SendResult::kOk);  // cannot see that b sleeps
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(pair.a->on_socket().ok());
    Record record;
    pair.a->poll(record);
  });
  Record record;
  bool got = false;
  while (!got) {
    ASSERT_TRUE(waits->wait(in(kGenerous)).ok());
    got = pair.b->poll(record);
  }
  writer.join();
}

TEST(WaitSet, MoreLinksThanFutexWords) {
  std::vector<std::unique_ptr<LinkPair>> pairs;
  auto waits = WaitSet::create();
  for (int i = 0; i < 140; ++i) {
    pairs.push_back(std::make_unique<LinkPair>(LinkOptions{0, 16u << 10}));
    waits->add(pairs.back()->b.get());
  }
  while (waits->wait(0).ok()) {
  }
  for (int i : {0, 70, 139}) {
    std::thread sender([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pairs[static_cast<size_t>(i)]->a->try_send_control(kKind, bytes_of("x"));
    });
    EXPECT_TRUE(waits->wait(in(kGenerous)).ok());
    sender.join();
    Record record;
    EXPECT_TRUE(pairs[static_cast<size_t>(i)]->b->poll(record));
    while (waits->wait(0).ok()) {
    }
  }
  for (auto& pair : pairs) waits->remove(pair->b.get());
}

// Two threads that sleep for every message: a lost wake-up would end in the timeout.
TEST(WaitSet, PingPongLosesNoWakeUp) {
  LinkPair pair(kSmall);
  constexpr int kRounds = 20000;
  auto play = [&](Link* link, bool first) {
    auto waits = WaitSet::create();
    waits->add(link);
    Record record;
    for (int i = 0; i < kRounds; ++i) {
      if (first) {
        ASSERT_EQ(link->try_send(kKind, bytes_of("ping")), SendResult::kOk);
      }
      while (!link->poll(record)) ASSERT_TRUE(waits->wait(in(kGenerous)).ok()) << i;
      if (!first) {
        ASSERT_EQ(link->try_send(kKind, bytes_of("pong")), SendResult::kOk);
      }
    }
    waits->remove(link);
  };
  std::thread other([&] { play(pair.b.get(), false); });
  play(pair.a.get(), true);
  other.join();
}

}  // namespace
}  // namespace omnistage::shm
