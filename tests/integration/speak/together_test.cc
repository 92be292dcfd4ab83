// Requests beside each other on the real models: nobody notices the others, whatever they do.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "shm/base/clock.h"
#include "tests/integration/speak/speak_client.h"

namespace omnistage::test {
namespace {

// One pipeline for all tests here, that several clients attach to.
class Together : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    mark_environment();
    folder = new TemporaryFolder();
    mark = new_mark();
    supervisor = start_supervisor({"--deploy", speak_deploy(), "--run-dir", run_dir()}, mark);
  }
  static void TearDownTestSuite() {
    ASSERT_GT(supervisor, 0);
    EXPECT_EQ(::kill(supervisor, SIGTERM), 0);
    EXPECT_EQ(wait_exit(supervisor), 0);
    EXPECT_TRUE(wait_gone(mark));
    delete folder;
  }
  static std::string run_dir() { return folder->path() + "/run"; }
  // The socket appears once the supervisor is up.
  static std::unique_ptr<SpeakClient> attach() {
    std::unique_ptr<SpeakClient> client;
    const bool attached = wait_until([&] {
      try {
        client = std::make_unique<SpeakClient>(Pipeline::attach(run_dir()));
      } catch (const Error&) {
        return false;
      }
      return true;
    });
    EXPECT_TRUE(attached) << "no supervisor at " << run_dir();
    if (client != nullptr && !client->wait_ready()) client.reset();
    return client;
  }
  void SetUp() override {
    client = attach();
    ASSERT_NE(client, nullptr);
  }

  static inline TemporaryFolder* folder = nullptr;
  static inline std::string mark;
  static inline pid_t supervisor = -1;
  std::unique_ptr<SpeakClient> client;
};

std::vector<Question> eight_questions() {
  const char* texts[] = {"Why is the sky blue?",
                         "Name three fruits.",
                         "What is a computer?",
                         "Tell me about the sea.",
                         "How do birds fly?",
                         "Write one sentence about winter.",
                         "What is the capital of France?",
                         "Count from one to five."};
  std::vector<Question> questions;
  for (size_t i = 0; i < std::size(texts); ++i) {
    Question question;
    question.text = texts[i];
    question.seed = 100 + i;
    question.max_tokens = 6 + static_cast<int>(i);
    if (i % 2 == 1) question.temperature = 0.8;
    questions.push_back(question);
  }
  return questions;
}

TEST_F(Together, EachOfEightEqualsItselfAloneAndOneMayGo) {
  const std::vector<Question> questions = eight_questions();
  std::vector<SpokenAnswer> alone;
  for (const Question& question : questions) {
    alone.push_back(client->ask(question));
    expect_complete(alone.back());
  }
  constexpr size_t kCancelled = 3;
  for (const bool cancel : {false, true}) {
    SCOPED_TRACE(cancel ? "one cancelled" : "all stay");
    std::vector<oms_request_id> ids;
    for (size_t i = 0; i < questions.size(); ++i) {
      Question question = questions[i];
      // The one that goes would talk for long: it is in the middle for sure.
      if (cancel && i == kCancelled) question.max_tokens = 2000;
      ids.push_back(client->submit(question));
    }
    if (cancel) {
      client->wait_audio(ids[kCancelled], 1);
      EXPECT_EQ(client->answers[ids[kCancelled]].finals, 0);
      client->cancel(ids[kCancelled]);
    }
    client->collect(ids);
    double worst = 0;
    for (size_t i = 0; i < questions.size(); ++i) {
      SCOPED_TRACE(questions[i].text);
      const SpokenAnswer& answer = client->answers[ids[i]];
      if (cancel && i == kCancelled) {
        EXPECT_EQ(answer.finals, 1);
        EXPECT_EQ(answer.final.status, OMS_E_CANCELLED) << answer.error.message;
        EXPECT_EQ(answer.disorder, "");
        continue;
      }
      expect_complete(answer);
      worst = std::max(worst, expect_same(answer, alone[i]));
    }
    std::printf("8 together (%s): largest difference of a sample from the run alone: %g\n",
                cancel ? "one cancelled" : "all stay", worst);
  }
}

