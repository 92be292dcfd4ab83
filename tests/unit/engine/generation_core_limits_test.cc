// GenerationCore when something goes wrong or somebody is slow: contract violations, model errors,
// blocked outputs, deadlines, aborts, full queues.
#include <gtest/gtest.h>

#include "stage_proc/engine/generation_core.h"
#include "stage_proc/models/echo/echo.h"
#include "tests/unit/engine/recording_sink.h"

namespace omnistage {
namespace {

using engine::EntryInput;
using engine::GenerationCore;
using engine::GenerationCoreConfig;
using engine::RequestHeader;
using engine::StageChunk;
using testing::key;
using testing::RecordingSink;

std::unique_ptr<GenerationCore> make_core(GenerationCoreConfig config = {},
                                          const std::string& family = "echo") {
  static HeapAllocator heap;
  models::GenerationModelOptions options;
  options.family = family;
  auto model = models::make_echo_model(options);
  EXPECT_TRUE(model.ok());
  auto core = GenerationCore::create(std::move(model).value(), heap, config);
  EXPECT_TRUE(core.ok()) << core.status().to_string();
  return core.ok() ? std::move(core).value() : nullptr;
}

RequestHeader header(uint64_t request, uint32_t generation = 0) {
  RequestHeader h;
  h.key = key(request, generation);
  return h;
}

StageChunk chunk(const RequestHeader& h, uint32_t number, const std::string& text,
                 bool finished = false) {
  StageChunk c;
  c.key = h.key;
  c.number = number;
  c.finished = finished;
  if (number == 0) c.header = h;
  if (!text.empty()) c.payload["text"] = text;
  return c;
}

EntryInput long_text() {
  EntryInput input;
  input.text = std::string(400, 'x');
  return input;
}

TEST(GenerationCoreContract, ViolationsEndOnlyThatRequest) {
  auto core = make_core();
  RecordingSink sink;
  core->chunk(chunk(header(1), 0, "good "), 0);
  core->chunk(chunk(header(2), 0, "bad"), 0);
  core->chunk(chunk(header(2), 2, "gap"), 0);
  StageChunk bare = chunk(header(3), 0, "no header");
  bare.header.reset();
  core->chunk(bare, 0);
  core->chunk(chunk(header(4), 0, "twice", true), 0);
  core->chunk(chunk(header(4), 1, "twice", true), 0);
  testing::drain(*core, sink);
  core->chunk(chunk(header(1), 1, "and done", true), 0);
  core->chunk(chunk(header(2), 3, "late"), 0);
  core->chunk(chunk(header(3), 0, "late"), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].text, "good and done");
  EXPECT_TRUE(sink[key(1)].ends[0].status.ok());
  for (uint64_t i : {2, 3, 4}) {
    ASSERT_EQ(sink[key(i)].ends.size(), 1u) << i;
    EXPECT_EQ(sink[key(i)].ends[0].status.code(), StatusCode::kProtocol);
  }
  EXPECT_EQ(core->stats().dropped_late_chunks, 2u);
}

TEST(GenerationCoreContract, AModelErrorKeepsItsMessage) {
  auto core = make_core();
  RecordingSink sink;
  StageChunk wrong = chunk(header(1), 0, "");
  wrong.payload["text"] = int64_t{5};
  core->chunk(wrong, 0);
  core->chunk(chunk(header(2), 0, "fine", true), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].ends[0].status.message(), "payload entry 'text' must be a string");
  EXPECT_EQ(sink[key(2)].text, "fine");
}

TEST(GenerationCoreContract, ANewerGenerationReplacesTheOlder) {
  auto core = make_core();
  RecordingSink sink;
  core->chunk(chunk(header(1, 0), 0, "old"), 0);
  testing::drain(*core, sink);
  core->chunk(chunk(header(1, 1), 0, "new", true), 0);
  core->chunk(chunk(header(1, 0), 1, "late", true), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1, 0)].ends[0].status.code(), StatusCode::kCancelled);
  EXPECT_EQ(sink[key(1, 1)].text, "new");
  EXPECT_EQ(core->stats().dropped_late_chunks, 1u);
}

