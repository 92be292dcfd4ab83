// Requests on the running echo pipeline: answers, order, concurrency, cancel, deadline, event fd,
// back pressure.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/integration/capi/echo_client.h"

namespace echo {
namespace {

constexpr size_t kSamplesPerCharacter = 1200;

// One pipeline for all tests of this file; each uses queues of its own.
class Requests : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Client;
    shared_->launch();
    shared_->wait_ready();
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  Client& client() { return *shared_; }
  static Client* shared_;
};
Client* Requests::shared_ = nullptr;

TEST_F(Requests, AnswerIsTheEchoInTextAndTones) {
  const std::string text = "The quick brown fox \xe2\x82\xac jumps";
  Ask ask;
  ask.text = text;
  ask.user_data = 4711;
  const Answer answer = client().ask(ask);
  EXPECT_EQ(answer.text, text);
  EXPECT_EQ(answer.audio.size(), (text.size() - 2) * kSamplesPerCharacter);
  EXPECT_TRUE(answer.in_order);
  EXPECT_EQ(answer.finals, 1);
  EXPECT_EQ(answer.final.status, OMS_OK);
  EXPECT_EQ(answer.final.kind, static_cast<uint32_t>(OMS_KIND_EVENT));
  EXPECT_EQ(answer.final.finish_reason, static_cast<uint32_t>(OMS_FINISH_STOP));
  EXPECT_EQ(answer.final.user_data, 4711u);
  EXPECT_EQ(answer.final.stage_index, -1);
  EXPECT_EQ(answer.error.code, OMS_OK);
  EXPECT_EQ(answer.final.audio_samples, answer.audio.size());
}

TEST_F(Requests, OnlyWhatIsWantedComes) {
  Ask ask;
  ask.wanted = OMS_WANT_TEXT;
  const Answer text = client().ask(ask);
  EXPECT_EQ(text.text, ask.text);
  EXPECT_TRUE(text.audio.empty());
  EXPECT_EQ(text.final.status, OMS_OK);
  ask.wanted = OMS_WANT_AUDIO;
  const Answer audio = client().ask(ask);
  EXPECT_TRUE(audio.text.empty());
  EXPECT_EQ(audio.audio.size(), ask.text.size() * kSamplesPerCharacter);
  EXPECT_EQ(audio.final.status, OMS_OK);
}

TEST_F(Requests, EightAtOnceEqualEightAlone) {
  std::vector<Ask> asks(8);
  std::vector<Answer> alone;
  for (size_t i = 0; i < asks.size(); ++i) {
    asks[i].text =
        "request number " + std::to_string(i) + std::string(i * 7, static_cast<char>('a' + i));
    asks[i].slow(1, 3);
    alone.push_back(client().ask(asks[i]));
  }
  oms_queue* queue = client().make_queue();
  std::vector<oms_request_id> ids;
  for (const Ask& ask : asks) ids.push_back(client().submit(queue, ask));
  client().collect(queue, 8);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Answer& answer = client().answers[ids[i]];
    EXPECT_EQ(answer.text, alone[i].text);
    EXPECT_EQ(answer.audio, alone[i].audio);
    EXPECT_TRUE(answer.in_order);
    EXPECT_EQ(answer.finals, 1);
    EXPECT_EQ(answer.final.status, OMS_OK);
  }
}

