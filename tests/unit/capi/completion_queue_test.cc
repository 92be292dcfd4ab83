#include "capi/queue/completion_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <thread>

#include "shm/base/clock.h"

namespace omnistage::capi {
namespace {

std::shared_ptr<CompletionQueue> make(uint32_t capacity = 8) {
  auto queue = CompletionQueue::create(capacity);
  EXPECT_TRUE(queue.ok());
  return *queue;
}

OutputEvent event(uint64_t request, bool final = false) {
  OutputEvent out;
  out.request = request;
  out.kind = final ? OutputKind::kEvent : OutputKind::kText;
  out.stage = 1;
  out.final = final;
  return out;
}

bool readable(const CompletionQueue& queue, int timeout_ms = 0) {
  pollfd entry{queue.event_fd(), POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(CompletionQueue, FdIsReadableWhileSomethingWaits) {
  auto queue = make();
  std::vector<OutputEvent> events;
  EXPECT_FALSE(readable(*queue));
  EXPECT_EQ(queue->poll(4, events), StatusCode::kAgain);
  for (uint64_t i = 1; i <= 3; ++i) queue->deliver(event(i));
  EXPECT_TRUE(readable(*queue));
  EXPECT_EQ(queue->poll(2, events), StatusCode::kOk);
  EXPECT_TRUE(readable(*queue));
  EXPECT_EQ(queue->poll(2, events), StatusCode::kOk);
  EXPECT_EQ(events.size(), 3u);
  EXPECT_FALSE(readable(*queue));
  queue->deliver(event(4));
  EXPECT_TRUE(readable(*queue));
}

TEST(CompletionQueue, CapacityCountsRequestsWhoseFinalWasNotTaken) {
  auto queue = make(2);
  EXPECT_TRUE(queue->reserve().ok());
  EXPECT_TRUE(queue->reserve().ok());
  EXPECT_EQ(queue->reserve().code(), StatusCode::kFull);
  queue->deliver(event(1, true));
  EXPECT_EQ(queue->reserve().code(), StatusCode::kFull);
  std::vector<OutputEvent> events;
  EXPECT_EQ(queue->poll(8, events), StatusCode::kOk);
  EXPECT_TRUE(queue->reserve().ok());
  queue->unreserve();
  EXPECT_TRUE(queue->reserve().ok());
}

TEST(CompletionQueue, TellsWhatWasTaken) {
  auto queue = make();
  queue->deliver(event(5));
  queue->deliver(event(5, true));
  EXPECT_TRUE(queue->collect_taken().empty());
  std::vector<OutputEvent> events;
  EXPECT_EQ(queue->poll(8, events), StatusCode::kOk);
  const auto taken = queue->collect_taken();
  ASSERT_EQ(taken.size(), 1u);  // a FINAL costs no credit
  EXPECT_EQ(taken[0].request, 5u);
  EXPECT_EQ(taken[0].stage, 1u);
  EXPECT_TRUE(queue->collect_taken().empty());
}

TEST(CompletionQueue, WakeMakesOneWaitReturn) {
  auto queue = make();
  std::vector<OutputEvent> events;
  queue->wake();
  EXPECT_TRUE(readable(*queue));
  EXPECT_EQ(queue->wait(1, events, -1), StatusCode::kWoken);
  EXPECT_FALSE(readable(*queue));
  EXPECT_EQ(queue->wait(1, events, 1), StatusCode::kTimeout);
  EXPECT_EQ(queue->wait(1, events, 0), StatusCode::kAgain);
  std::thread waker([&] { queue->wake(); });
  EXPECT_EQ(queue->wait(1, events, -1), StatusCode::kWoken);
  waker.join();
}

TEST(CompletionQueue, OutputsComeBeforeAWake) {
  auto queue = make();
  queue->deliver(event(1));
  queue->wake();
  std::vector<OutputEvent> events;
  EXPECT_EQ(queue->poll(8, events), StatusCode::kOk);
  EXPECT_TRUE(readable(*queue));
  EXPECT_EQ(queue->poll(8, events), StatusCode::kWoken);
  EXPECT_EQ(queue->poll(8, events), StatusCode::kAgain);
}

TEST(CompletionQueue, ClosedAfterTheLastEvent) {
  auto queue = make();
  queue->deliver(event(1));
  queue->close();
  std::vector<OutputEvent> events;
  EXPECT_EQ(queue->reserve().code(), StatusCode::kClosed);
  EXPECT_EQ(queue->wait(8, events, -1), StatusCode::kOk);
  EXPECT_EQ(queue->wait(8, events, -1), StatusCode::kClosed);
  EXPECT_TRUE(readable(*queue));
}

TEST(CompletionQueue, SecondReaderIsRefused) {
  auto queue = make();
  std::thread reader([&] {
    std::vector<OutputEvent> events;
    // It may itself be the second one while the poll below is running.
    StatusCode code = StatusCode::kBusy;
    while ((code = queue->wait(1, events, -1)) == StatusCode::kBusy) std::this_thread::yield();
    EXPECT_EQ(code, StatusCode::kWoken);
  });
  // The other thread enters wait() at some time; until then this one gets AGAIN.
  StatusCode code = StatusCode::kAgain;
  std::vector<OutputEvent> events;
  while ((code = queue->poll(1, events)) == StatusCode::kAgain) std::this_thread::yield();
  EXPECT_EQ(code, StatusCode::kBusy);
  queue->wake();
  reader.join();
}

// A level-triggered event loop that takes one output per readiness must never hang, with a producer
// and a waker racing against it.
TEST(CompletionQueue, NoWakeUpIsLostUnderRace) {
  auto queue = make();
  constexpr uint64_t kCount = 100'000;
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      while (i - taken.load() >= 64) std::this_thread::yield();
      queue->deliver(event(i));
    }
  });
  std::thread waker([&] {
    while (!done.load()) {
      queue->wake();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  std::vector<OutputEvent> events;
  bool hung = false;
  while (taken.load() < kCount && !hung) {
    hung = !readable(*queue, 20'000);
    events.clear();
    (void)queue->poll(1, events);
    if (!events.empty()) {
      EXPECT_EQ(events[0].request, taken.load());
      taken.fetch_add(1);
    }
    (void)queue->collect_taken();
  }
  EXPECT_FALSE(hung) << "after " << taken.load();
  taken.store(kCount);
  done.store(true);
  producer.join();
  waker.join();
}

}  // namespace
}  // namespace omnistage::capi
