// Simulation of three GenerationCores in a row (echo, echo_audio, echo_sink) with the edges between
// them: chunks wait, requests of one edge are mixed, aborts reach the stages at different times,
// outputs block, deadlines pass. What a finished request gave is the whole of its solo stream;
// every request ends once in every stage that it reached, or was removed there; nothing is left
// behind.
#include <array>
#include <deque>
#include <map>

#include "stage_proc/engine/generation_core.h"
#include "stage_proc/models/echo/echo.h"
#include "tests/sim/engine/sim_support.h"
#include "tests/unit/engine/recording_sink.h"

namespace omnistage::testing {
namespace {

using engine::GenerationCore;
using engine::GenerationCoreConfig;
using engine::RequestHeader;
using engine::StageChunk;

constexpr int kBusyRounds = 80;

struct Plan {
  RequestHeader header;
  std::string text;
  int repeat = 1;
  int arrival = 0;
  int abort_at = -1;
  bool admitted = false;
};

class Sine {
 public:
  // The tone of one character, as an echo_audio stage makes it.
  static const std::vector<float>& tone(char c) {
    static std::map<char, std::vector<float>> cache;
    std::vector<float>& tone = cache[c];
    if (tone.empty()) {
      HeapAllocator heap;
      auto model = models::make_echo_model({.family = "echo_audio"});
      auto stream = (*model)->open({});
      EXPECT_TRUE((*stream)->push({{"text", std::string(1, c)}}, true).ok());
      auto step = (*stream)->step(heap);
      const HostTensor& audio = std::get<HostTensor>(step->chunks.at(0).at("audio"));
      tone.assign(audio.as<float>(), audio.as<float>() + audio.elements());
    }
    return tone;
  }
};

// What the shell around a core does: hands chunks on, and an end with an error as an abort.
struct Stage {
  std::unique_ptr<GenerationCore> core;
  RecordingSink sink;
  std::map<RequestKey, size_t> handed_on;  // chunks already in the edge
  std::deque<StageChunk> inbox;
  std::deque<std::pair<int, RequestKey>> aborts;  // due round
};

class GenerationSimulation {
 public:
  explicit GenerationSimulation(uint64_t seed) : dice_(seed) {}

  void run() {
    const std::array<const char*, 3> families = {"echo", "echo_audio", "echo_sink"};
    for (size_t i = 0; i < 3; ++i) make_stage(i, families[i]);
    make_plans();
    for (int round = 0; round < kBusyRounds && !::testing::Test::HasFailure(); ++round) busy(round);
    finish();
    for (const Plan& plan : plans_) check(plan);
  }

 private:
  void make_stage(size_t index, const char* family) {
    GenerationCoreConfig config;
    config.max_num_seqs = static_cast<int32_t>(dice_.between(1, 5));
    config.max_open_streams = static_cast<int32_t>(config.max_num_seqs + dice_.between(0, 3));
    config.has_downstream = index < 2;
    auto model = models::make_echo_model({.family = family});
    auto core = GenerationCore::create(std::move(model).value(), heap_, config);
    ASSERT_TRUE(core.ok());
    stages_[index].core = std::move(core).value();
  }

  void make_plans() {
    const int64_t count = dice_.between(2, 10);
    for (int64_t i = 0; i < count; ++i) {
      Plan plan;
      plan.header.key = key(static_cast<uint64_t>(i));
      for (int64_t c = dice_.between(1, 24); c > 0; --c)
        plan.text += static_cast<char>(dice_.between('a', 'z'));
      plan.repeat = static_cast<int>(dice_.between(1, 3));
      plan.header.extra["echo_repeat"] = std::to_string(plan.repeat);
      plan.arrival = static_cast<int>(dice_.between(0, kBusyRounds / 2));
      if (dice_.chance(15)) plan.header.deadline_ns = plan.arrival * 100 + dice_.between(1, 5000);
      if (dice_.chance(25)) plan.abort_at = static_cast<int>(dice_.between(0, kBusyRounds - 1));
      plans_.push_back(std::move(plan));
    }
  }

