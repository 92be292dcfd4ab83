// ArCore when something is short or somebody leaves: preemption, blocked outputs, deadlines,
// aborts.
#include <gtest/gtest.h>

#include "stage_proc/engine/ar_core.h"
#include "tests/unit/engine/recording_sink.h"
#include "tests/unit/engine/toy_model.h"

namespace omnistage {
namespace {

using engine::ArCore;
using engine::ArCoreConfig;
using engine::EntryInput;
using engine::RequestHeader;
using testing::key;
using testing::RecordingSink;
using testing::ToyModel;

RequestHeader header(uint64_t request, int32_t max_tokens) {
  RequestHeader h;
  h.key = key(request);
  h.sampling.max_tokens = max_tokens;
  h.sampling.seed = request;
  return h;
}

EntryInput ids(size_t count, int32_t first) {
  EntryInput input;
  for (size_t i = 0; i < count; ++i)
    input.token_ids.push_back(first + static_cast<int32_t>(i % 40));
  return input;
}

std::shared_ptr<ToyModel> endless() {
  return std::make_shared<ToyModel>(testing::ToyOptions{.max_model_len = 64, .eos_bias = -40});
}

std::unique_ptr<ArCore> make_core(std::shared_ptr<ToyModel> model, ArCoreConfig config) {
  auto core = ArCore::create(std::move(model), config);
  EXPECT_TRUE(core.ok()) << core.status().to_string();
  return core.ok() ? std::move(core).value() : nullptr;
}

std::vector<int32_t> solo(uint64_t request, int32_t max_tokens, const EntryInput& input) {
  auto core = make_core(endless(), {});
  RecordingSink sink;
  EXPECT_TRUE(core->begin(header(request, max_tokens), input, 0).ok());
  testing::drain(*core, sink);
  return sink[key(request)].token_ids;
}

TEST(ArCorePreemption, StreamsAreTheSameAndNothingIsEmittedTwice) {
  ArCoreConfig config;
  config.max_num_seqs = 4;
  config.block_size = 4;
  config.num_blocks = 16;  // one full context
  config.max_num_batched_tokens = 16;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  for (uint64_t i = 0; i < 4; ++i)
    ASSERT_TRUE(core->begin(header(i, 30), ids(10, static_cast<int32_t>(40 + i)), 0).ok());
  testing::drain(*core, sink);
  EXPECT_GT(core->preemptions(), 0u);
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(sink[key(i)].token_ids, solo(i, 30, ids(10, static_cast<int32_t>(40 + i)))) << i;
  EXPECT_EQ(core->pool().used(), 0);
  core->pool().check_invariants();
}

TEST(ArCorePreemption, TheOldestIsNeverTheVictim) {
  ArCoreConfig config;
  config.max_num_seqs = 3;
  config.block_size = 4;
  config.num_blocks = 16;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(core->begin(header(i, 50), ids(14, 50), 0).ok());
  while (!sink[key(0)].ended()) {
    const size_t before = sink[key(0)].token_ids.size();
    core->step(1, sink);
    // Text may wait for the rest of a character, so tokens are looked at over the end too.
    EXPECT_GE(sink[key(0)].token_ids.size(), before);
    ASSERT_LT(core->stats().steps, 60u) << "50 tokens of the oldest request take about 50 steps";
  }
  testing::drain(*core, sink);
}

TEST(ArCoreBlocked, OnlyTheBlockedRequestWaitsAndItsSlotIsFree) {
  ArCoreConfig config;
  config.max_num_seqs = 1;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1, 20), ids(5, 50), 0).ok());
  for (int i = 0; i < 6; ++i) core->step(1, sink);
  sink.blocked.insert(key(1));
  const size_t before = sink[key(1)].outputs;
  ASSERT_TRUE(core->begin(header(2, 20), ids(5, 60), 0).ok());
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].outputs, before);
  EXPECT_TRUE(sink[key(2)].ended());
  EXPECT_FALSE(core->has_work());
  EXPECT_EQ(core->stats().blocked, 1u);
  EXPECT_GT(core->pool().used(), 0) << "a blocked request keeps its cache while nobody needs it";
  sink.blocked.clear();
  core->step(1, sink);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].token_ids, solo(1, 20, ids(5, 50)));
  EXPECT_EQ(core->preemptions(), 0u);
}

