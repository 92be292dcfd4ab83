// A shared supervisor with several clients.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/integration/capi/echo_client.h"

extern char** environ;

namespace echo {
namespace {

class Attach : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = make_temp_dir();
    const std::string program = bin_dir() + "/omnistage-supervisor", deploy = deploy_file();
    const char* arguments[] = {program.c_str(), "--deploy",   deploy.c_str(),
                               "--run-dir",     dir_.c_str(), nullptr};
    ASSERT_EQ(::posix_spawn(&supervisor_, program.c_str(), nullptr, nullptr,
                            const_cast<char**>(arguments), environ),
              0);
    for (int i = 0; i < 6000 && !std::filesystem::exists(dir_ + "/omnistage.sock"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void TearDown() override {
    ::kill(supervisor_, SIGTERM);
    int status = -1;
    ::waitpid(supervisor_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
  pid_t supervisor_ = -1;
};

TEST_F(Attach, TwoClientsShareThePipeline) {
  Client first;
  first.attach(dir_);
  first.wait_ready();
  {
    Client second;
    second.attach(dir_);
    second.wait_ready();
    EXPECT_EQ(first.stage_pids(), second.stage_pids());
    oms_queue* first_queue = first.make_queue();
    oms_queue* second_queue = second.make_queue();
    Ask a, b, endless;
    a.text = "first client";
    b.text = "second client";
    a.slow(2, 10);
    b.slow(2, 10);
    endless.slow(2, 100'000);
    const oms_request_id first_id = first.submit(first_queue, a);
    const oms_request_id second_id = second.submit(second_queue, b);
    second.submit(second_queue, endless);  // still runs when its client leaves
    first.collect(first_queue, 1);
    second.collect(second_queue, 1);
    EXPECT_EQ(first.answers[first_id].text.substr(0, a.text.size()), a.text);
    EXPECT_EQ(first.answers[first_id].final.status, OMS_OK);
    EXPECT_EQ(second.answers[second_id].text.substr(0, b.text.size()), b.text);
    EXPECT_EQ(second.answers[second_id].final.status, OMS_OK);
  }
  const Answer after = first.ask({});
  EXPECT_EQ(after.final.status, OMS_OK);
  EXPECT_EQ(after.text, Ask().text);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(first.stage(i).restarts, 0u);
}

TEST_F(Attach, ClosingDoesNotEndThePipeline) {
  std::vector<pid_t> stages;
  for (int i = 0; i < 3; ++i) {
    Client client;
    client.attach(dir_);
    client.wait_ready();
    if (i == 0) stages = client.stage_pids();
    EXPECT_EQ(client.stage_pids(), stages);
    EXPECT_EQ(client.ask({}).final.status, OMS_OK);
  }
}

TEST_F(Attach, EndOfTheSupervisorIsAnEvent) {
  Client client;
  client.attach(dir_);
  client.wait_ready();
  oms_queue* queue = client.make_queue();
  Ask endless;
  endless.slow(5, 100'000);
  const oms_request_id id = client.submit(queue, endless);
  ::kill(supervisor_, SIGTERM);
  client.collect(queue, 1);
  EXPECT_EQ(client.answers[id].finals, 1);
  EXPECT_EQ(client.answers[id].final.status, OMS_E_CLOSED);
  EXPECT_EQ(oms_pipeline_wait_ready(client.pipeline, kPatienceNs, nullptr), OMS_E_CLOSED);
}

}  // namespace
}  // namespace echo