  void busy(int round) {
    now_ += dice_.between(0, 200);
    for (Plan& plan : plans_) {
      const RequestKey& k = plan.header.key;
      if (plan.arrival == round) {
        engine::EntryInput input;
        input.text = plan.text;
        Status status = stages_[0].core->begin(plan.header, input, now_);
        plan.admitted = status.ok();
        if (!status.ok()) {
          EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.to_string();
        }
      }
      if (plan.abort_at == round)
        for (Stage& stage : stages_)
          stage.aborts.push_back({round + static_cast<int>(dice_.between(0, 5)), k});
      for (Stage& stage : stages_) {
        if (dice_.chance(5)) stage.sink.blocked.insert(k);
        if (dice_.chance(12)) stage.sink.blocked.erase(k);
      }
    }
    move_everything(round, false);
  }

  void move_everything(int round, bool all) {
    for (size_t i = 0; i < 3; ++i) {
      Stage& stage = stages_[i];
      std::erase_if(stage.aborts, [&](const auto& due) {
        if (due.first > round) return false;
        stage.core->abort(due.second);
        if (!stage.sink[due.second].ended()) stage.sink.removed.insert(due.second);
        return true;
      });
      for (int64_t n = all ? 1 << 20 : dice_.between(0, 4); n > 0 && !stage.inbox.empty(); --n) {
        stage.core->chunk(std::move(stage.inbox.front()), now_);
        stage.inbox.pop_front();
      }
      if (all || dice_.chance(80)) stage.core->step(now_, stage.sink);
      if (i < 2) hand_on(stage, stages_[i + 1], round);
    }
  }

  void hand_on(Stage& from, Stage& to, int round) {
    for (auto& [k, record] : from.sink.records) {
      size_t& handed = from.handed_on[k];
      for (; handed < record.chunks.size(); ++handed) to.inbox.push_back(record.chunks[handed]);
      if (record.ended() && !record.ends[0].status.ok() && !failed_.contains({&from, k})) {
        failed_.insert({&from, k});
        to.aborts.push_back({round + static_cast<int>(dice_.between(0, 5)), k});
      }
    }
  }

  bool idle() const {
    for (const Stage& stage : stages_)
      if (stage.core->has_work() || !stage.inbox.empty() || !stage.aborts.empty()) return false;
    return true;
  }

  void finish() {
    for (Stage& stage : stages_) stage.sink.blocked.clear();
    // Each round every open stream makes a step; streams that wait get a slot when others end.
    const int limit = static_cast<int>(plans_.size()) * 30 + 50;
    int round = kBusyRounds + 10;
    move_everything(round++, true);
    for (int i = 0; !idle(); ++i) {
      ASSERT_LT(i, limit) << "the stages do not come to an end";
      move_everything(round++, true);
    }
  }

  void check(const Plan& plan) {
    const RequestKey& k = plan.header.key;
    const bool aborted = plan.abort_at >= 0;
    std::string expected;
    for (int i = 0; i < plan.repeat; ++i) expected += plan.text;
    bool complete = plan.admitted;
    for (Stage& stage : stages_) {
      const Record& record = stage.sink[k];
      if (record.ended() && !record.ends[0].status.ok()) {
        EXPECT_EQ(record.ends[0].status.code(), StatusCode::kDeadline);
        EXPECT_NE(plan.header.deadline_ns, 0);
      }
      complete = complete && record.ended() && record.ends[0].status.ok();
    }
    if (plan.admitted && !aborted && plan.header.deadline_ns == 0) {
      EXPECT_TRUE(complete) << to_string(k);
    }
    EXPECT_TRUE(expected.starts_with(stages_[0].sink[k].text));
    EXPECT_TRUE(expected.starts_with(stages_[0].sink[k].chunk_text()));
    check_audio(expected, stages_[2].sink[k], complete);
    if (complete) {
      EXPECT_EQ(stages_[0].sink[k].text, expected);
    }
  }

  void check_audio(const std::string& expected, const Record& record, bool complete) {
    std::vector<float> all;
    for (char c : expected) all.insert(all.end(), Sine::tone(c).begin(), Sine::tone(c).end());
    ASSERT_LE(record.audio.size(), all.size());
    EXPECT_TRUE(std::equal(record.audio.begin(), record.audio.end(), all.begin()));
    if (complete) {
      EXPECT_EQ(record.audio.size(), all.size());
    }
  }

  Dice dice_;
  HeapAllocator heap_;
  std::array<Stage, 3> stages_;
  std::set<std::pair<const Stage*, RequestKey>> failed_;
  std::vector<Plan> plans_;
  int64_t now_ = 0;
};

TEST(SimGenerationCore, ThreeStagesGiveTheSoloStream) {
  for_each_seed(300, [](uint64_t seed) { GenerationSimulation(seed).run(); });
}

}  // namespace
}  // namespace omnistage::testing
