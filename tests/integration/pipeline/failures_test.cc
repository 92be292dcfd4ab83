// Death of single processes: who notices, who goes on, what comes back.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/integration/pipeline/raw_client.h"

namespace omnistage::test {
namespace {

using wire::StageState;

constexpr std::map<std::string, std::string>::size_type kStages = 3;

Ask endless() {
  return {.text = "forever ", .extra = {{"echo_repeat", "1000000"}}};
}

std::vector<pid_t> pids(const RawClient& client) {
  std::vector<pid_t> out;
  for (uint32_t i = 0; i < kStages; ++i) out.push_back(client.stage(i).pid);
  return out;
}

// Kills one stage in the middle of requests; everything about it must be told, and it must come
// back.
void kill_stage_and_recover(RawClient& client, uint32_t victim) {
  SCOPED_TRACE("victim " + std::to_string(victim));
  const uint64_t running = client.submit(endless());
  ASSERT_TRUE(wait_until(
      [&] {
        const Answer& answer = client.answer(running);
        return !answer.text.empty() && !answer.audio.empty();
      },
      [&] { client.pump(); }));
  const std::vector<pid_t> before = pids(client);
  const uint32_t epoch = client.stage(victim).epoch;
  const size_t history = client.history().size();
  ASSERT_EQ(::kill(before[victim], SIGKILL), 0);
  ASSERT_TRUE(client.wait_state(victim, StageState::Ready, epoch + 1));
  const control::Stage& dead = client.history()[history];
  EXPECT_EQ(dead.index, victim);
  EXPECT_EQ(dead.state, StageState::Dead);
  EXPECT_EQ(dead.epoch, epoch);
  EXPECT_NE(dead.message.find("signal 9"), std::string::npos) << dead.message;
  const std::vector<pid_t> after = pids(client);
  for (uint32_t i = 0; i < kStages; ++i) {
    if (i == victim) {
      EXPECT_NE(after[i], before[i]);
    } else {
      EXPECT_EQ(after[i], before[i]) << "stage " << i << " had nothing to do with it";
    }
  }
  EXPECT_EQ(client.stage(victim).restarts, epoch);
  client.abort(running);  // what the library does with a request whose stage died
  const Answer fresh = client.ask({.text = "after the crash"});
  EXPECT_TRUE(fresh.errors.empty()) << fresh.errors[0].message();
  EXPECT_EQ(fresh.text, "after the crash");
  EXPECT_EQ(fresh.audio.size(), 15u * 1200);
}

TEST(Failures, EachStageKilledInTurn) {
  auto client = RawClient::launch(echo_deploy());
  ASSERT_TRUE(client->wait_ready());
  for (uint32_t victim = 0; victim < kStages; ++victim) kill_stage_and_recover(*client, victim);
}

// The neighbour notices by itself and says so, without the supervisor's help.
TEST(Failures, ErrorNamesTheDeadStage) {
  auto client = RawClient::launch(echo_deploy());
  ASSERT_TRUE(client->wait_ready());
  for (uint32_t victim : {1u, 2u}) {
    const uint64_t running = client->submit(endless());
    ASSERT_TRUE(wait_until([&] { return !client->answer(running).audio.empty(); },
                           [&] { client->pump(); }));
    const uint32_t epoch = client->stage(victim).epoch;
    const std::string name = client->stage(victim).name;
    ASSERT_EQ(::kill(client->stage(victim).pid, SIGKILL), 0);
    if (victim == 1) {  // head and tail both see it; the first error counts
      ASSERT_TRUE(client->wait_done(running));
      const Status& error = client->answer(running).errors[0];
      EXPECT_EQ(error.code(), StatusCode::kStageDied);
      EXPECT_NE(error.message().find("'" + name + "'"), std::string::npos) << error.message();
    }
    ASSERT_TRUE(client->wait_state(victim, StageState::Ready, epoch + 1));
    client->abort(running);
  }
}

TEST(Failures, OtherRequestsDoNotNotice) {
  auto client = RawClient::launch(echo_deploy());
  ASSERT_TRUE(client->wait_ready());
  const std::string text(4000, 'q');
  const uint64_t text_only = client->submit({.text = text, .modalities = engine::kModalityText});
  const uint64_t running = client->submit(endless());
  ASSERT_TRUE(
      wait_until([&] { return !client->answer(running).audio.empty(); }, [&] { client->pump(); }));
  ASSERT_EQ(::kill(client->stage(2).pid, SIGKILL), 0);
  ASSERT_TRUE(client->wait_done(text_only));
  EXPECT_TRUE(client->answer(text_only).errors.empty());
  EXPECT_EQ(client->answer(text_only).text, text);
  ASSERT_TRUE(client->wait_state(2, StageState::Ready, 2));
}

TEST(Failures, BudgetUsedUpIsFailedAndTheRestGoesOn) {
  TemporaryFolder folder;
  const std::string deploy = folder.write("deploy.yaml",
                                          "pipeline: echo\n"
                                          "stages:\n"
                                          "  - stage_id: 0\n"
                                          "  - stage_id: 1\n"
                                          "  - stage_id: 2\n"
                                          "    restart: {max_restarts: 1, backoff_ms: 1}\n");
  auto client = RawClient::launch(deploy);
  ASSERT_TRUE(client->wait_ready());
  ASSERT_EQ(::kill(client->stage(2).pid, SIGKILL), 0);
  ASSERT_TRUE(client->wait_state(2, StageState::Ready, 2));
  ASSERT_EQ(::kill(client->stage(2).pid, SIGKILL), 0);
  ASSERT_TRUE(client->wait_state(2, StageState::Failed));
  EXPECT_NE(client->stage(2).message.find("1 restarts in 60 s"), std::string::npos)
      << client->stage(2).message;
  const Answer text = client->ask({.text = "text", .modalities = engine::kModalityText});
  EXPECT_EQ(text.text, "text");
  // Audio cannot be made; the error says why. The middle stage forwards nothing, so its error
  // travels to nobody but the state of the stage has been told.
  EXPECT_EQ(client->stage(2).state, StageState::Failed);
}

TEST(Failures, StageThatCannotLoadItsModelFailsWithTheReason) {
  TemporaryFolder folder;
  folder.write("empty/readme.txt", "no weights here");
  const std::string deploy = folder.write("deploy.yaml",
                                          "pipeline: speak\n"
                                          "stages:\n"
                                          "  - stage_id: 0\n"
                                          "    model: ./empty\n"
                                          "  - stage_id: 1\n"
                                          "    model: ./empty\n"
                                          "  - stage_id: 2\n"
                                          "    model: ./empty\n");
  auto client = RawClient::launch(deploy);
  ASSERT_TRUE(client->wait_state(0, StageState::Failed)) << client->refused().message();
  EXPECT_NE(client->stage(0).message.find("empty"), std::string::npos) << client->stage(0).message;
  EXPECT_EQ(client->stage(0).restarts, 0u);
}

TEST(Failures, BadConfigurationIsRefusedWithItsReason) {
  TemporaryFolder folder;
  const std::string deploy =
      folder.write("deploy.yaml", "pipeline: echo\nstagess: 4\nstages:\n  - stage_id: 0\n");
  auto client = RawClient::launch(deploy);
  ASSERT_TRUE(wait_until([&] { return client->closed(); }, [&] { client->pump(); }));
  EXPECT_NE(client->refused().message().find("stagess"), std::string::npos)
      << client->refused().message();
  EXPECT_EQ(wait_exit(client->supervisor()), 2);
  client->forget_supervisor();
}

TEST(Failures, HostileRecordsCutOffOnlyTheirSender) {
  TemporaryFolder folder;
  const std::string mark = new_mark();
  const std::string dir = folder.path() + "/run";
  const pid_t supervisor = start_supervisor({"--deploy", echo_deploy(), "--run-dir", dir}, mark);
  auto good = RawClient::attach(dir);
  auto bad = RawClient::attach(dir);
  ASSERT_TRUE(good->wait_ready());
  ASSERT_TRUE(bad->wait_ready());
  const std::vector<std::byte> noise(100, std::byte{0xEE});
  const uint16_t kinds[] = {0x100, 0x101, 0x102, 0x103, 0x110, 0x111, 0x1FF};
  for (uint16_t kind : kinds) {
    SCOPED_TRACE(kind);
    auto attacker = RawClient::attach(dir);
    ASSERT_TRUE(attacker->wait_ready());
    ASSERT_EQ(attacker->link(0)->try_send(kind, noise), shm::SendResult::kOk);
    EXPECT_TRUE(
        wait_until([&] { return attacker->link(0)->peer_dead(); }, [&] { attacker->pump(); }));
    EXPECT_EQ(good->ask({.text = "fine"}).text, "fine");
  }
  // A request in the name of another client.
  transfer::Encoder encoder;
  transfer::SubmitRecord record;
  record.header.request.key = {good->id(), 0, 999};
  record.header.output_credit = 8;
  record.input.text = "forged";
  ASSERT_EQ(bad->link(0)->try_send(transfer::kRecordSubmit, *encoder.submit(record)),
            shm::SendResult::kOk);
  EXPECT_TRUE(wait_until([&] { return bad->link(0)->peer_dead(); }, [&] { bad->pump(); }));
  EXPECT_EQ(good->ask({.text = "fine"}).text, "fine");
  for (uint32_t i = 0; i < kStages; ++i) EXPECT_EQ(good->stage(i).epoch, 1u);
  ::kill(supervisor, SIGTERM);
  EXPECT_EQ(wait_exit(supervisor), 0);
  EXPECT_TRUE(wait_gone(mark));
}

}  // namespace
}  // namespace omnistage::test