TEST(GenerationCoreContract, ChunksAfterTheEndAreLate) {
  auto core = make_core();
  RecordingSink sink;
  core->chunk(chunk(header(1), 0, "all", true), 0);
  testing::drain(*core, sink);
  ASSERT_TRUE(sink[key(1)].ended());
  core->chunk(chunk(header(1), 0, "again", true), 0);
  core->chunk(chunk(header(1), 1, "more", true), 0);
  EXPECT_FALSE(core->has_work());
  EXPECT_EQ(core->stats().dropped_late_chunks, 2u);
  EXPECT_EQ(core->begin(header(1), long_text(), 0).code(), StatusCode::kCancelled);
}

TEST(GenerationCoreContract, OneRequestCannotComeFromTwoSides) {
  auto core = make_core();
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1), long_text(), 0).ok());
  EXPECT_NE(core->begin(header(1), long_text(), 0).message().find("already live"),
            std::string::npos);
  core->chunk(chunk(header(1), 0, "x"), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].ends[0].status.code(), StatusCode::kProtocol);
  EXPECT_EQ(core->stats().running + core->stats().waiting, 0u);
}

TEST(GenerationCoreContract, BadEntriesAreRefused) {
  auto core = make_core();
  EXPECT_EQ(core->begin(header(1), {}, 0).code(), StatusCode::kInvalid);
  EntryInput big;
  big.text = std::string(49153, 'x');
  EXPECT_NE(core->begin(header(1), big, 0).message().find("at most 49152 bytes"),
            std::string::npos);
  EXPECT_FALSE(core->has_work());
  auto expect = [](auto change, const std::string& text) {
    static HeapAllocator heap;
    GenerationCoreConfig config;
    change(config);
    Status status = GenerationCore::create(nullptr, heap, config).status();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  expect([](auto& c) { c.max_num_seqs = 0; }, "max_num_seqs must be in [1, 1024], got 0");
  expect([](auto& c) { c.max_open_streams = 7; }, "max_open_streams must be in [8, 4096], got 7");
  expect([](auto& c) { c.max_waiting = 0; }, "max_waiting");
  expect([](auto& c) { c.max_queued_chunks = 0; }, "max_queued_chunks");
}

TEST(GenerationCoreQueues, SlotsGoInOrderOfArrivalAndTheQueueIsBounded) {
  GenerationCoreConfig config;
  config.max_num_seqs = 2;
  config.max_waiting = 3;
  auto core = make_core(config);
  RecordingSink sink;
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(core->begin(header(i), long_text(), 0).ok());
  core->step(1, sink);
  for (uint64_t i = 2; i < 5; ++i) core->chunk(chunk(header(i), 0, "abc", true), 0);
  core->step(1, sink);
  EXPECT_EQ(core->stats().running, 2u);
  EXPECT_EQ(core->stats().waiting, 3u);
  Status full = core->begin(header(5), long_text(), 0);
  EXPECT_EQ(full.code(), StatusCode::kFull);
  EXPECT_NE(full.message().find("the limit is 3"), std::string::npos);
  core->chunk(chunk(header(6), 0, "abc", true), 0);
  core->step(1, sink);
  EXPECT_EQ(sink[key(6)].ends[0].status.code(), StatusCode::kFull);
  testing::drain(*core, sink);
  for (uint64_t i = 2; i < 5; ++i) EXPECT_EQ(sink[key(i)].text, "abc");
}

TEST(GenerationCoreQueues, InputOfOneRequestIsBounded) {
  GenerationCoreConfig config;
  config.max_queued_chunks = 3;
  auto core = make_core(config);
  RecordingSink sink;
  sink.blocked.insert(key(1));
  for (uint32_t i = 0; i < 3; ++i) core->chunk(chunk(header(1), i, "x"), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(core->queued_chunks(key(1)), 3u);
  core->chunk(chunk(header(1), 3, ""), 0);  // an empty chunk takes no room
  EXPECT_FALSE(core->has_work());
  core->chunk(chunk(header(1), 4, "x"), 0);
  EXPECT_EQ(core->queued_chunks(key(1)), 0u);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].ends[0].status.code(), StatusCode::kFull);
}

