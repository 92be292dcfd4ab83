// The numeric promise of ArModel on the real model, bit for bit, for every kernel table this CPU
// runs: chunks, batches, threads, block tables and block sizes do not change a row. And what
// forward() and the factory refuse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <vector>

#include "stage_proc/models/kernels/kernels.h"
#include "tests/golden/smollm2/model_dir.h"

namespace omnistage::models {
namespace {

constexpr int32_t kBlocks = 64;
constexpr size_t kPrompt = 75;
constexpr size_t kDecode = 3;

std::vector<int32_t> random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 49152);
  return ids;
}

std::vector<int32_t> shuffled_blocks(uint32_t seed) {
  std::vector<int32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(seed));
  return table;
}

std::unique_ptr<ArModel> load(const std::string& kernel, int32_t threads, int32_t block_size) {
  ArModelOptions options;
  options.kernel = kernel;
  options.threads = threads;
  auto model = load_test_model(options);
  if (model == nullptr) return nullptr;
  const Status status = model->init_kv(kBlocks, block_size);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return model;
}

using Logits = std::vector<std::vector<float>>;  // of the prompt's end and of each decode step

std::vector<float> step(ArModel* model, const std::vector<ArSequence>& batch, size_t rows) {
  std::vector<float> logits(rows * static_cast<size_t>(model->info().vocab_size), NAN);
  const Status status = model->forward(batch, logits);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return logits;
}

// The prompt in the given chunks, then token by token.
Logits run_alone(ArModel* model, const std::vector<int32_t>& ids, const std::vector<int32_t>& table,
                 const std::vector<size_t>& chunks) {
  const std::span<const int32_t> all(ids);
  Logits result;
  size_t at = 0;
  for (size_t chunk : chunks) {
    const bool last = at + chunk == kPrompt;
    auto logits = step(model, {{all.subspan(at, chunk), static_cast<int32_t>(at), table, last}},
                       last ? 1 : 0);
    at += chunk;
    if (last) result.push_back(std::move(logits));
  }
  for (; at < ids.size(); ++at) {
    result.push_back(step(model, {{all.subspan(at, 1), static_cast<int32_t>(at), table, true}}, 1));
  }
  return result;
}

// Between two other sequences: a longer prompt in front, one-token decodes behind.
Logits run_in_batch(ArModel* model, const std::vector<int32_t>& ids, size_t longer) {
  const std::vector<int32_t> blocks = shuffled_blocks(77);
  const std::span<const int32_t> all(ids);
  const std::span<const int32_t> mine = std::span(blocks).subspan(0, 10);
  const std::span<const int32_t> left = std::span(blocks).subspan(10, 30);
  const std::span<const int32_t> right = std::span(blocks).subspan(40, 10);
  const std::vector<int32_t> other = random_ids(longer + kDecode, 5);
  const std::span<const int32_t> noise(other);
  const size_t vocab = static_cast<size_t>(model->info().vocab_size);
  Logits result;
  step(model, {{noise.subspan(0, 20), 0, right, false}}, 0);
  auto logits = step(model,
                     {{noise.subspan(0, longer), 0, left, true},
                      {all.subspan(0, kPrompt), 0, mine, true},
                      {noise.subspan(20, 1), 20, right, true}},
                     3);
  result.emplace_back(logits.begin() + vocab, logits.begin() + 2 * vocab);
  for (size_t i = 0; i < kDecode; ++i) {
    const int32_t shift = static_cast<int32_t>(i);
    logits = step(
        model,
        {{noise.subspan(longer + i, 1), static_cast<int32_t>(longer) + shift, left, i % 2 == 0},
         {all.subspan(kPrompt + i, 1), static_cast<int32_t>(kPrompt) + shift, mine, true},
         {noise.subspan(21 + i, 1), 21 + shift, right, true}},
        i % 2 == 0 ? 3 : 2);
    const auto from = logits.begin() + (i % 2 == 0 ? vocab : 0);
    result.emplace_back(from, from + vocab);
  }
  return result;
}

void expect_same(const Logits& want, const Logits& got, const std::string& what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].size(), got[i].size()) << what;
    EXPECT_EQ(0, std::memcmp(want[i].data(), got[i].data(), want[i].size() * sizeof(float)))
        << what << ", step " << i;
  }
}

std::vector<size_t> random_chunks(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<size_t> chunks;
  for (size_t left = kPrompt; left > 0; left -= chunks.back()) {
    chunks.push_back(std::min<size_t>(left, 1 + random() % 17));
  }
  return chunks;
}

class Identity : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, Identity, testing::ValuesIn(kernels::available_kernels()),
                         [](const auto& info) { return info.param; });

