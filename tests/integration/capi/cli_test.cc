// The omnistage command as a user sees it: output, exit codes, one clear line for each mishap.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/integration/capi/echo_client.h"

extern char** environ;

namespace echo {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Ran {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = make_temp_dir();
    wav_ = dir_ + "/answer.wav";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Starts `command` in a shell, in dir_, with out and err in files.
  pid_t start(const std::string& command) {
    const std::string line =
        "cd " + dir_ + " && exec " + command + " >" + dir_ + "/out 2>" + dir_ + "/err";
    const char* arguments[] = {"/bin/sh", "-c", line.c_str(), nullptr};
    pid_t pid = -1;
    EXPECT_EQ(
        ::posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char**>(arguments), environ),
        0);
    return pid;
  }
  Ran finish(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    Ran ran;
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    ran.out = read_file(dir_ + "/out");
    ran.err = read_file(dir_ + "/err");
    return ran;
  }
  Ran run(const std::string& arguments, const std::string& input = "</dev/null") {
    return finish(start(program() + " " + arguments + " " + input));
  }
  static std::string program() { return bin_dir() + "/omnistage"; }
  static std::string speak() { return "speak --deploy " + deploy_file() + " "; }

  // Checks the header against the file's size; gives the number of samples.
  size_t check_wav(const std::string& path) {
    const std::string bytes = read_file(path);
    EXPECT_GE(bytes.size(), 44u);
    if (bytes.size() < 44) return 0;
    const auto number = [&](size_t at) {
      uint32_t value;
      std::memcpy(&value, bytes.data() + at, 4);
      return value;
    };
    EXPECT_EQ(bytes.substr(0, 4), "RIFF");
    EXPECT_EQ(bytes.substr(8, 8), "WAVEfmt ");
    EXPECT_EQ(number(4), bytes.size() - 8);
    EXPECT_EQ(number(24), 24000u);
    EXPECT_EQ(number(28), 48000u);
    EXPECT_EQ(number(40), bytes.size() - 44);
    return (bytes.size() - 44) / 2;
  }
  static int lines(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string dir_, wav_;
};

TEST_F(Cli, SpeaksAndTellsFigures) {
  const Ran ran = run(speak() + "'hello echo'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "hello echo\n");
  EXPECT_EQ(lines(ran.err), 1) << ran.err;
  for (const char* figure : {"first token", "first audio", "tokens", "audio", "real-time factor"}) {
    EXPECT_NE(ran.err.find(figure), std::string::npos) << ran.err;
  }
  EXPECT_EQ(check_wav(wav_), 10 * 1200u);
}

TEST_F(Cli, ReadsStandardInput) {
  std::ofstream(dir_ + "/question") << "  from a file\n\n";
  const Ran ran = run(speak() + "--quiet --text-only", "<question");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "from a file\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_FALSE(std::filesystem::exists(wav_));
}

TEST_F(Cli, JsonForPrograms) {
  const Ran ran = run(speak() + "--json 'say \"x\"' --seed 5");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("{\"text\":\"say \\\"x\\\"\""), 0u) << ran.out;
  EXPECT_NE(ran.out.find("\"seed\":5,"), std::string::npos) << ran.out;
  EXPECT_EQ(lines(ran.out), 1);
}

TEST_F(Cli, HintOnATerminalWithoutQuestion) {
  // script(1) gives the command a terminal.
  const Ran ran = run("", "</dev/null");
  EXPECT_EQ(ran.code, 2);
  const Ran hint = finish(start("script -qec '" + program() + " speak' /dev/null </dev/null"));
  if (hint.code == 127) GTEST_SKIP() << "no script(1) here";
  EXPECT_EQ(hint.code, 2);
  EXPECT_NE(hint.out.find("nothing to ask"), std::string::npos) << hint.out;
  EXPECT_EQ(lines(hint.out), 1) << hint.out;
}

TEST_F(Cli, EmptyQuestion) {
  const Ran ran = run(speak() + "' '");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "omnistage: the question is empty\n");
}

TEST_F(Cli, MishapsAreOneLine) {
  struct {
    std::string arguments, naming;
    int code;
  } cases[] = {
      {speak() + "hi --out /nonexistent/a.wav", "/nonexistent/a.wav", 1},
      {speak() + "hi --out /dev/full", "No space left on device", 1},
      {"speak hi --deploy /nonexistent/x.yaml", "omnistage: /nonexistent/x.yaml: cannot be opened",
       1},
      {"ask hi --attach /nonexistent/run", "/nonexistent/run", 1},
      {"status --attach /nonexistent/run", "/nonexistent/run", 1},
      {speak() + "hi --voice \"$(printf '%2000d' 1)\"", "1024", 1},
      {"speak --temperature warm hi", "temperature", 2},
      {"sing", "sing", 2},
  };
  for (const auto& one : cases) {
    const Ran ran = run(one.arguments);
    EXPECT_EQ(ran.code, one.code) << one.arguments << ": " << ran.err;
    EXPECT_NE(ran.err.find(one.naming), std::string::npos) << one.arguments << ": " << ran.err;
    // One line of ours; with a started pipeline the line of figures too.
    int own = 0;
    std::istringstream text(ran.err);
    for (std::string line; std::getline(text, line);)
      own += line.rfind("omnistage: ", 0) == 0 ? 1 : 0;
    EXPECT_EQ(own, 1) << one.arguments << ": " << ran.err;
  }
}

