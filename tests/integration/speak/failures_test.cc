// Processes of the real pipeline die in the middle of an answer: one FINAL with the reason, what
// can come back comes back, and nothing is left behind.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "shm/base/clock.h"
#include "tests/integration/speak/speak_client.h"

namespace omnistage::test {
namespace {

class Failures : public ::testing::Test {
 protected:
  void SetUp() override {
    mark = mark_environment();
    shm_before = dev_shm();
    descriptors_before = open_descriptors(::getpid());
  }
  void TearDown() override {
    client.reset();
    EXPECT_TRUE(wait_gone(mark)) << marked_processes(mark).size() << " processes are left";
    for (const std::string& name : dev_shm()) {
      EXPECT_TRUE(shm_before.contains(name) || name.find("om") == std::string::npos) << name;
    }
    EXPECT_EQ(open_descriptors(::getpid()), descriptors_before);
  }
  void launch() {
    client = std::make_unique<SpeakClient>(Pipeline::launch(speak_deploy()));
    ASSERT_TRUE(client->wait_ready());
    ASSERT_EQ(marked_processes(mark).size(), 4u);
  }
  // Requests in the middle of long answers: sound of each has arrived.
  std::vector<oms_request_id> start_long(int count) {
    Question question;
    question.text = "Tell me a long story about a dog.";
    question.max_tokens = 1500;
    std::vector<oms_request_id> ids;
    for (int i = 0; i < count; ++i) ids.push_back(client->submit(question));
    for (oms_request_id id : ids) client->wait_audio(id, 1);
    return ids;
  }
  // The supervisor has put another process in the place of `victim`.
  bool wait_for_restart(uint32_t stage, pid_t victim) const {
    const int64_t until = monotonic_ns() + 60 * kSecond;
    while (monotonic_ns() < until) {
      const pid_t now = client->pipeline.stage(stage).pid;
      if (now > 0 && now != victim) return true;
      ::usleep(10'000);
    }
    return false;
  }
  // Never kill(-1, ...): that is every process.
  void signal_supervisor(int signal) const {
    for (pid_t pid : marked_processes(mark)) {
      std::string name;  // cut to 15 characters by the kernel
      std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
      if (name != std::string("omnistage-supervisor").substr(0, 15)) continue;
      ASSERT_EQ(::kill(pid, signal), 0);
      return;
    }
    FAIL() << "no supervisor carries " << mark;
  }

  std::unique_ptr<SpeakClient> client;
  std::string mark;
  std::set<std::string> shm_before;
  size_t descriptors_before = 0;
};

TEST_F(Failures, AKilledStageIsNamedAndComesBack) {
  launch();
  Question question;
  question.max_tokens = 8;
  const SpokenAnswer before = client->ask(question);
  expect_complete(before);
  const std::vector<std::string> names = {"thinker", "talker", "code2wav"};
  ASSERT_EQ(client->pipeline.stage_count(), names.size());
  for (uint32_t stage = 0; stage < names.size(); ++stage) {
    SCOPED_TRACE(names[stage]);
    const std::vector<oms_request_id> ids = start_long(2);
    const pid_t victim = client->pipeline.stage(stage).pid;
    ASSERT_GT(victim, 0);
    ASSERT_EQ(::kill(victim, SIGKILL), 0);
    client->collect(ids);
    for (oms_request_id id : ids) {
      const SpokenAnswer& answer = client->answers[id];
      EXPECT_EQ(answer.finals, 1);
      EXPECT_EQ(answer.final.status, OMS_E_STAGE_DIED) << answer.error.message;
      EXPECT_EQ(answer.final.stage_index, static_cast<int32_t>(stage));
      EXPECT_EQ(answer.error.stage_index, static_cast<int32_t>(stage));
      EXPECT_NE(std::string(answer.error.message).find("(" + names[stage] + ") died"),
                std::string::npos)
          << answer.error.message;
      EXPECT_EQ(answer.disorder, "");
    }
    // A neighbour may report the loss before the supervisor does: the stage still counts as ready
    // then.
    ASSERT_TRUE(wait_for_restart(stage, victim));
    ASSERT_TRUE(client->wait_ready());
    const SpokenAnswer after = client->ask(question);
    expect_complete(after);
    expect_same(after, before);
    EXPECT_EQ(client->pipeline.stage(stage).restarts, 1u);
    EXPECT_NE(client->pipeline.stage(stage).pid, victim);
  }
}

TEST_F(Failures, AKilledSupervisorEndsEverythingWithAReason) {
  launch();
  const std::vector<oms_request_id> ids = start_long(2);
  ASSERT_NO_FATAL_FAILURE(signal_supervisor(SIGKILL));
  client->collect(ids);
  for (oms_request_id id : ids) {
    const SpokenAnswer& answer = client->answers[id];
    EXPECT_EQ(answer.finals, 1);
    EXPECT_EQ(answer.final.status, OMS_E_CLOSED) << oms_status_name(answer.final.status);
    EXPECT_NE(std::string(answer.error.message).find("supervisor died: killed by signal 9"),
              std::string::npos)
        << answer.error.message;
  }
  EXPECT_TRUE(wait_gone(mark));
}

TEST_F(Failures, ATerminatedSupervisorEndsEverythingWithAReason) {
  launch();
  const std::vector<oms_request_id> ids = start_long(2);
  ASSERT_NO_FATAL_FAILURE(signal_supervisor(SIGTERM));
  client->collect(ids);
  for (oms_request_id id : ids) {
    const SpokenAnswer& answer = client->answers[id];
    EXPECT_EQ(answer.finals, 1);
    EXPECT_LT(answer.final.status, 0);
    EXPECT_NE(std::string(answer.error.message), "");
    EXPECT_EQ(std::string(answer.error.message).find("died"), std::string::npos)
        << "nothing died: " << answer.error.message;
    std::printf("supervisor told to end: %s: %s\n", oms_status_name(answer.final.status),
                answer.error.message);
  }
  EXPECT_TRUE(wait_gone(mark));
}

// A client in a process of its own that dies by `signal` in the middle of an answer.
class DyingClient : public Failures, public ::testing::WithParamInterface<int> {};

TEST_P(DyingClient, LeavesNothing) {
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    launch();
    if (client == nullptr) ::_exit(1);
    start_long(2);
    if (::write(told[1], "x", 1) != 1) ::_exit(1);
    while (client->take()) {
    }
    ::_exit(1);
  }
  ::close(told[1]);
  char byte = 0;
  EXPECT_EQ(::read(told[0], &byte, 1), 1) << "the client did not come as far as an answer";
  ::close(told[0]);
  EXPECT_EQ(marked_processes(mark).size(), 4u);  // the child itself was not started under the mark
  ::kill(child, GetParam());
  EXPECT_EQ(wait_exit(child), -GetParam());
  EXPECT_TRUE(wait_gone(mark));
}

INSTANTIATE_TEST_SUITE_P(By, DyingClient, ::testing::Values(SIGKILL, SIGTERM));

// What a person waits for on a second call, from the launch on; printed, not judged.
TEST_F(Failures, FiguresOfASecondCall) {
  const int64_t start = monotonic_ns();
  launch();
  const int64_t ready = monotonic_ns();
  Question question;
  question.max_tokens = 40;
  const SpokenAnswer answer = client->ask(question);
  expect_complete(answer);
  EXPECT_GT(answer.first_text_ns, 0);
  EXPECT_GT(answer.first_audio_ns, 0);
  const double ready_s = static_cast<double>(ready - start) / 1e9;
  std::printf("second call: ready %.3f s, first text %.3f s, first audio %.3f s after the launch\n",
              ready_s, ready_s + static_cast<double>(answer.first_text_ns) / 1e9,
              ready_s + static_cast<double>(answer.first_audio_ns) / 1e9);
}

}  // namespace
}  // namespace omnistage::test
