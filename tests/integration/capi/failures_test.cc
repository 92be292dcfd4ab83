// Processes die under running requests: one clear FINAL each, and the pipeline comes back.
#include <signal.h>
#include <sys/wait.h>

#include "tests/integration/capi/echo_client.h"

namespace echo {
namespace {

class KillStage : public ::testing::TestWithParam<uint32_t> {};

TEST_P(KillStage, EveryRequestGetsOneErrorThatNamesTheStage) {
  const uint32_t stage = GetParam();
  Client client;
  client.launch();
  client.wait_ready();
  oms_queue* queue = client.make_queue();
  Ask endless;
  endless.slow(5, 100'000);
  std::vector<oms_request_id> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(client.submit(queue, endless));
  oms_output* output = nullptr;
  uint32_t count = 0;
  ASSERT_EQ(oms_queue_wait(queue, &output, 1, &count, kPatienceNs), OMS_OK);
  add_output(client.answers, output);
  oms_output_release(output);

  const oms_stage_info victim = client.stage(stage);
  ASSERT_GT(victim.pid, 0);
  ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
  client.collect(queue, 4);
  const std::string name = "stage " + std::to_string(stage) + " (" + victim.name + ")";
  for (oms_request_id id : ids) {
    const Answer& answer = client.answers[id];
    EXPECT_EQ(answer.finals, 1);
    EXPECT_EQ(answer.final.status, OMS_E_STAGE_DIED) << answer.error.message;
    EXPECT_EQ(answer.error.stage_index, static_cast<int32_t>(stage));
    EXPECT_NE(std::string(answer.error.message).find(name + " died"), std::string::npos)
        << answer.error.message;
    EXPECT_NE(std::string(answer.error.message).find("signal 9"), std::string::npos)
        << answer.error.message;
    EXPECT_TRUE(answer.in_order);
  }

  // Either it is back already, or the error says that it is not.
  oms_request_id id = 0;
  oms_error error{};
  error.struct_size = sizeof(error);
  const oms_status early = client.try_submit(queue, {}, &id, &error);
  if (early == OMS_OK) {
    client.collect(queue, 1);
  } else {
    EXPECT_EQ(early, OMS_E_BUSY) << error.message;
    EXPECT_NE(std::string(error.message).find(victim.name), std::string::npos) << error.message;
  }
  client.wait_ready();
  const Answer again = client.ask({});
  EXPECT_EQ(again.final.status, OMS_OK) << again.error.message;
  EXPECT_EQ(again.text, Ask().text);
  EXPECT_NE(client.stage(stage).pid, victim.pid);
  EXPECT_EQ(client.stage(stage).restarts, 1u);
}

INSTANTIATE_TEST_SUITE_P(Each, KillStage, ::testing::Values(0u, 1u, 2u));

TEST(KillStage, TextOnlyRequestsDoNotNeedTheOthers) {
  Client client;
  client.launch();
  client.wait_ready();
  oms_queue* queue = client.make_queue();
  Ask ask;
  ask.wanted = OMS_WANT_TEXT;
  ask.slow(20, 20);
  const oms_request_id id = client.submit(queue, ask);
  ASSERT_EQ(::kill(client.stage(2).pid, SIGKILL), 0);
  client.collect(queue, 1);
  EXPECT_EQ(client.answers[id].final.status, OMS_OK) << client.answers[id].error.message;
  EXPECT_EQ(client.answers[id].text.size(), 20 * ask.text.size());
}

TEST(KillSupervisor, EndsEverythingWithAReason) {
  Client client;
  client.launch();
  client.wait_ready();
  const std::vector<pid_t> stages = client.stage_pids();
  oms_queue* queue = client.make_queue();
  Ask endless;
  endless.slow(5, 100'000);
  const oms_request_id id = client.submit(queue, endless);
  const std::vector<pid_t> own = children();
  ASSERT_EQ(own.size(), 1u);
  ASSERT_EQ(::kill(own[0], SIGKILL), 0);
  client.collect(queue, 1);
  EXPECT_EQ(client.answers[id].finals, 1);
  EXPECT_EQ(client.answers[id].final.status, OMS_E_CLOSED);
  EXPECT_NE(
      std::string(client.answers[id].error.message).find("supervisor died: killed by signal 9"),
      std::string::npos)
      << client.answers[id].error.message;
  oms_request_id refused = 0;
  EXPECT_EQ(client.try_submit(queue, {}, &refused, nullptr), OMS_E_CLOSED);
  EXPECT_EQ(oms_pipeline_wait_ready(client.pipeline, -1, nullptr), OMS_E_CLOSED);
  oms_output* output = nullptr;
  uint32_t count = 0;
  EXPECT_EQ(oms_queue_wait(queue, &output, 1, &count, -1), OMS_E_CLOSED);
  for (pid_t pid : stages) EXPECT_TRUE(is_gone(pid)) << pid;
  client.close();
  EXPECT_TRUE(children().empty());
}

TEST(BadConfiguration, LaunchSaysWhy) {
  oms_pipeline_options options;
  oms_pipeline_options_init(&options, sizeof(options));
  const std::string bin = bin_dir();
  options.bin_dir = bin.c_str();
  options.config_path = "/nonexistent/deploy.yaml";
  oms_pipeline* pipeline = nullptr;
  oms_error error{};
  error.struct_size = sizeof(error);
  EXPECT_LT(oms_pipeline_launch(&options, &pipeline, &error), 0);
  EXPECT_EQ(pipeline, nullptr);
  EXPECT_NE(std::string(error.message).find("/nonexistent/deploy.yaml"), std::string::npos)
      << error.message;
  EXPECT_TRUE(children().empty());
}

}  // namespace
}  // namespace echo
