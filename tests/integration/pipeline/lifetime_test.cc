// Beginning and end: whoever goes first, nothing is left behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/pipeline/raw_client.h"

namespace omnistage::test {
namespace {

class Lifetime : public ::testing::Test {
 protected:
  void SetUp() override { shm_before = dev_shm(); }
  void TearDown() override {
    EXPECT_TRUE(wait_gone(mark)) << marked_processes(mark).size() << " processes are left";
    for (const std::string& name : dev_shm()) {
      EXPECT_TRUE(shm_before.contains(name) || name.find("omni") == std::string::npos) << name;
    }
  }
  std::unique_ptr<RawClient> launch() {
    auto client = RawClient::launch(echo_deploy());
    mark = client->mark();
    EXPECT_TRUE(client->wait_ready());
    EXPECT_EQ(marked_processes(mark).size(), 4u);
    return client;
  }
  std::string mark;
  std::set<std::string> shm_before;
};

uint64_t start_endless(RawClient& client) {
  const uint64_t id = client.submit({.text = "forever ", .extra = {{"echo_repeat", "1000000"}}});
  EXPECT_TRUE(wait_until([&] { return !client.answer(id).audio.empty(); }, [&] { client.pump(); }));
  return id;
}

TEST_F(Lifetime, ClientThatClosesEndsEverything) {
  auto client = launch();
  start_endless(*client);
  const pid_t supervisor = client->supervisor();
  client->close_control();
  EXPECT_EQ(wait_exit(supervisor), 0);
  client->forget_supervisor();
  EXPECT_TRUE(wait_gone(mark));
}

TEST_F(Lifetime, KilledClientEndsEverything) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto client = RawClient::launch(echo_deploy());
    if (!client->wait_ready()) ::_exit(1);
    const std::string text = client->mark() + "\n";
    const uint64_t id = start_endless(*client);
    if (::write(told[1], text.data(), text.size()) < 0) ::_exit(1);
    while (true) {
      client->pump();
      (void)id;
    }
  }
  ::close(told[1]);
  char text[256] = {};
  ASSERT_GT(::read(told[0], text, sizeof(text) - 1), 0);
  ::close(told[0]);
  mark = std::string(text).substr(0, std::string(text).find('\n'));
  EXPECT_EQ(marked_processes(mark).size(), 4u);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(wait_exit(child), -SIGKILL);
  EXPECT_TRUE(wait_gone(mark));
}

TEST_F(Lifetime, KilledSupervisorEndsTheStages) {
  auto client = launch();
  start_endless(*client);
  ASSERT_EQ(::kill(client->supervisor(), SIGKILL), 0);
  EXPECT_EQ(wait_exit(client->supervisor()), -SIGKILL);
  client->forget_supervisor();
  EXPECT_TRUE(wait_gone(mark));
  EXPECT_TRUE(wait_until([&] { return client->closed(); }, [&] { client->pump(); }));
}

TEST_F(Lifetime, TerminateAndInterruptAreOrderly) {
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    auto client = launch();
    start_endless(*client);
    ASSERT_EQ(::kill(client->supervisor(), signal), 0);
    EXPECT_EQ(wait_exit(client->supervisor()), 0) << "signal " << signal;
    client->forget_supervisor();
    ASSERT_TRUE(wait_until([&] { return client->closed(); }, [&] { client->pump(); }));
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(client->stage(i).state, wire::StageState::Stopped);
      EXPECT_EQ(client->stage(i).message, "");
    }
    EXPECT_TRUE(wait_gone(mark));
  }
}

TEST_F(Lifetime, DrainFinishesWhatRuns) {
  auto client = launch();
  const std::string text(800, 'd');
  const uint64_t id = client->submit({.text = text});
  ASSERT_TRUE(
      wait_until([&] { return client->answer(id).text_pieces > 2; }, [&] { client->pump(); }));
  ASSERT_TRUE(client->socket().send(control::make_shutdown(true)).ok());
  ASSERT_TRUE(client->wait_done(id));
  EXPECT_TRUE(client->answer(id).errors.empty());
  EXPECT_EQ(client->answer(id).text, text);
  EXPECT_EQ(client->answer(id).audio.size(), text.size() * 1200);
  EXPECT_EQ(wait_exit(client->supervisor()), 0);
  client->forget_supervisor();
}

TEST_F(Lifetime, ShutdownWhileTheStagesStart) {
  auto client = RawClient::launch(echo_deploy());
  mark = client->mark();
  client->close_control();
  EXPECT_EQ(wait_exit(client->supervisor()), 0);
  client->forget_supervisor();
}

// Stages live in process groups of their own, so Ctrl-C in a terminal reaches only client and
// supervisor.
TEST_F(Lifetime, StagesHaveTheirOwnProcessGroups) {
  auto client = launch();
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(::getpgid(client->stage(i).pid), client->stage(i).pid);
  }
}