TEST_F(Requests, CancelEndsOneAndNoOther) {
  oms_queue* queue = client().make_queue();
  Ask endless, other;
  endless.slow(5, 100'000);
  other.slow(5, 5);
  const oms_request_id victim = client().submit(queue, endless);
  const oms_request_id bystander = client().submit(queue, other);
  // Cancelled in the middle of its stream.
  oms_output* output = nullptr;
  uint32_t count = 0;
  ASSERT_EQ(oms_queue_wait(queue, &output, 1, &count, kPatienceNs), OMS_OK);
  add_output(client().answers, output);
  oms_output_release(output);
  EXPECT_EQ(oms_cancel(queue, victim), OMS_OK);
  EXPECT_EQ(oms_cancel(queue, victim), OMS_E_NOT_FOUND);
  EXPECT_EQ(oms_cancel(queue, 0), OMS_E_NOT_FOUND);
  client().collect(queue, 2);
  EXPECT_EQ(client().answers[victim].final.status, OMS_E_CANCELLED);
  EXPECT_EQ(client().answers[victim].finals, 1);
  EXPECT_TRUE(client().answers[victim].in_order);
  EXPECT_EQ(client().answers[bystander].final.status, OMS_OK);
  EXPECT_EQ(client().answers[bystander].text.size(), 5 * other.text.size());
}

TEST_F(Requests, DeadlineEndsARequest) {
  Ask ask;
  ask.slow(10, 100'000);
  ask.deadline_ns = 100 * kMillisecond;
  const Answer answer = client().ask(ask);
  EXPECT_EQ(answer.final.status, OMS_E_DEADLINE);
  EXPECT_EQ(answer.finals, 1);
  EXPECT_LT(answer.text.size(), ask.text.size() * 100'000);
}

TEST_F(Requests, StageRefusesBadParameterByName) {
  Ask ask;
  ask.params["echo_delay_ms"] = "soon";
  const Answer answer = client().ask(ask);
  EXPECT_EQ(answer.final.status, OMS_E_INVALID);
  EXPECT_NE(std::string(answer.error.message).find("echo_delay_ms"), std::string::npos)
      << answer.error.message;
}

TEST_F(Requests, EventLoopOverTheFd) {
  oms_queue* queue = client().make_queue();
  Ask ask;
  ask.slow(2, 20);
  const oms_request_id id = client().submit(queue, ask);
  std::map<oms_request_id, Answer> answers;
  while (answers[id].finals == 0) {
    pollfd entry{oms_queue_event_fd(queue), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "the fd stayed silent";
    oms_output* output = nullptr;
    uint32_t count = 0;
    const oms_status status = oms_queue_poll(queue, &output, 1, &count);
    ASSERT_GE(status, 0);
    if (count == 1) add_output(answers, output);
    oms_output_release(output);
  }
  EXPECT_EQ(answers[id].text.size(), 20 * ask.text.size());
  EXPECT_TRUE(answers[id].in_order);
}

TEST_F(Requests, ClientThatNeverPollsStopsOnlyItself) {
  oms_queue* lazy = client().make_queue();
  oms_queue* busy = client().make_queue();
  Ask endless, normal;
  endless.slow(0, 100'000);
  normal.slow(0, 30);
  std::vector<oms_request_id> stuck;
  for (int i = 0; i < 3; ++i) stuck.push_back(client().submit(lazy, endless));
  for (int round = 0; round < 3; ++round) {
    const oms_request_id id = client().submit(busy, normal);
    client().collect(busy, 1);
    EXPECT_EQ(client().answers[id].final.status, OMS_OK);
    EXPECT_EQ(client().answers[id].text.size(), 30 * normal.text.size());
    EXPECT_EQ(client().answers[id].audio.size(), 30 * normal.text.size() * kSamplesPerCharacter);
  }
  // What waits for the lazy queue is bounded by its credit: 8 outputs of each kind, three requests.
  for (oms_request_id id : stuck) EXPECT_EQ(oms_cancel(lazy, id), OMS_OK);
  client().collect(lazy, 3);
  for (oms_request_id id : stuck) {
    EXPECT_LE(client().answers[id].outputs, 2 * 8 + 1u);
    EXPECT_GT(client().answers[id].outputs, 1u);
    EXPECT_EQ(client().answers[id].final.status, OMS_E_CANCELLED);
  }
}

TEST_F(Requests, QueueCapacityIsBackPressure) {
  oms_queue* queue = client().make_queue(2);
  client().submit(queue, {});
  client().submit(queue, {});
  oms_request_id id = 0;
  oms_error error{};
  error.struct_size = sizeof(error);
  EXPECT_EQ(client().try_submit(queue, {}, &id, &error), OMS_E_FULL);
  EXPECT_NE(std::string(error.message).find("capacity"), std::string::npos) << error.message;
  client().collect(queue, 2);
  client().submit(queue, {});
  client().collect(queue, 1);
}

TEST_F(Requests, WakeFromASignalHandler) {
  static oms_queue* queue;
  queue = client().make_queue();
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { oms_queue_wake(queue); };
  ::sigaction(SIGUSR1, &action, &before);
  ::kill(::getpid(), SIGUSR1);  // goes to this thread: the library's block it
  oms_output* output = nullptr;
  uint32_t count = 0;
  EXPECT_EQ(oms_queue_wait(queue, &output, 1, &count, kPatienceNs), OMS_WOKEN);
  EXPECT_EQ(oms_queue_poll(queue, &output, 1, &count), OMS_AGAIN);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(Requests, AudioIsAViewOfSharedMemory) {
  oms_queue* queue = client().make_queue();
  Ask ask;
  ask.wanted = OMS_WANT_AUDIO;
  client().submit(queue, ask);
  oms_output* output = nullptr;
  uint32_t count = 0;
  ASSERT_EQ(oms_queue_wait(queue, &output, 1, &count, kPatienceNs), OMS_OK);
  EXPECT_GT(client().stats().borrowed_bytes, 4096u);
  oms_tensor_view view{};
  view.struct_size = sizeof(view);
  ASSERT_EQ(oms_output_tensor(output, 0, &view), OMS_OK);
  std::vector<char> copy(view.bytes);
  uint64_t bytes = 0;
  EXPECT_EQ(oms_output_copy(output, 0, copy.data(), view.bytes - 1, &bytes), OMS_E_FULL);
  EXPECT_EQ(bytes, view.bytes);
  ASSERT_EQ(oms_output_copy(output, 0, copy.data(), copy.size(), &bytes), OMS_OK);
  EXPECT_EQ(memcmp(copy.data(), view.data, copy.size()), 0);
  EXPECT_EQ(oms_output_tensor(output, 1, &view), OMS_E_NOT_FOUND);
  oms_output_release(output);
  client().collect(queue, 1);
  EXPECT_EQ(client().stats().borrowed_bytes, 0u);
}

TEST_F(Requests, DescribeTellsTheStages) {
  size_t needed = 0;
  EXPECT_EQ(oms_pipeline_describe(client().pipeline, nullptr, 0, &needed), OMS_E_FULL);
  std::string text(needed, '\0');
  ASSERT_EQ(oms_pipeline_describe(client().pipeline, text.data(), text.size(), &needed), OMS_OK);
  EXPECT_NE(text.find("\"pipeline\":\"echo\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"state\":\"ready\""), std::string::npos) << text;
  EXPECT_EQ(oms_pipeline_stage_count(client().pipeline), 3u);
  oms_stage_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(oms_pipeline_stage_info(client().pipeline, 3, &info), OMS_E_NOT_FOUND);
}

TEST_F(Requests, ForkedChildIsToldSo) {
  oms_queue* queue = client().make_queue();
  const pid_t child = ::fork();
  if (child == 0) {
    oms_request_id id = 0;
    oms_output* output = nullptr;
    uint32_t count = 0;
    bool fine = client().try_submit(queue, {}, &id, nullptr) == OMS_E_FORKED;
    fine = fine && oms_queue_wait(queue, &output, 1, &count, -1) == OMS_E_FORKED;
    fine = fine && oms_pipeline_wait_ready(client().pipeline, -1, nullptr) == OMS_E_FORKED;
    fine = fine && oms_queue_event_fd(queue) == -1;
    oms_queue_destroy(queue);
    oms_pipeline_close(client().pipeline);
    ::_exit(fine ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  client().submit(queue, {});  // the parent's is as it was
  client().collect(queue, 1);
}

}  // namespace
}  // namespace echo
