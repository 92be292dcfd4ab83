// Close in every state leaves nothing behind; outputs outlive what they came from.
#include <signal.h>

#include <cstring>

#include "tests/integration/capi/echo_client.h"

namespace echo {
namespace {

void expect_nothing_left(const std::vector<pid_t>& stages, int fds_before) {
  for (pid_t pid : stages) {
    EXPECT_TRUE(pid <= 0 || is_gone(pid)) << pid;
  }
  EXPECT_TRUE(children().empty());
  EXPECT_EQ(open_fds(), fds_before);
}

TEST(Close, WhileStagesStart) {
  const int fds = open_fds();
  std::vector<pid_t> stages;
  {
    Client client;
    client.launch();
    stages = client.stage_pids();
  }
  expect_nothing_left(stages, fds);
}

TEST(Close, WithRequestsInFlight) {
  const int fds = open_fds();
  std::vector<pid_t> stages;
  {
    Client client;
    client.launch();
    client.wait_ready();
    stages = client.stage_pids();
    oms_queue* queue = client.make_queue();
    Ask endless;
    endless.slow(5, 100'000);
    std::vector<oms_request_id> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(client.submit(queue, endless));
    client.close();
    // The queue is still there with one FINAL for each.
    client.collect(queue, 3);
    for (oms_request_id id : ids) {
      EXPECT_EQ(client.answers[id].finals, 1);
      EXPECT_EQ(client.answers[id].final.status, OMS_E_CANCELLED);
    }
    oms_output* output = nullptr;
    uint32_t count = 0;
    EXPECT_EQ(oms_queue_poll(queue, &output, 1, &count), OMS_E_CLOSED);
    oms_request_id id = 0;
    EXPECT_EQ(client.try_submit(queue, {}, &id, nullptr), OMS_E_CLOSED);
  }
  expect_nothing_left(stages, fds);
}

TEST(Close, WithAStageThatDoesNotAnswer) {
  const int fds = open_fds();
  std::vector<pid_t> stages;
  {
    Client client;
    client.launch();
    client.wait_ready();
    stages = client.stage_pids();
    ASSERT_EQ(::kill(stages[1], SIGSTOP), 0);
  }
  expect_nothing_left(stages, fds);
}

TEST(Close, QueueDestroyedWithRequestsInFlight) {
  Client client;
  client.launch();
  client.wait_ready();
  oms_queue* queue = nullptr;
  ASSERT_EQ(oms_queue_create(client.pipeline, nullptr, &queue, nullptr), OMS_OK);
  Ask endless;
  endless.slow(5, 100'000);
  client.submit(queue, endless);
  client.submit(queue, endless);
  oms_queue_destroy(queue);
  EXPECT_EQ(client.stats().inflight, 0u);
  EXPECT_EQ(client.stats().cancelled, 2u);
  EXPECT_EQ(client.ask({}).final.status, OMS_OK);
}

TEST(Close, HostThatIgnoresSigchld) {
  ::signal(SIGCHLD, SIG_IGN);
  {
    Client client;
    client.launch();
    client.wait_ready();
    EXPECT_EQ(client.ask({}).final.status, OMS_OK);
  }
  EXPECT_TRUE(children().empty());
  ::signal(SIGCHLD, SIG_DFL);
}

TEST(Outputs, StayReadableAfterClose) {
  std::vector<oms_output*> kept;
  std::vector<float> copy;
  {
    Client client;
    client.launch();
    client.wait_ready();
    oms_queue* queue = client.make_queue();
    Ask ask;
    ask.text = "abc";
    ask.wanted = OMS_WANT_AUDIO;
    client.submit(queue, ask);
    for (bool over = false; !over;) {
      oms_output* output = nullptr;
      uint32_t count = 0;
      ASSERT_EQ(oms_queue_wait(queue, &output, 1, &count, kPatienceNs), OMS_OK);
      oms_output_info info{};
      info.struct_size = sizeof(info);
      ASSERT_EQ(oms_output_info_get(output, &info), OMS_OK);
      over = (info.flags & OMS_OUTPUT_FINAL) != 0;
      kept.push_back(output);
      if (over) break;
      oms_tensor_view view{};
      view.struct_size = sizeof(view);
      ASSERT_EQ(oms_output_tensor(output, 0, &view), OMS_OK);
      const auto* samples = static_cast<const float*>(view.data);
      copy.insert(copy.end(), samples, samples + view.bytes / 4);
    }
  }
  size_t at = 0;
  for (oms_output* output : kept) {
    oms_tensor_view view{};
    view.struct_size = sizeof(view);
    if (oms_output_tensor(output, 0, &view) == OMS_OK) {
      ASSERT_LE(at + view.bytes / 4, copy.size());
      EXPECT_EQ(memcmp(copy.data() + at, view.data, view.bytes), 0);
      at += view.bytes / 4;
    }
    oms_output_release(output);
  }
  EXPECT_EQ(at, copy.size());
  EXPECT_GT(at, 0u);
}

TEST(Outputs, AreCopiesBeyondTheBorrowLimit) {
  Client client;
  client.launch(0, 1);  // one byte: every tensor is copied
  client.wait_ready();
  const Answer answer = client.ask({});
  EXPECT_EQ(answer.final.status, OMS_OK);
  EXPECT_EQ(client.stats().copied_bytes, answer.audio.size() * sizeof(float));
  EXPECT_EQ(client.stats().borrowed_bytes, 0u);
}

TEST(Limits, MaxInflight) {
  Client client;
  client.launch(2);
  client.wait_ready();
  oms_queue* queue = client.make_queue();
  Ask endless;
  endless.slow(5, 100'000);
  const oms_request_id first = client.submit(queue, endless);
  client.submit(queue, endless);
  oms_request_id id = 0;
  oms_error error{};
  error.struct_size = sizeof(error);
  EXPECT_EQ(client.try_submit(queue, {}, &id, &error), OMS_E_FULL);
  EXPECT_NE(std::string(error.message).find("max_inflight"), std::string::npos) << error.message;
  EXPECT_EQ(oms_cancel(queue, first), OMS_OK);
  client.submit(queue, {});
}

}  // namespace
}  // namespace echo
