// Requests through three real processes: answers, flow control, aborts, errors.
#include <gtest/gtest.h>

#include "shm/base/clock.h"
#include "shm/base/limits.h"
#include "tests/integration/pipeline/raw_client.h"

namespace omnistage::test {
namespace {

constexpr size_t kSamplesPerCharacter = 1200;  // of family echo_audio

class Requests : public ::testing::Test {
 protected:
  void SetUp() override {
    client = RawClient::launch(echo_deploy());
    ASSERT_TRUE(client->wait_ready());
  }
  std::unique_ptr<RawClient> client;
};

std::string sample_text(int number) {
  std::string text = "Request " + std::to_string(number) + " says: ";
  for (int i = 0; i < 12 + number; ++i) text += static_cast<char>('a' + (i * 7 + number) % 26);
  return text;
}

TEST_F(Requests, RoundTripGivesTextAndAudio) {
  const std::string text = "Hello, caf\xC3\xA9 \xF0\x9F\x98\x80!";
  const Answer answer = client->ask({.text = text});
  EXPECT_TRUE(answer.errors.empty());
  EXPECT_EQ(answer.text, text);
  EXPECT_EQ(answer.audio.size(), 14 * kSamplesPerCharacter);
  EXPECT_TRUE(answer.positions_fit);
  ASSERT_EQ(answer.ends.size(), 2u);
  EXPECT_EQ(answer.ends.at(0).usage.output_tokens, 14u);
  EXPECT_EQ(answer.ends.at(2).usage.audio_samples, answer.audio.size());
  EXPECT_EQ(answer.late, 0u);
}

TEST_F(Requests, OnlyWantedOutputsCome) {
  Answer answer = client->ask({.text = "just text", .modalities = engine::kModalityText});
  EXPECT_EQ(answer.text, "just text");
  EXPECT_TRUE(answer.audio.empty());
  EXPECT_EQ(answer.ends.size(), 1u);
  answer = client->ask({.text = "just sound", .modalities = engine::kModalityAudio});
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.audio.size(), 10 * kSamplesPerCharacter);
  EXPECT_EQ(answer.ends.size(), 1u);
  answer = client->ask({.text = "a tensor", .modalities = engine::kModalityTensor});
  ASSERT_EQ(answer.errors.size(), 1u);
  EXPECT_EQ(answer.errors[0].code(), StatusCode::kInvalid);
}

TEST_F(Requests, EightAtOnceEqualEightAlone) {
  std::vector<Answer> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(client->ask({.text = sample_text(i)}));
  std::vector<uint64_t> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(client->submit({.text = sample_text(i)}));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(client->wait_done(ids[i]));
    const Answer& together = client->answer(ids[i]);
    EXPECT_EQ(together.text, sample_text(i));
    EXPECT_EQ(together.text, alone[i].text);
    EXPECT_EQ(together.audio, alone[i].audio);
    EXPECT_TRUE(together.positions_fit);
    EXPECT_TRUE(together.errors.empty());
  }
}

TEST_F(Requests, AbortEndsOneAndNotTheOther) {
  const uint64_t endless =
      client->submit({.text = "again ", .extra = {{"echo_repeat", "1000000"}}});
  const uint64_t other = client->submit({.text = sample_text(3)});
  ASSERT_TRUE(wait_until([&] { return client->answer(endless).text.size() > 60; },
                         [&] { client->pump(); }));
  client->abort(endless);
  ASSERT_TRUE(client->wait_done(other));
  EXPECT_EQ(client->answer(other).text, sample_text(3));
  // A request after it goes through all stages, so nothing of the aborted one can still be on its
  // way behind it.
  const Answer next = client->ask({.text = "next"});
  EXPECT_EQ(next.text, "next");
  const size_t heard = client->answer(endless).text.size();
  EXPECT_EQ(client->ask({.text = "and another"}).text, "and another");
  EXPECT_EQ(client->answer(endless).text.size(), heard);
  EXPECT_TRUE(client->answer(endless).ends.empty());
}

