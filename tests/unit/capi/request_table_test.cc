// Every way a request can end, in every order the pipeline could report it: exactly one FINAL,
// always last.
#include "capi/state/request_table.h"

#include <gtest/gtest.h>

#include <random>

#include "shm/base/clock.h"

namespace omnistage::capi {
namespace {

struct Recorder final : EventSink {
  std::vector<OutputEvent> events;
  void deliver(OutputEvent event) override { events.push_back(std::move(event)); }
  int finals(uint64_t id) const {
    int count = 0;
    for (const OutputEvent& event : events) count += event.request == id && event.final;
    return count;
  }
  const OutputEvent& last() const { return events.back(); }
};

// Stage 0 makes text and is the entry, stage 1 has no link to clients, stage 2 makes audio.
class RequestTableTest : public ::testing::Test {
 protected:
  uint64_t add(uint32_t wanted = 3, int64_t deadline = 0) {
    RequestSpec spec;
    spec.sink = sink;
    spec.wanted = wanted;
    spec.ends = ((wanted & 1) != 0 ? 1u : 0u) | ((wanted & 2) != 0 ? 4u : 0u);
    spec.needed = (wanted & 2) != 0 ? 7u : 1u;
    spec.user_data = 77;
    spec.credit = 2;
    spec.deadline_ns = deadline;
    auto id = table.add(std::move(spec));
    EXPECT_TRUE(id.ok()) << id.status().message();
    return *id;
  }
  bool text(uint64_t id, const std::string& piece, uint32_t stage = 0) {
    OutputEvent event;
    event.kind = OutputKind::kText;
    event.text = piece;
    return table.on_output(stage, "stage 0 (thinker)", id, event, 5);
  }
  bool audio(uint64_t id) {
    OutputEvent event;
    event.kind = OutputKind::kAudio;
    return table.on_output(2, "stage 2 (code2wav)", id, event, 6);
  }
  void end(uint64_t id, uint32_t stage, Usage usage = {}, Status status = {},
           FinishReason reason = FinishReason::kStop) {
    table.on_stage_end(stage, "stage " + std::to_string(stage), id, reason, status, usage, 9);
  }