TEST(GenerationCoreBlocked, OnlyTheBlockedRequestWaits) {
  GenerationCoreConfig config;
  config.max_num_seqs = 1;
  config.max_open_streams = 2;
  auto core = make_core(config);
  RecordingSink sink;
  ASSERT_TRUE(core->begin(header(1), long_text(), 0).ok());
  core->step(1, sink);
  sink.blocked.insert(key(1));
  ASSERT_TRUE(core->begin(header(2), long_text(), 0).ok());
  ASSERT_TRUE(core->begin(header(3), long_text(), 0).ok());
  testing::drain(*core, sink);
  EXPECT_TRUE(sink[key(2)].ended() && sink[key(3)].ended());
  EXPECT_EQ(core->stats().blocked, 1u);
  EXPECT_EQ(sink[key(1)].text.size(), 8u);
  sink.blocked.clear();
  core->step(1, sink);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(1)].text, std::string(400, 'x'));
}

TEST(GenerationCoreDeadline, EndsTheRequestInEveryState) {
  GenerationCoreConfig config;
  config.max_num_seqs = 2;
  config.max_open_streams = 2;
  auto core = make_core(config);
  RecordingSink sink;
  for (uint64_t i = 1; i <= 3; ++i) {
    RequestHeader h = header(i);
    h.deadline_ns = 100;
    if (i == 2) {  // open, nothing to do
      core->chunk(chunk(h, 0, "abc"), 0);
    } else {
      ASSERT_TRUE(core->begin(h, long_text(), 0).ok());
    }
  }
  EXPECT_EQ(core->next_deadline_ns(), 100);
  core->step(1, sink);
  core->step(100, sink);
  EXPECT_NE(sink[key(1)].ends[0].status.message().find("being generated"), std::string::npos);
  EXPECT_NE(sink[key(2)].ends[0].status.message().find("waiting for the stage before"),
            std::string::npos);
  EXPECT_NE(sink[key(3)].ends[0].status.message().find("waiting for its turn"), std::string::npos);
  EXPECT_EQ(core->next_deadline_ns(), kNever);
  EXPECT_FALSE(core->has_work());
}

TEST(GenerationCoreAbort, RemovesAtOnceAndLateChunksAreCounted) {
  GenerationCoreConfig config;
  config.max_num_seqs = 1;
  auto core = make_core(config);
  RecordingSink sink;
  core->chunk(chunk(header(1), 0, "running"), 0);
  core->chunk(chunk(header(2), 0, "waiting"), 0);
  core->step(1, sink);
  core->chunk(chunk(header(3), 0, "abc"), 0);
  core->chunk(chunk(header(3), 7, "violation"), 0);  // its end is due
  for (uint64_t i : {1, 2, 3, 4}) {
    core->abort(key(i));
    core->abort(key(i));
    sink.removed.insert(key(i));
  }
  core->chunk(chunk(header(1), 1, "late"), 0);
  core->chunk(chunk(header(4), 0, "late"), 0);
  EXPECT_EQ(core->begin(header(4), long_text(), 0).code(), StatusCode::kCancelled);
  testing::drain(*core, sink);
  EXPECT_EQ(core->stats().dropped_late_chunks, 2u);
  EXPECT_EQ(core->stats().running + core->stats().waiting, 0u);
  core->chunk(chunk(header(5), 0, "next", true), 0);
  testing::drain(*core, sink);
  EXPECT_EQ(sink[key(5)].text, "next");
}

}  // namespace
}  // namespace omnistage
