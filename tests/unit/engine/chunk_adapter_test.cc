// Chunk adapter: numbers, headers, terminals, late chunks, generations.
#include "stage_proc/transfer/chunk_adapter.h"

#include <gtest/gtest.h>

namespace omnistage::transfer {
namespace {

using engine::RequestHeader;
using engine::StageChunk;

RequestKey key(uint64_t request, uint32_t generation = 0) {
  return {1, generation, request};
}

StageChunk chunk(const RequestKey& k, uint32_t number, bool finished = false) {
  StageChunk c;
  c.key = k;
  c.number = number;
  c.finished = finished;
  if (number == 0) {
    c.header.emplace();
    c.header->key = k;
  }
  return c;
}

TEST(ChunkSender, NumbersHeaderAndTerminal) {
  RequestHeader header;
  header.key = key(5);
  header.extra["voice"] = "a";
  ChunkSender sender(header);
  StageChunk first = sender.make({{"text", std::string("x")}}, false);
  StageChunk empty = sender.make({}, false);
  StageChunk last = sender.make({}, true);
  EXPECT_EQ(first.number, 0u);
  ASSERT_TRUE(first.header.has_value());
  EXPECT_EQ(first.header->extra.at("voice"), "a");
  EXPECT_EQ(empty.number, 1u);
  EXPECT_FALSE(empty.header.has_value());
  EXPECT_FALSE(empty.finished);
  EXPECT_TRUE(last.finished);
  EXPECT_TRUE(sender.finished());
  EXPECT_EQ(sender.sent(), 3u);
  EXPECT_DEATH((void)sender.make({}, true), "after the terminal");
}

TEST(ChunkReceiver, AcceptsAWholeStream) {
  ChunkReceiver receiver;
  EXPECT_EQ(receiver.check(chunk(key(1), 0)).verdict, ChunkVerdict::kFirst);
  EXPECT_EQ(receiver.check(chunk(key(2), 0, true)).verdict, ChunkVerdict::kFirst);
  EXPECT_EQ(receiver.check(chunk(key(1), 1)).verdict, ChunkVerdict::kNext);
  EXPECT_EQ(receiver.check(chunk(key(1), 2, true)).verdict, ChunkVerdict::kNext);
  EXPECT_EQ(receiver.live(), 2u);
}

void expect_violation(ChunkReceiver& receiver, const StageChunk& c, const std::string& text) {
  ChunkCheck check = receiver.check(c);
  EXPECT_EQ(check.verdict, ChunkVerdict::kViolation) << text;
  EXPECT_EQ(check.status.code(), StatusCode::kProtocol);
  EXPECT_NE(check.status.message().find(text), std::string::npos) << check.status.message();
}

TEST(ChunkReceiver, ViolationsNameTheRule) {
  ChunkReceiver receiver;
  StageChunk bare = chunk(key(1), 0);
  bare.header.reset();
  expect_violation(receiver, bare, "number 0 has no header");
  StageChunk foreign = chunk(key(1), 0);
  foreign.header->key = key(9);
  expect_violation(receiver, foreign, "the header names request 1/9#0");
  EXPECT_EQ(receiver.live(), 0u);

  ASSERT_EQ(receiver.check(chunk(key(2), 0)).verdict, ChunkVerdict::kFirst);
  expect_violation(receiver, chunk(key(2), 2), "expected number 1, got 2");
  expect_violation(receiver, chunk(key(2), 0), "expected number 1, got 0");
  StageChunk again = chunk(key(2), 1);
  again.header.emplace();
  expect_violation(receiver, again, "header again at number 1");

  ASSERT_EQ(receiver.check(chunk(key(3), 0, true)).verdict, ChunkVerdict::kFirst);
  expect_violation(receiver, chunk(key(3), 1, true), "second terminal");
  expect_violation(receiver, chunk(key(3), 1), "after the terminal");
}

TEST(ChunkReceiver, LateChunksAreDropped) {
  ChunkReceiver receiver;
  EXPECT_EQ(receiver.check(chunk(key(1), 4)).verdict, ChunkVerdict::kLate);
  receiver.close(key(2));  // aborted before it came
  EXPECT_EQ(receiver.check(chunk(key(2), 0)).verdict, ChunkVerdict::kLate);
  ASSERT_EQ(receiver.check(chunk(key(3), 0)).verdict, ChunkVerdict::kFirst);
  receiver.close(key(3));
  receiver.close(key(3));
  EXPECT_EQ(receiver.check(chunk(key(3), 1)).verdict, ChunkVerdict::kLate);
  EXPECT_EQ(receiver.live(), 0u);
}

TEST(ChunkReceiver, ANewerGenerationReplacesTheOlder) {
  ChunkReceiver receiver;
  ASSERT_EQ(receiver.check(chunk(key(1, 0), 0)).verdict, ChunkVerdict::kFirst);
  ChunkCheck check = receiver.check(chunk(key(1, 2), 0));
  EXPECT_EQ(check.verdict, ChunkVerdict::kFirst);
  ASSERT_TRUE(check.superseded.has_value());
  EXPECT_EQ(*check.superseded, key(1, 0));
  receiver.close(*check.superseded);
  EXPECT_EQ(receiver.check(chunk(key(1, 0), 1)).verdict, ChunkVerdict::kLate);
  EXPECT_EQ(receiver.check(chunk(key(1, 1), 0)).verdict, ChunkVerdict::kLate);
  EXPECT_EQ(receiver.check(chunk(key(1, 2), 1)).verdict, ChunkVerdict::kNext);
  receiver.close(key(1, 2));
  EXPECT_EQ(receiver.check(chunk(key(1, 1), 0)).verdict, ChunkVerdict::kLate);
  EXPECT_EQ(receiver.check(chunk(key(1, 3), 0)).verdict, ChunkVerdict::kFirst);
}

TEST(Tombstones, AreBoundedAndForgetTheOldest) {
  Tombstones over(3);
  for (uint64_t i = 0; i < 5; ++i) {
    over.add(key(i));
    over.add(key(i));
    EXPECT_LE(over.size(), 3u);
  }
  EXPECT_FALSE(over.contains(key(1)));
  EXPECT_TRUE(over.contains(key(2)));
  over.add(key(2, 7));
  EXPECT_EQ(over.size(), 3u);
  EXPECT_TRUE(over.contains(key(2, 7)));
  EXPECT_FALSE(over.contains(key(2, 8)));
}

}  // namespace
}  // namespace omnistage::transfer
