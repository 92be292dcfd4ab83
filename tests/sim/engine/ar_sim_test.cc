// Simulation of ArCore under a virtual clock: random arrivals, aborts, deadlines, outputs that
// nobody reads, pools that force preemption, random budgets. Whatever happens to a request, its
// stream is the beginning of its solo run, and all of it when it finishes; every admitted request
// ends once; nobody starves; the pool ends full.
#include <map>

#include "stage_proc/engine/ar_core.h"
#include "tests/sim/engine/sim_support.h"
#include "tests/unit/engine/recording_sink.h"
#include "tests/unit/engine/toy_model.h"

namespace omnistage::testing {
namespace {

using engine::ArCore;
using engine::ArCoreConfig;
using engine::EntryInput;
using engine::RequestHeader;

constexpr int kBusyRounds = 120;  // of arrivals and trouble; then everything is left to finish

struct Plan {
  RequestHeader header;
  EntryInput input;
  int arrival = 0;
  int abort_at = -1;  // round; -1 = never
  bool admitted = false;
};

// Models are kept over seeds: making one compiles its tokenizer.
std::shared_ptr<ToyModel> toy(uint64_t weights, bool for_solo) {
  static std::map<std::pair<uint64_t, bool>, std::shared_ptr<ToyModel>> cache;
  std::shared_ptr<ToyModel>& model = cache[{weights, for_solo}];
  if (!model) model = std::make_shared<ToyModel>(ToyOptions{.weights = weights});
  return model;
}

class ArSimulation {
 public:
  explicit ArSimulation(uint64_t seed) : dice_(seed), weights_(seed % 5) {}

  void run() {
    make_core();
    make_plans();
    for (int round = 0; round < kBusyRounds && !::testing::Test::HasFailure(); ++round) busy(round);
    finish();
    for (const Plan& plan : plans_)
      if (plan.admitted) check(plan);
  }

  uint64_t preemptions() const { return core_->preemptions(); }

 private:
  void make_core() {
    config_.max_num_seqs = static_cast<int32_t>(dice_.between(1, 8));
    config_.max_num_batched_tokens =
        static_cast<int32_t>(config_.max_num_seqs + dice_.between(0, 40));
    config_.max_model_len = static_cast<int32_t>(dice_.between(16, 90));
    config_.block_size = static_cast<int32_t>(dice_.between(1, 9));
    const int32_t least = (config_.max_model_len + config_.block_size - 1) / config_.block_size;
    config_.num_blocks = static_cast<int32_t>(dice_.between(least, 3 * least));
    config_.max_waiting = static_cast<int32_t>(dice_.between(3, 20));
    config_.has_downstream = dice_.chance(70);
    auto core = ArCore::create(toy(weights_, false), config_);
    ASSERT_TRUE(core.ok()) << core.status().to_string();
    core_ = std::move(core).value();
  }

  void make_plans() {
    const int64_t count = dice_.between(2, 14);
    for (int64_t i = 0; i < count; ++i) {
      Plan plan;
      RequestHeader& h = plan.header;
      h.key = key(static_cast<uint64_t>(i), static_cast<uint32_t>(dice_.between(0, 2)));
      h.modalities = static_cast<uint32_t>(dice_.between(1, 3));
      h.sampling = random_sampling();
      plan.arrival = static_cast<int>(dice_.between(0, kBusyRounds / 2));
      if (dice_.chance(15)) h.deadline_ns = plan.arrival * 100 + dice_.between(1, 6000);
      if (dice_.chance(20)) plan.abort_at = static_cast<int>(dice_.between(0, kBusyRounds - 1));
      const int64_t length = dice_.between(1, config_.max_model_len - 1);
      for (int64_t t = 0; t < length; ++t)
        plan.input.token_ids.push_back(static_cast<int32_t>(dice_.between(0, 279)));
      plans_.push_back(std::move(plan));
    }
  }

  engine::SamplingParams random_sampling() {
    engine::SamplingParams p;
    p.seed = dice_.word();
    p.temperature = dice_.chance(30) ? 0.0 : static_cast<double>(dice_.between(1, 20)) / 10;
    if (dice_.chance(40)) p.top_k = static_cast<int32_t>(dice_.between(1, 60));
    if (dice_.chance(40)) p.top_p = static_cast<double>(dice_.between(1, 10)) / 10;
    if (dice_.chance(20)) p.min_p = 0.05;
    if (dice_.chance(30)) p.repetition_penalty = 1.3;
    if (dice_.chance(30)) p.frequency_penalty = 0.4;
    p.max_tokens = static_cast<int32_t>(dice_.between(1, 70));
    if (dice_.chance(30)) p.min_tokens = static_cast<int32_t>(dice_.between(0, p.max_tokens));
    if (dice_.chance(40)) p.stop = {" blue because", "3.14", ".\n"};
    if (dice_.chance(30)) p.stop_token_ids = {270, 65};
    p.include_stop_str_in_output = dice_.chance(50);
    p.ignore_eos = dice_.chance(30);
    return p;
  }