TEST_F(Cli, OldAnswerSurvivesAFailedStart) {
  std::ofstream(wav_) << "old";
  EXPECT_EQ(run("speak hi --deploy /nonexistent/x.yaml").code, 1);
  EXPECT_EQ(read_file(wav_), "old");
  std::filesystem::remove(wav_);
  EXPECT_EQ(run("speak hi --deploy /nonexistent/x.yaml").code, 1);
  EXPECT_FALSE(std::filesystem::exists(wav_));
}

// The echo has no slow mode on the command line, so the text is long enough to be interrupted in
// the middle.
TEST_F(Cli, CtrlCEndsInOrder) {
  std::ofstream question(dir_ + "/question");
  for (int i = 0; i < 4000; ++i) question << "0123456789 ";
  question.close();
  const pid_t pid = start(program() + " " + speak() + " <question");
  // Once sound arrives, in the middle of the answer.
  for (int i = 0; i < 6000; ++i) {
    std::error_code error;
    if (std::filesystem::file_size(wav_, error) > 44 && !error) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ifstream list("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> supervisors;
  for (pid_t child; list >> child;) supervisors.push_back(child);
  ::kill(pid, SIGINT);
  const Ran ran = finish(pid);
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_GT(check_wav(wav_), 0u);
  for (pid_t supervisor : supervisors) EXPECT_TRUE(is_gone(supervisor));
}

TEST_F(Cli, CtrlCWhileLoading) {
  const pid_t pid = start(program() + " " + speak() + "hi");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(pid, SIGINT);
  const Ran ran = finish(pid);
  // Before the handler is there the shell's own end by the signal; after it a clean end; or it was
  // done already.
  EXPECT_TRUE(ran.code == 130 || ran.code == 0 || ran.code == 1000 + SIGINT) << ran.code << ran.err;
  EXPECT_EQ(ran.err.find("died"), std::string::npos) << ran.err;
}

TEST_F(Cli, VersionHelpAndCheck) {
  EXPECT_EQ(run("--version").out, std::string("omnistage ") + oms_version_string() + "\n");
  const Ran help = run("speak --help");
  EXPECT_EQ(help.code, 0);
  for (const char* option :
       {"--deploy", "--out", "--play", "--system", "--temperature", "--top-k", "--top-p", "--seed",
        "--max-tokens", "--stop", "--speed", "--voice", "--quiet", "--json", "--text-only"}) {
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
  }
  const Ran check = run("check " + deploy_file());
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("echo"), std::string::npos);
  EXPECT_EQ(run("check /nonexistent/x.yaml").code, 2);
}

TEST_F(Cli, UpStatusAndAsk) {
  const std::string run_dir = dir_ + "/run";
  std::filesystem::create_directory(run_dir);
  const std::string up =
      program() + " up " + deploy_file() + " --run-dir " + run_dir + " >/dev/null 2>&1";
  const char* arguments[] = {"/bin/sh", "-c", up.c_str(), nullptr};
  const std::string line = "exec " + up;
  arguments[2] = line.c_str();
  pid_t pid = -1;
  ASSERT_EQ(
      ::posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  for (int i = 0; i < 6000 && !std::filesystem::exists(run_dir + "/omnistage.sock"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int i = 0; i < 2; ++i) {
    const Ran asked = run("ask --attach " + run_dir + " 'second hand'");
    EXPECT_EQ(asked.code, 0) << asked.err;
    EXPECT_EQ(asked.out, "second hand\n");
    EXPECT_EQ(check_wav(wav_), 11 * 1200u);
  }
  const Ran status = run("status --attach " + run_dir);
  EXPECT_EQ(status.code, 0);
  EXPECT_EQ(lines(status.out), 3) << status.out;
  EXPECT_NE(status.out.find("ready"), std::string::npos) << status.out;
  EXPECT_EQ(run("status --json --attach " + run_dir).out.front(), '{');
  ::kill(pid, SIGTERM);
  int code = 0;
  EXPECT_EQ(::waitpid(pid, &code, 0), pid);
  EXPECT_TRUE(WIFEXITED(code));
}

}  // namespace
}  // namespace echo