TEST_F(Requests, ManyAbortsLeaveRoomForMore) {
  for (int round = 0; round < 40; ++round) {
    const uint64_t id = client->submit({.text = "x", .extra = {{"echo_repeat", "1000000"}}});
    if (round % 2 == 0) client->pump();
    client->abort(id);
  }
  EXPECT_EQ(client->ask({.text = "still here"}).text, "still here");
}

TEST_F(Requests, WithoutCreditOnlyThatRequestWaits) {
  const std::string text(400, 'z');  // 50 pieces against a credit of 2
  const uint64_t slow = client->submit({.text = text, .credit = 2, .returns_credit = false});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(client->ask({.text = sample_text(i)}).text, sample_text(i));
  }
  EXPECT_EQ(client->answer(slow).text_pieces, 2u);
  EXPECT_EQ(client->answer(slow).audio.size() / kSamplesPerCharacter, 16u);
  EXPECT_FALSE(client->done(slow));
  client->return_credit(slow);
  ASSERT_TRUE(client->wait_done(slow));
  EXPECT_EQ(client->answer(slow).text, text);
  EXPECT_EQ(client->answer(slow).audio.size(), text.size() * kSamplesPerCharacter);
}

TEST_F(Requests, BadParametersNameFieldAndLimit) {
  Answer answer = client->ask({.text = "x", .extra = {{"echo_delay_ms", "many"}}});
  ASSERT_FALSE(answer.errors.empty());
  EXPECT_EQ(answer.errors[0].code(), StatusCode::kInvalid);
  EXPECT_NE(answer.errors[0].message().find("stage 'head'"), std::string::npos)
      << answer.errors[0].message();
  EXPECT_NE(answer.errors[0].message().find("echo_delay_ms"), std::string::npos);
  answer = client->ask({.text = std::string(limits::kTextInputBytesMax + 1, 'a')});
  ASSERT_FALSE(answer.errors.empty());
  EXPECT_NE(answer.errors[0].message().find("49152"), std::string::npos)
      << answer.errors[0].message();
  EXPECT_EQ(client->ask({.text = "good"}).text, "good");
}

TEST_F(Requests, DeadlineEndsWithItsError) {
  const Answer answer = client->ask({.text = "slowly",
                                     .extra = {{"echo_repeat", "1000000"}},
                                     .deadline_ns = monotonic_ns() + 200 * kMillisecond});
  ASSERT_FALSE(answer.errors.empty());
  EXPECT_EQ(answer.errors[0].code(), StatusCode::kDeadline) << answer.errors[0].message();
  EXPECT_EQ(client->ask({.text = "good"}).text, "good");
}

// The middle stage has no link to the client: its error travels with the chunks and names it.
TEST(MiddleStage, ErrorOfAStageWithoutClientLinkArrives) {
  TemporaryFolder folder;
  const std::string deploy =
      folder.write("deploy.yaml",
                   "pipeline: echo\n"
                   "stages:\n"
                   "  - stage_id: 0\n"
                   "  - {stage_id: 1, family: echo_sink}\n"  // cannot take text
                   "  - stage_id: 2\n");
  auto client = RawClient::launch(deploy);
  ASSERT_TRUE(client->wait_ready());
  for (int i = 0; i < 3; ++i) {
    const Answer answer = client->ask({.text = "hello", .modalities = engine::kModalityAudio});
    ASSERT_FALSE(answer.errors.empty());
    EXPECT_EQ(answer.errors[0].code(), StatusCode::kInvalid);
    EXPECT_EQ(answer.errors[0].message(), "stage 'middle': payload has no entry 'audio'");
    EXPECT_TRUE(answer.ends.contains(2)) << "told by the tail";
    EXPECT_EQ(client->ask({.text = "text", .modalities = engine::kModalityText}).text, "text");
  }
}

TEST_F(Requests, ManyRequestsInFlight) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(client->submit({.text = sample_text(i % 10)}));
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client->wait_done(ids[i]));
    ASSERT_TRUE(client->answer(ids[i]).errors.empty())
        << client->answer(ids[i]).errors[0].message();
    ASSERT_EQ(client->answer(ids[i]).text, sample_text(i % 10));
  }
}

}  // namespace
}  // namespace omnistage::test