TEST_P(Identity, ARowIsItsPrefixAndNothingElse) {
  const std::vector<int32_t> ids = random_ids(kPrompt + kDecode, 1);
  // Long enough that the batch takes two passes; short for the slow table.
  const size_t longer = GetParam() == "scalar" ? 40 : 290;
  Logits want;
  for (const int32_t threads : {1, 2}) {
    for (const int32_t block_size : {16, 7}) {
      const auto model = load(GetParam(), threads, block_size);
      ASSERT_NE(model, nullptr);
      const std::string label =
          "threads " + std::to_string(threads) + ", blocks of " + std::to_string(block_size);
      const Logits whole = run_alone(model.get(), ids, shuffled_blocks(2), {kPrompt});
      if (want.empty()) want = whole;
      expect_same(want, whole, label + ", whole prompt");
      expect_same(want,
                  run_alone(model.get(), ids, shuffled_blocks(3),
                            random_chunks(static_cast<uint32_t>(10 * threads + block_size))),
                  label + ", chunks");
      if (block_size == 16) {
        expect_same(want, run_in_batch(model.get(), ids, longer), label + ", batch");
      }
    }
  }
  EXPECT_NE(0, std::memcmp(want[0].data(), want[1].data(), want[0].size() * sizeof(float)));
}

class Refusals : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = load("auto", 1, 16).release(); }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(model_, nullptr); }

  void expect_refused(const ArSequence& bad, const std::string& part) {
    std::vector<float> logits(static_cast<size_t>(model_->info().vocab_size));
    const Status status = model_->forward({&bad, 1}, logits);
    EXPECT_EQ(status.code(), StatusCode::kInvalid);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  static ArModel* model_;
};
ArModel* Refusals::model_ = nullptr;

TEST_F(Refusals, ForwardNamesWhatIsWrong) {
  const std::vector<int32_t> table = shuffled_blocks(1);
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<int32_t> wide = {1, 49152}, negative = {-1};
  const std::vector<int32_t> bad_block = {kBlocks}, minus_block = {-1};
  expect_refused({{}, 0, table, true}, "no tokens");
  expect_refused({ids, -1, table, true}, "positions from -1");
  expect_refused({ids, 8190, table, true}, "exceed the model's length of 8192");
  expect_refused({ids, INT32_MAX, table, true}, "exceed");
  expect_refused({ids, 1022, table, true}, "block table has 64 of 65");
  expect_refused({ids, 0, bad_block, true}, "block 64");
  expect_refused({ids, 0, minus_block, true}, "block -1");
  expect_refused({wide, 0, table, true}, "token 49152");
  expect_refused({negative, 0, table, true}, "token -1");
  const ArSequence good = {ids, 0, table, true};
  std::vector<float> small(1000);
  EXPECT_EQ(model_->forward({&good, 1}, small).code(), StatusCode::kInvalid);
  EXPECT_FALSE(model_->init_kv(4, 16).ok());
}

TEST_F(Refusals, InfoIsThatOfTheFile) {
  EXPECT_EQ(model_->info().family, "smollm2");
  EXPECT_EQ(model_->info().vocab_size, 49152);
  EXPECT_EQ(model_->info().max_model_len, 8192);
  EXPECT_EQ(model_->info().eos_token_ids, std::vector<int32_t>{2});
  EXPECT_EQ(model_->info().kv_bytes_per_token, 30u * 2 * 192 * 4);
}

class Factory : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "oms_smollm2_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string error(const ArModelOptions& options) {
    const auto made = smollm2::make_smollm2(options);
    return made.ok() ? "accepted" : made.status().message();
  }
  std::string folder_;
};

TEST_F(Factory, RefusesBadOptionsAndFolders) {
  ArModelOptions options;
  options.model_dir = folder_;
  EXPECT_NE(error(options).find("holds no .gguf"), std::string::npos);
  std::ofstream(folder_ + "/a.gguf") << "GGUF";
  EXPECT_NE(error(options).find("a.gguf"), std::string::npos);
  std::ofstream(folder_ + "/b.gguf") << "GGUF";
  EXPECT_NE(error(options).find("more than one"), std::string::npos);
  options.model_dir = folder_ + "/none";
  EXPECT_NE(error(options).find("none"), std::string::npos);
  options.kernel = "sse9";
  EXPECT_NE(error(options).find("sse9"), std::string::npos);
  options.kernel = "auto";
  options.threads = 0;
  EXPECT_NE(error(options).find("threads is 0"), std::string::npos);
}

TEST_F(Factory, RefusesATruncatedModel) {
  std::string source;
  for (const auto& entry : std::filesystem::directory_iterator(test_model_dir())) {
    if (entry.path().extension() == ".gguf") source = entry.path().string();
  }
  ASSERT_FALSE(source.empty()) << test_model_dir();
  const std::string copy = folder_ + "/cut.gguf";
  std::filesystem::copy_file(source, copy);
  ArModelOptions options;
  options.model_dir = folder_;
  for (const uint64_t size : {90000000u, 2000000u, 1000000u, 100u, 10u}) {
    std::filesystem::resize_file(copy, size);
    EXPECT_NE(error(options).find("cut.gguf"), std::string::npos) << error(options);
  }
}

}  // namespace
}  // namespace omnistage::models