  void busy(int round) {
    now_ += dice_.between(0, 200);
    for (Plan& plan : plans_) {
      if (plan.arrival == round && !sink_.removed.contains(plan.header.key)) admit(plan);
      if (plan.abort_at == round) {
        core_->abort(plan.header.key);
        if (!sink_[plan.header.key].ended()) sink_.removed.insert(plan.header.key);
      }
      if (dice_.chance(6)) sink_.blocked.insert(plan.header.key);
      if (dice_.chance(12)) sink_.blocked.erase(plan.header.key);
    }
    if (core_->has_work() || dice_.chance(50)) step();
  }

  void admit(Plan& plan) {
    Status status = core_->begin(plan.header, plan.input, now_);
    plan.admitted = status.ok();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kFull) << status.to_string();
    }
  }

  void step() {
    core_->step(now_, sink_);
    core_->pool().check_invariants();
    const engine::CoreStats stats = core_->stats();
    EXPECT_EQ(stats.total_blocks, static_cast<uint32_t>(config_.num_blocks));
    EXPECT_LE(stats.waiting, static_cast<uint32_t>(config_.max_waiting) + stats.total_blocks);
  }

  void finish() {
    sink_.blocked.clear();
    step();
    // The oldest request gets at least one token a step, so all of them together cannot take longer
    // than this.
    const int limit = static_cast<int>(plans_.size()) * 2 * config_.max_model_len + 10;
    drain(*core_, sink_, now_, limit);
    EXPECT_EQ(core_->pool().used(), 0);
    core_->pool().check_invariants();
    EXPECT_EQ(core_->stats().running + core_->stats().waiting, 0u);
    EXPECT_EQ(core_->next_deadline_ns(), kNever);
  }

  void check(const Plan& plan) {
    const Record& got = sink_[plan.header.key];
    if (sink_.removed.contains(plan.header.key)) {
      EXPECT_FALSE(got.ended());
    } else {
      ASSERT_EQ(got.ends.size(), 1u) << to_string(plan.header.key);
    }
    RecordingSink solo_sink;
    const Record& solo = run_solo(plan, solo_sink);
    ASSERT_EQ(solo.ends.size(), 1u);
    if (got.ended() && got.ends[0].status.ok()) {
      EXPECT_EQ(got.token_ids, solo.token_ids);
      EXPECT_EQ(got.pieces, solo.pieces);
      EXPECT_EQ(got.ends[0].reason, solo.ends[0].reason);
      EXPECT_EQ(got.ends[0].usage.output_tokens, solo.ends[0].usage.output_tokens);
      EXPECT_EQ(got.chunk_text(), solo.chunk_text());
      if ((plan.header.modalities & engine::kModalityText) != 0 && !got.chunks.empty()) {
        EXPECT_EQ(got.chunk_text(), got.text);
      }
      return;
    }
    if (got.ended()) {
      EXPECT_EQ(got.ends[0].status.code(), StatusCode::kDeadline);
      EXPECT_NE(plan.header.deadline_ns, 0);
    }
    ASSERT_LE(got.pieces.size(), solo.pieces.size());
    EXPECT_TRUE(std::equal(got.pieces.begin(), got.pieces.end(), solo.pieces.begin()));
    ASSERT_LE(got.token_ids.size(), solo.token_ids.size());
    EXPECT_TRUE(std::equal(got.token_ids.begin(), got.token_ids.end(), solo.token_ids.begin()));
    EXPECT_TRUE(solo.chunk_text().starts_with(got.chunk_text()));
  }

  const Record& run_solo(const Plan& plan, RecordingSink& sink) {
    ArCoreConfig config;
    config.max_num_seqs = 1;
    config.max_model_len = config_.max_model_len;
    config.has_downstream = config_.has_downstream;
    auto core = ArCore::create(toy(weights_, true), config);
    RequestHeader h = plan.header;
    h.deadline_ns = 0;
    EXPECT_TRUE((*core)->begin(h, plan.input, 0).ok());
    drain(**core, sink);
    return sink[h.key];
  }

  Dice dice_;
  uint64_t weights_;
  ArCoreConfig config_;
  std::unique_ptr<ArCore> core_;
  RecordingSink sink_;
  std::vector<Plan> plans_;
  int64_t now_ = 0;
};

TEST(SimArCore, StreamsEqualTheirSoloRuns) {
  uint64_t preemptions = 0;
  for_each_seed(300, [&](uint64_t seed) {
    ArSimulation simulation(seed);
    simulation.run();
    preemptions += simulation.preemptions();
  });
  RecordProperty("preemptions", std::to_string(preemptions));
  if (environment_number("OMS_SIM_SEEDS", 300) >= 300) {
    EXPECT_GT(preemptions, 100u) << "the pools are too large to test preemption";
  }
}

}  // namespace
}  // namespace omnistage::testing