TEST_F(Together, AClientThatNeverPollsStopsOnlyItself) {
  Question question;
  question.max_tokens = 24;
  // The median of five runs, each of which must be the same answer.
  SpokenAnswer expected = client->ask(question);
  expect_complete(expected);
  const auto timed = [&] {
    std::array<double, 5> seconds;
    for (double& one : seconds) {
      const int64_t start = monotonic_ns();
      const SpokenAnswer answer = client->ask(question);
      one = static_cast<double>(monotonic_ns() - start) / 1e9;
      expect_complete(answer);
      expect_same(answer, expected);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  const double alone_s = timed();

  std::unique_ptr<SpeakClient> silent = attach();
  ASSERT_NE(silent, nullptr);
  Question endless;
  endless.text = "Tell me a long story about a dog.";
  endless.max_tokens = 1500;
  std::vector<oms_request_id> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(silent->submit(endless));
  // A computes until its credit is used up; B runs beside it from the start.
  expect_same(client->ask(question), expected);
  const double beside_s = timed();
  std::printf("B alone %.3f s, beside a client that never polls %.3f s (%+.1f %%)\n", alone_s,
              beside_s, (beside_s / alone_s - 1) * 100);

  // What waited is still there and in order, and A can still be ended.
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(silent->take());
  for (oms_request_id id : ids) silent->cancel(id);
  silent->collect(ids);
  for (oms_request_id id : ids) {
    EXPECT_EQ(silent->answers[id].finals, 1);
    EXPECT_EQ(silent->answers[id].final.status, OMS_E_CANCELLED);
    EXPECT_EQ(silent->answers[id].disorder, "");
  }
}

TEST_F(Together, TheSameSeedGivesTheSameAnswer) {
  Question question;
  question.text = "Say something surprising.";
  question.temperature = 1.0;
  question.seed = 7;
  question.wanted = OMS_WANT_TEXT;
  const SpokenAnswer first = client->ask(question);
  expect_complete(first, OMS_WANT_TEXT);
  expect_same(client->ask(question), first);
  question.seed = 8;
  EXPECT_NE(client->ask(question).text, first.text);
}

TEST_F(Together, BadValuesAreNamedWithTheirRange) {
  struct Case {
    const char* what;
    Question question;
    std::vector<std::string> named;
  };
  std::vector<Case> cases(5);
  cases[0] = {"temperature", {}, {"temperature", "0", "2", "5"}};
  cases[0].question.temperature = 5;
  cases[1] = {"speed", {}, {"speed", "0.5", "2", "9"}};
  cases[1].question.params["speed"] = "9";
  cases[2] = {"voice", {}, {"voice", "nobody", "heart"}};
  cases[2].question.params["voice"] = "nobody";
  cases[3] = {"prompt", {}, {"prompt", "2048"}};
  for (int i = 0; i < 3000; ++i) cases[3].question.text += " word";
  cases[4] = {"max_tokens", {}, {"max_tokens", "1"}};
  cases[4].question.max_tokens = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    std::string message;
    try {
      const SpokenAnswer answer = client->ask(one.question);
      EXPECT_EQ(answer.finals, 1);
      EXPECT_EQ(answer.final.status, OMS_E_INVALID) << oms_status_name(answer.final.status);
      message = answer.error.message;
    } catch (const Error& error) {  // refused by submit already
      EXPECT_EQ(error.code(), OMS_E_INVALID);
      message = error.what();
    }
    std::printf("%s: %s\n", one.what, message.c_str());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    for (const std::string& word : one.named) {
      EXPECT_NE(message.find(word), std::string::npos) << message << " without " << word;
    }
  }
  expect_complete(client->ask({}));
}

}  // namespace
}  // namespace omnistage::test
