// Speed of the thinker model alone: prompt processing, decode of one and of eight sequences.
//
//   bench_thinker [--model DIR] [--kernel NAME] [--threads N] [--json FILE] [--repeat N]
//
// The workload is the common one for this model: random prompts of 128 and 512 tokens (best of
// `repeat` after a warm-up), 64 tokens after a prompt of 128, and 32 steps of 8 sequences after
// prompts of 128. Prints a table; --json appends one line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "stage_proc/config/deploy_config.h"
#include "stage_proc/models/smollm2/smollm2.h"

namespace omnistage::models {
namespace {

constexpr int32_t kBlock = 16;
constexpr int32_t kBlocks = 256;

struct Options {
  ArModelOptions model;
  std::string json;
  int repeat = 3;
};

double now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(t).count();
}

class Bench {
 public:
  explicit Bench(ArModel* model) : model_(model) {
    logits_.resize(size_t{8} * static_cast<size_t>(model->info().vocab_size));
    table_.resize(kBlocks);
    std::iota(table_.begin(), table_.end(), 0);
  }

  double prompt(int32_t tokens, int repeat) {
    const std::vector<int32_t> ids = random_ids(tokens);
    double best = 1e30;
    for (int i = 0; i <= repeat; ++i) {
      const double start = now();
      step({{ids, 0, table_, true}});
      if (i > 0) best = std::min(best, now() - start);
    }
    return tokens / best;
  }

  double decode_one() {
    const std::vector<int32_t> ids = random_ids(128);
    step({{ids, 0, table_, true}});
    double start = 0;
    for (int32_t i = 0; i < 68; ++i) {
      if (i == 4) start = now();
      const std::vector<int32_t> next = random_ids(1);
      step({{next, 128 + i, table_, true}});
    }
    return 64 / (now() - start);
  }

  double decode_eight() {
    constexpr size_t kBlocksEach = 16;
    const std::span<const int32_t> all(table_);
    for (size_t s = 0; s < 8; ++s) {
      const std::vector<int32_t> ids = random_ids(128);
      step({{ids, 0, all.subspan(s * kBlocksEach, kBlocksEach), true}});
    }
    double start = 0;
    for (int32_t i = 0; i < 34; ++i) {
      if (i == 2) start = now();
      const std::vector<int32_t> next = random_ids(8);
      std::vector<ArSequence> batch;
      for (size_t s = 0; s < 8; ++s) {
        batch.push_back({std::span<const int32_t>(next).subspan(s, 1), 128 + i,
                         all.subspan(s * kBlocksEach, kBlocksEach), true});
      }
      step(batch);
    }
    return 8 * 32 / (now() - start);
  }

 private:
  std::vector<int32_t> random_ids(int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = 100 + static_cast<int32_t>(random_() % 40000);
    return ids;
  }
  void step(const std::vector<ArSequence>& batch) {
    const Status status = model_->forward(batch, logits_);
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::exit(1);
  }

  ArModel* model_;
  std::mt19937 random_{1};
  std::vector<float> logits_;
  std::vector<int32_t> table_;
};

std::string default_model_dir() {
  return config::default_cache_dir() + "/models/smollm2-135m-instruct";
}

bool parse(int argc, char** argv, Options* options) {
  options->model.model_dir = default_model_dir();
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--model")
      options->model.model_dir = value;
    else if (name == "--kernel")
      options->model.kernel = value;
    else if (name == "--threads")
      options->model.threads = std::atoi(value);
    else if (name == "--json")
      options->json = value;
    else if (name == "--repeat")
      options->repeat = std::max(1, std::atoi(value));
    else
      return false;
  }
  return true;
}

int run(const Options& options) {
  const double start = now();
  auto made = smollm2::make_smollm2(options.model);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().to_string().c_str());
    return 1;
  }
  const double load = now() - start;
  std::unique_ptr<ArModel> model = std::move(made).value();
  const Status kv = model->init_kv(kBlocks, kBlock);
  if (!kv.ok()) {
    std::fprintf(stderr, "%s\n", kv.to_string().c_str());
    return 1;
  }
  Bench bench(model.get());
  const double p128 = bench.prompt(128, options.repeat);
  const double p512 = bench.prompt(512, options.repeat);
  const double one = bench.decode_one();
  const double eight = bench.decode_eight();
  const char* kernel = options.model.kernel.c_str();
  std::printf("| kernel | threads | load s | prompt 128 | prompt 512 | decode 1 | decode 8 |\n");
  std::printf("| %s | %d | %.3f | %.1f | %.1f | %.1f | %.1f |\n", kernel, options.model.threads,
              load, p128, p512, one, eight);
  if (options.json.empty()) return 0;
  std::FILE* out = std::fopen(options.json.c_str(), "a");
  if (out == nullptr) {
    std::perror(options.json.c_str());
    return 1;
  }
  std::fprintf(out,
               "{\"bench\":\"thinker\",\"kernel\":\"%s\",\"threads\":%d,\"load_s\":%.4f,"
               "\"prompt128\":%.2f,\"prompt512\":%.2f,\"decode1\":%.2f,\"decode8\":%.2f}\n",
               kernel, options.model.threads, load, p128, p512, one, eight);
  return std::fclose(out) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace omnistage::models

int main(int argc, char** argv) {
  omnistage::models::Options options;
  if (!omnistage::models::parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s [--model DIR] [--kernel auto|scalar|avx2|avx512vnni] [--threads N]"
                 " [--repeat N] [--json FILE]\n",
                 argv[0]);
    return 2;
  }
  return omnistage::models::run(options);
}