class Shared : public Lifetime {
 protected:
  void start() {
    mark = new_mark();
    supervisor = start_supervisor({"--deploy", echo_deploy(), "--run-dir", dir()}, mark);
  }
  void stop() {
    ::kill(supervisor, SIGTERM);
    EXPECT_EQ(wait_exit(supervisor), 0);
    EXPECT_NE(::access((dir() + "/omnistage.sock").c_str(), F_OK), 0);
    EXPECT_NE(::access((dir() + "/omnistage.lock").c_str(), F_OK), 0);
  }
  std::string dir() const { return folder.path() + "/run"; }
  TemporaryFolder folder;
  pid_t supervisor = -1;
};

TEST_F(Shared, TwoClientsAndOneThatVanishes) {
  start();
  auto a = RawClient::attach(dir());
  ASSERT_TRUE(a->wait_ready());
  {
    auto b = RawClient::attach(dir());
    ASSERT_TRUE(b->wait_ready());
    EXPECT_NE(a->id(), b->id());
    start_endless(*b);
    EXPECT_EQ(a->ask({.text = "me too"}).text, "me too");
  }
  EXPECT_EQ(a->ask({.text = "alone now"}).text, "alone now");
  stop();
}

TEST_F(Shared, FilesArePrivate) {
  start();
  auto client = RawClient::attach(dir());
  ASSERT_TRUE(client->wait_ready());
  struct stat info {};
  ASSERT_EQ(::stat(dir().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((dir() + "/omnistage.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((dir() + "/omnistage.lock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  stop();
}

TEST_F(Shared, SecondSupervisorIsRefusedAndAStalePairIsTakenOver) {
  start();
  auto client = RawClient::attach(dir());
  ASSERT_TRUE(client->wait_ready());
  const std::string other = new_mark();
  EXPECT_EQ(wait_exit(start_supervisor({"--deploy", echo_deploy(), "--run-dir", dir()}, other)), 4);
  EXPECT_EQ(client->ask({.text = "undisturbed"}).text, "undisturbed");
  ASSERT_EQ(::kill(supervisor, SIGKILL), 0);
  EXPECT_EQ(wait_exit(supervisor), -SIGKILL);
  EXPECT_TRUE(wait_gone(mark));
  EXPECT_EQ(::access((dir() + "/omnistage.sock").c_str(), F_OK), 0) << "left by the killed one";
  start();
  // attach() may reach the stale socket's name only after the new one is bound: connecting to it
  // fails before.
  auto again = RawClient::attach(dir());
  ASSERT_TRUE(again->wait_ready());
  EXPECT_EQ(again->ask({.text = "back"}).text, "back");
  stop();
}

TEST_F(Shared, ClientsComeAndGoWithoutLeavingDescriptors) {
  start();
  auto stay = RawClient::attach(dir());
  ASSERT_TRUE(stay->wait_ready());
  EXPECT_EQ(stay->ask({.text = "warm"}).text, "warm");
  std::vector<pid_t> pids = {supervisor};
  for (uint32_t i = 0; i < 3; ++i) pids.push_back(stay->stage(i).pid);
  auto count = [&] {
    std::vector<size_t> counts;
    for (pid_t pid : pids) counts.push_back(open_descriptors(pid));
    return counts;
  };
  const std::vector<size_t> before = count();
  for (int i = 0; i < 20; ++i) {
    auto guest = RawClient::attach(dir());
    ASSERT_TRUE(guest->wait_ready());
    EXPECT_EQ(guest->ask({.text = "guest"}).text, "guest");
  }
  EXPECT_TRUE(wait_until([&] { return count() == before; }, [&] { stay->pump(); }));
  EXPECT_EQ(count(), before);
  stop();
}

TEST_F(Shared, TooManyClientsAreRefusedByName) {
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  clients.push_back(RawClient::attach(dir()));
  ASSERT_TRUE(clients[0]->wait_ready());
  for (int i = 1; i < 64; ++i) {
    clients.push_back(RawClient::attach(dir()));
    auto& client = *clients.back();
    ASSERT_TRUE(wait_until([&] { return client.id() != 0; }, [&] { client.pump(); }));
  }
  auto extra = RawClient::attach(dir());
  ASSERT_TRUE(wait_until([&] { return extra->closed(); }, [&] { extra->pump(); }));
  EXPECT_EQ(extra->refused().code(), StatusCode::kFull);
  EXPECT_NE(extra->refused().message().find("64"), std::string::npos);
  EXPECT_EQ(clients[0]->ask({.text = "first"}).text, "first");
  stop();
}

TEST_F(Shared, PipelineThatCannotStartEndsWithAnError) {
  folder.write("empty/readme.txt", "no weights here");
  const std::string deploy =
      folder.write("deploy.yaml",
                   "pipeline: speak\nstages:\n  - {stage_id: 0, model: ./empty}\n"
                   "  - {stage_id: 1, model: ./empty}\n  - {stage_id: 2, model: ./empty}\n");
  mark = new_mark();
  EXPECT_EQ(wait_exit(start_supervisor({"--deploy", deploy, "--run-dir", dir()}, mark)), 1);
}

}  // namespace
}  // namespace omnistage::test