  std::shared_ptr<Recorder> sink = std::make_shared<Recorder>();
  std::vector<std::pair<uint64_t, StageMask>> aborts;
  RequestTable table{4, [this](uint64_t id, StageMask mask) { aborts.emplace_back(id, mask); }};
};

TEST_F(RequestTableTest, EndsWhenAllWantedStagesEnded) {
  const uint64_t id = add();
  text(id, "a");
  audio(id);
  end(id, 0, {12, 34, 0});
  EXPECT_EQ(sink->finals(id), 0);
  end(id, 2, {0, 0, 24000});
  ASSERT_EQ(sink->finals(id), 1);
  const OutputEvent& final = sink->last();
  EXPECT_TRUE(final.final);
  EXPECT_TRUE(final.status.ok());
  EXPECT_EQ(final.reason, FinishReason::kStop);
  EXPECT_EQ(final.usage.prompt_tokens, 12u);
  EXPECT_EQ(final.usage.output_tokens, 34u);
  EXPECT_EQ(final.usage.audio_samples, 24000u);
  EXPECT_EQ(final.user_data, 77u);
  EXPECT_EQ(final.stage, -1);
  for (size_t i = 0; i < sink->events.size(); ++i) EXPECT_EQ(sink->events[i].sequence, i);
  EXPECT_TRUE(aborts.empty());
  EXPECT_EQ(table.stats().finished, 1u);
  EXPECT_EQ(table.inflight(), 0u);
}

TEST_F(RequestTableTest, TextOnlyNeedsTheTextStageOnly) {
  const uint64_t id = add(1);
  table.on_stage_death(1, Status(StatusCode::kStageDied, "talker"), 1);
  EXPECT_EQ(sink->finals(id), 0);
  end(id, 0);
  EXPECT_EQ(sink->finals(id), 1);
}

TEST_F(RequestTableTest, FirstMarksTheFirstOfEachKind) {
  const uint64_t id = add();
  text(id, "a");
  audio(id);
  text(id, "b");
  EXPECT_TRUE(sink->events[0].first);
  EXPECT_TRUE(sink->events[1].first);
  EXPECT_FALSE(sink->events[2].first);
}

TEST_F(RequestTableTest, ErrorOfAStageEndsAtOnceAndAbortsTheOthers) {
  const uint64_t id = add();
  end(id, 0, {}, Status(StatusCode::kInvalid, "temperature is 9"), FinishReason::kError);
  ASSERT_EQ(sink->finals(id), 1);
  EXPECT_EQ(sink->last().status.code(), StatusCode::kInvalid);
  EXPECT_EQ(sink->last().stage, 0);
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_EQ(aborts[0], std::make_pair(id, StageMask{6}));
}

TEST_F(RequestTableTest, AbortReasonWithoutStatusIsNotSuccess) {
  const uint64_t id = add();
  end(id, 0, {}, {}, FinishReason::kAbort);
  EXPECT_EQ(sink->last().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(sink->finals(id), 1);
}

TEST_F(RequestTableTest, DeathHitsOnlyRequestsThatStillNeedTheStage) {
  const uint64_t both = add(), only_text = add(1), thinker_done = add();
  end(thinker_done, 0);
  table.on_stage_death(
      0, Status(StatusCode::kStageDied, "stage 0 (thinker) died: killed by signal 9"), 3);
  EXPECT_EQ(sink->finals(both), 1);
  EXPECT_EQ(sink->finals(only_text), 1);
  EXPECT_EQ(sink->finals(thinker_done), 0);
  EXPECT_EQ(sink->last().stage, 0);
  EXPECT_EQ(sink->last().status.message(), "stage 0 (thinker) died: killed by signal 9");
  table.on_stage_death(1, Status(StatusCode::kStageDied, "talker"), 4);
  EXPECT_EQ(sink->finals(thinker_done), 1);
}

TEST_F(RequestTableTest, LateRecordsAreDroppedAndCounted) {
  const uint64_t id = add();
  EXPECT_TRUE(table.cancel(id, sink.get(), 2).ok());
  const size_t before = sink->events.size();
  EXPECT_FALSE(text(id, "late"));
  end(id, 0);
  table.on_stage_death(0, Status(StatusCode::kStageDied, "x"), 3);
  table.expire(kNever);
  EXPECT_EQ(sink->events.size(), before);
  EXPECT_EQ(table.stats().late_records, 2u);
  EXPECT_EQ(table.cancel(id, sink.get(), 2).code(), StatusCode::kNotFound);
}

TEST_F(RequestTableTest, CancelNeedsTheRightQueue) {
  const uint64_t id = add();
  Recorder other;
  EXPECT_EQ(table.cancel(id, &other, 1).code(), StatusCode::kNotFound);
  EXPECT_EQ(sink->finals(id), 0);
  table.cancel_sink(&other, 1);
  EXPECT_EQ(sink->finals(id), 0);
  table.cancel_sink(sink.get(), 1);
  EXPECT_EQ(sink->finals(id), 1);
}

TEST_F(RequestTableTest, DeadlinesPassInOrder) {
  const uint64_t late = add(3, 200), soon = add(3, 100), never = add();
  EXPECT_EQ(table.next_deadline_ns(), 100);
  table.expire(99);
  EXPECT_TRUE(sink->events.empty());
  table.expire(100);
  EXPECT_EQ(sink->finals(soon), 1);
  EXPECT_EQ(sink->last().status.code(), StatusCode::kDeadline);
  EXPECT_EQ(table.next_deadline_ns(), 200);
  end(late, 0);
  end(late, 2);
  EXPECT_EQ(table.next_deadline_ns(), kNever);
  EXPECT_EQ(sink->finals(never), 0);
}

TEST_F(RequestTableTest, InflightIsBounded) {
  for (int i = 0; i < 4; ++i) add();
  auto refused = table.add({});
  EXPECT_EQ(refused.status().code(), StatusCode::kFull);
  table.end_all(Status(StatusCode::kClosed, "gone"), 1);
  EXPECT_EQ(table.inflight(), 0u);
  EXPECT_EQ(sink->events.size(), 4u);
  add();
}

TEST_F(RequestTableTest, CreditBoundsWhatWaits) {
  const uint64_t id = add();
  text(id, "1");
  text(id, "2");
  audio(id);
  EXPECT_TRUE(table.on_taken(id, 0, OutputKind::kText));
  text(id, "3");
  EXPECT_EQ(sink->finals(id), 0);
  text(id, "4");  // one too many
  ASSERT_EQ(sink->finals(id), 1);
  EXPECT_EQ(sink->last().status.code(), StatusCode::kProtocol);
  EXPECT_FALSE(table.on_taken(id, 0, OutputKind::kText));
}

TEST_F(RequestTableTest, CreditIsNotReturnedToAnEndedStage) {
  const uint64_t id = add();
  text(id, "1");
  end(id, 0);
  EXPECT_FALSE(table.on_taken(id, 0, OutputKind::kText));
  EXPECT_FALSE(table.on_taken(id, 0, OutputKind::kText));  // never below zero
}

TEST_F(RequestTableTest, UnwantedKindGivesItsCreditBack) {
  const uint64_t id = add(2);
  EXPECT_TRUE(text(id, "not wanted"));
  EXPECT_TRUE(sink->events.empty());
}

TEST_F(RequestTableTest, OutputAfterTheStagesEndIsAnError) {
  const uint64_t id = add();
  end(id, 0);
  text(id, "zombie");
  EXPECT_EQ(sink->last().status.code(), StatusCode::kProtocol);
  EXPECT_EQ(sink->finals(id), 1);
}

// Random histories: whatever happens in whatever order, one FINAL each, last, sequences without
// gaps.
TEST_F(RequestTableTest, RandomHistoriesEndExactlyOnce) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    sink->events.clear();
    aborts.clear();
    std::mt19937 random(seed);
    std::vector<uint64_t> ids;
    int64_t now = 1;
    for (int step = 0; step < 60; ++step, now += 10) {
      const uint64_t id = ids.empty() ? 0 : ids[random() % ids.size()];
      switch (random() % 9) {
        case 0:
        case 1: {
          if (table.inflight() < 4)
            ids.push_back(add(1 + random() % 3, random() % 2 ? now + random() % 200 : 0));
          break;
        }
        case 2:
          text(id, "t");
          break;
        case 3:
          audio(id);
          break;
        case 4:
          end(id, 0);
          break;
        case 5:
          end(id, 2);
          break;
        case 6:
          table.on_taken(id, random() % 3, OutputKind::kText);
          break;
        case 7:
          if (random() % 3 == 0)
            table.on_stage_death(random() % 3, Status(StatusCode::kStageDied, "d"), now);
          else
            (void)table.cancel(id, sink.get(), now);
          break;
        case 8:
          table.expire(now);
          break;
      }
    }
    table.end_all(Status(StatusCode::kClosed, "end"), now);
    for (uint64_t id : ids) {
      ASSERT_EQ(sink->finals(id), 1) << "seed " << seed;
      uint64_t next = 0;
      bool over = false;
      for (const OutputEvent& event : sink->events) {
        if (event.request != id) continue;
        ASSERT_FALSE(over) << "seed " << seed;
        ASSERT_EQ(event.sequence, next++) << "seed " << seed;
        over = event.final;
      }
    }
    ASSERT_EQ(table.inflight(), 0u);
    ASSERT_EQ(table.next_deadline_ns(), kNever);
  }
  const TableStats& stats = table.stats();
  EXPECT_EQ(stats.submitted, stats.finished + stats.cancelled + stats.failed);
}

}  // namespace
}  // namespace omnistage::capi