TEST(ArCoreBlocked, ABlockedRequestGivesItsMemoryToOthers) {
  ArCoreConfig config;
  config.max_num_seqs = 2;
  config.block_size = 4;
  config.num_blocks = 16;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1, 30), ids(30, 50), 0).ok());
  for (int i = 0; i < 6; ++i) core->step(1, sink);
  sink.blocked.insert(key(1));
  ASSERT_TRUE(core->begin(header(2, 20), ids(40, 60), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(2)].ended());
  EXPECT_EQ(core->preemptions(), 1u);
  EXPECT_EQ(core->pool().used(), 0);
  sink.blocked.clear();
  core->step(1, sink);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].token_ids, solo(1, 30, ids(30, 50)));
}

TEST(ArCoreBlocked, ABlockedRequestAtTheHeadOfTheQueueIsPassedBy) {
  auto core = make_core(endless(), {});
  RecordingSink sink;
  sink.blocked.insert(key(1));
  ASSERT_TRUE(core->begin(header(1, 5), ids(5, 50), 0).ok());
  ASSERT_TRUE(core->begin(header(2, 5), ids(5, 50), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(2)].ended());
  EXPECT_FALSE(sink[key(1)].ended());
}

TEST(ArCoreBlocked, CreditThatComesWhileTheSlotsAreFullIsNotForgotten) {
  ArCoreConfig config;
  config.max_num_seqs = 1;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  sink.blocked.insert(key(1));
  ASSERT_TRUE(core->begin(header(1, 5), ids(5, 50), 0).ok());
  ASSERT_TRUE(core->begin(header(2, 9), ids(5, 50), 0).ok());
  core->step(1, sink);
  sink.blocked.clear();
  core->step(1, sink);  // request 2 has the only slot
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(2)].ended());
  EXPECT_TRUE(sink[key(1)].ended());
}

TEST(ArCoreDeadline, EndsTheRequestInEveryState) {
  ArCoreConfig config;
  config.max_num_seqs = 2;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  for (uint64_t i = 1; i <= 3; ++i) {
    RequestHeader h = header(i, 50);
    h.deadline_ns = 1000 + static_cast<int64_t>(i);
    ASSERT_TRUE(core->begin(h, ids(5, 50), 0).ok());
  }
  EXPECT_EQ(core->next_deadline_ns(), 1001);
  core->step(1, sink);
  sink.blocked.insert(key(2));
  core->step(2, sink);
  EXPECT_EQ(core->stats().running, 3u);  // 1 and 3 run, 2 is blocked
  ASSERT_TRUE(core->begin(header(4, 50), ids(5, 50), 0).ok());
  core->step(1001, sink);
  EXPECT_TRUE(sink[key(1)].ended());
  EXPECT_FALSE(sink[key(2)].ended());
  core->step(5000, sink);
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(sink[key(i)].ended()) << i;
    EXPECT_EQ(sink[key(i)].ends[0].status.code(), StatusCode::kDeadline);
  }
  EXPECT_NE(sink[key(2)].ends[0].status.message().find("output to be read"), std::string::npos);
  EXPECT_EQ(core->next_deadline_ns(), kNever);
  testing::drain(*core, sink, 6000);
  EXPECT_TRUE(sink[key(4)].ends[0].status.ok());
}

TEST(ArCoreAbort, RemovesAtOnceInEveryStateAndIsIdempotent) {
  ArCoreConfig config;
  config.max_num_seqs = 2;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(core->begin(header(i, 30), ids(5, 50), 0).ok());
  core->step(1, sink);
  sink.blocked.insert(key(2));
  core->step(1, sink);
  for (uint64_t i : {1, 2, 4}) {  // running, blocked, waiting
    core->abort(key(i));
    core->abort(key(i));
    sink.removed.insert(key(i));
  }
  core->abort(key(99));  // never seen
  EXPECT_EQ(core->begin(header(99, 5), ids(5, 50), 0).code(), StatusCode::kCancelled);
  EXPECT_EQ(core->begin(header(1, 5), ids(5, 50), 0).code(), StatusCode::kCancelled);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(3)].token_ids, solo(3, 30, ids(5, 50)));
  EXPECT_EQ(core->pool().used(), 0);
  // The next generation of the same request is welcome.
  RequestHeader again = header(1, 5);
  again.key.generation = 1;
  ASSERT_TRUE(core->begin(again, ids(5, 50), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[again.key].ended());
}

TEST(ArCoreAbort, ManyAbortsLeakNoSlot) {
  ArCoreConfig config;
  config.max_num_seqs = 2;
  auto core = make_core(endless(), config);
  RecordingSink sink;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(core->begin(header(i, 30), ids(5, 50), 0).ok());
    core->step(1, sink);
    core->abort(key(i));
  }
  ASSERT_TRUE(core->begin(header(100, 5), ids(5, 50), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(100)].ended());
  EXPECT_EQ(core->stats().running + core->stats().waiting, 0u);
}

}  // namespace
}  // namespace omnistage
