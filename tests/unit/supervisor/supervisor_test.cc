// The parts of the supervisor that need no stages: command line, restart policy, graph, event loop,
// children, run directory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "shm/base/clock.h"
#include "stage_proc/engine/request.h"
#include "stage_proc/supervisor/child.h"
#include "stage_proc/supervisor/event_loop.h"
#include "stage_proc/supervisor/options.h"
#include "stage_proc/supervisor/pipeline_graph.h"
#include "stage_proc/supervisor/restart_policy.h"
#include "stage_proc/supervisor/run_dir.h"

namespace omnistage {
namespace {

using Mode = SupervisorOptions::Mode;

TEST(Options, Modes) {
  auto options = parse_supervisor_options({"--deploy", "a.yaml", "--client-fd", "3"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->mode, Mode::kPrivate);
  EXPECT_EQ(options->client_fd, 3);
  options = parse_supervisor_options({"--run-dir", "/run/x", "--deploy", "a.yaml"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->mode, Mode::kShared);
  options = parse_supervisor_options({"--check", "a.yaml"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->mode, Mode::kCheck);
  EXPECT_EQ(options->deploy, "a.yaml");
  EXPECT_EQ(parse_supervisor_options({"--help"})->mode, Mode::kHelp);
}

TEST(Options, ErrorsNameTheArgument) {
  auto message = [](std::vector<std::string> arguments) {
    auto options = parse_supervisor_options(arguments);
    return options.ok() ? std::string() : options.status().message();
  };
  EXPECT_NE(message({"--deploi", "x"}).find("--deploi"), std::string::npos);
  EXPECT_NE(message({"--deploy"}).find("--deploy"), std::string::npos);
  EXPECT_NE(message({"--deploy", "x"}).find("--run-dir"), std::string::npos);
  EXPECT_NE(message({"--deploy", "x", "--client-fd", "3x"}).find("3x"), std::string::npos);
  EXPECT_NE(message({"--deploy", "x", "--client-fd", "-1"}).find("-1"), std::string::npos);
  EXPECT_NE(message({"--run-dir", "x"}).find("--deploy"), std::string::npos);
  EXPECT_FALSE(message({"--deploy", "x", "--client-fd", "3", "--run-dir", "y"}).empty());
  EXPECT_FALSE(message({}).empty());
}

TEST(RestartPolicy, BacksOffAndGivesUpWithinTheWindow) {
  RestartPolicy policy({.max_restarts = 3, .window_s = 60, .backoff_ms = 200});
  EXPECT_EQ(policy.next_delay_ns(0), 200 * kMillisecond);
  EXPECT_EQ(policy.next_delay_ns(1 * kSecond), 400 * kMillisecond);
  EXPECT_EQ(policy.next_delay_ns(2 * kSecond), 800 * kMillisecond);
  EXPECT_EQ(policy.next_delay_ns(3 * kSecond), std::nullopt);
  // The first start has left the window.
  EXPECT_EQ(policy.next_delay_ns(61 * kSecond), 800 * kMillisecond);
  EXPECT_EQ(policy.next_delay_ns(300 * kSecond), 200 * kMillisecond);
}

TEST(RestartPolicy, Limits) {
  RestartPolicy never({.max_restarts = 0, .window_s = 60, .backoff_ms = 200});
  EXPECT_EQ(never.next_delay_ns(0), std::nullopt);
  RestartPolicy often({.max_restarts = 1000, .window_s = 86400, .backoff_ms = 30000});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LE(often.next_delay_ns(i).value(), RestartPolicy::kDelayMaxNs);
  }
  EXPECT_EQ(often.next_delay_ns(1001), std::nullopt);
}

config::DeployConfig graph() {
  config::DeployConfig config;
  auto add = [&config](int id, std::vector<int> sources, const char* output) {
    config::StageConfig stage;
    stage.stage_id = id;
    stage.name = "s" + std::to_string(id);
    stage.input_sources = std::move(sources);
    stage.final_output = *output != 0;
    stage.final_output_type = output;
    for (int source : stage.input_sources) config.edges.push_back({source, id, {}});
    config.stages.push_back(stage);
  };
  add(0, {}, "text");
  add(1, {0}, "");
  add(2, {1}, "audio");
  add(3, {0}, "tensor");
  return config;
}

TEST(PipelineGraph, OutputsAndLinks) {
  const config::DeployConfig config = graph();
  EXPECT_EQ(reachable_outputs(config, 0), 7u);
  EXPECT_EQ(reachable_outputs(config, 1), uint32_t{engine::kModalityAudio});
  EXPECT_EQ(reachable_outputs(config, 3), uint32_t{engine::kModalityTensor});
  EXPECT_EQ(reachable_outputs(config, 9), 0u);
  EXPECT_TRUE(has_client_link(config.stages[0]));
  EXPECT_FALSE(has_client_link(config.stages[1]));
  EXPECT_TRUE(has_client_link(config.stages[2]));
  EXPECT_TRUE(check_runnable(config).ok());
  config::DeployConfig joined = config;
  joined.stages[3].input_sources = {0, 1};
  EXPECT_EQ(check_runnable(joined).code(), StatusCode::kUnsupported);
  EXPECT_NE(check_runnable(joined).message().find("'s3'"), std::string::npos);
}

TEST(EventLoop, TimersRunInOrderAndCanBeCancelled) {
  auto loop = EventLoop::create().value();
  std::string order;
  loop->after(20 * kMillisecond, [&] {
    order += "c";
    loop->stop();
  });
  loop->after(0, [&] { order += "a"; });
  const auto cancelled = loop->after(0, [&] { order += "x"; });
  loop->after(1 * kMillisecond, [&] { order += "b"; });
  loop->cancel(cancelled);
  loop->cancel(cancelled);
  ASSERT_TRUE(loop->run().ok());
  EXPECT_EQ(order, "abc");
}

TEST(EventLoop, HandlersMayRemoveThemselvesAndOthers) {
  auto loop = EventLoop::create().value();
  int a[2], b[2];
  ASSERT_EQ(::pipe(a), 0);
  ASSERT_EQ(::pipe(b), 0);
  ASSERT_EQ(::write(a[1], "x", 1), 1);
  ASSERT_EQ(::write(b[1], "x", 1), 1);
  int calls = 0;
  auto handler = [&](uint32_t) {
    ++calls;
    loop->unwatch(a[0]);
    loop->unwatch(b[0]);
    loop->after(5 * kMillisecond, [&] { loop->stop(); });
  };
  ASSERT_TRUE(loop->watch(a[0], EPOLLIN, handler).ok());
  ASSERT_TRUE(loop->watch(b[0], EPOLLIN, handler).ok());
  ASSERT_TRUE(loop->run().ok());
  EXPECT_EQ(calls, 1);
  for (int fd : {a[0], a[1], b[0], b[1]}) ::close(fd);
}

std::string collect(Child& child, int& code) {
  std::string how;
  for (int i = 0; i < 60000 && !collect_child(child, how, code); ++i) ::usleep(1000);
  return how;
}

TEST(Child, EndsAreDescribed) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd ours(fds[0]), theirs(fds[1]);
  int code = 0;
  Child child = start_child({"/bin/sh", {"-c", "exit 3"}, {}}, theirs.get()).value();
  EXPECT_NE(collect(child, code).find("the model could not be loaded"), std::string::npos);
  EXPECT_EQ(code, 3);
  EXPECT_FALSE(child.running());
  child = start_child({"/bin/sh", {"-c", "sleep 1000"}, {}}, theirs.get()).value();
  child.kill(SIGKILL);
  EXPECT_NE(collect(child, code).find("killed by signal 9"), std::string::npos);
  EXPECT_EQ(code, -1);
  EXPECT_FALSE(start_child({"/nonexistent/program", {}, {}}, theirs.get()).ok());
}

TEST(Child, GetsItsSocketItsEnvironmentAndNothingElse) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd ours(fds[0]), theirs(fds[1]);
  const int leak = ::dup2(2, 77);  // not CLOEXEC on purpose
  ASSERT_EQ(leak, 77);
  ChildOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"-c",
                       "test -e /proc/self/fd/77 && exit 10; test -S /proc/self/fd/3 || exit 11; "
                       "test \"$OMS_ADDED\" = yes || exit 12; test -n \"$PATH\" || exit 13; "
                       "test \"$HOME\" = changed || exit 14; exit 0"};
  options.environment = {{"OMS_ADDED", "yes"}, {"HOME", "changed"}};
  Child child = start_child(options, theirs.get()).value();
  EXPECT_EQ(::getpgid(child.pid), child.pid);
  int code = -1;
  collect(child, code);
  EXPECT_EQ(code, 0);
  ::close(77);
}

TEST(RunDir, OneOwnerAtATime) {
  std::string pattern = (std::filesystem::temp_directory_path() / "oms-run-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string path = pattern + "/run";
  auto first = RunDir::open(path);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(RunDir::open(path).status().code(), StatusCode::kBusy);
  EXPECT_EQ((*first)->accept().status().code(), StatusCode::kAgain);
  first->reset();
  EXPECT_TRUE(std::filesystem::is_empty(path));
  auto second = RunDir::open(path);
  ASSERT_TRUE(second.ok()) << second.status().message();
  second->reset();
  EXPECT_EQ(RunDir::open(pattern + "/" + std::string(120, 'x')).status().code(),
            StatusCode::kInvalid);
  EXPECT_FALSE(RunDir::open(pattern + "/missing/run").ok());
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace omnistage
