// Sampler against a plain double-precision reference: the set that filters leave, the distribution
// of draws (chi-square, fixed seeds), penalties, masks, and that a draw depends on seed and
// position only.
#include "stage_proc/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "stage_proc/sampling/philox.h"

namespace omnistage::sampling {
namespace {

using engine::SamplingParams;

// Probability of each id, straight from the definitions; 0 = filtered out.
std::vector<double> reference(const std::vector<float>& logits, const SamplingParams& p) {
  const size_t n = logits.size();
  std::vector<double> scaled(n), prob(n);
  for (size_t i = 0; i < n; ++i) scaled[i] = logits[i] / std::max(p.temperature, 0.01);
  const double best = *std::max_element(scaled.begin(), scaled.end());
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += prob[i] = std::exp(scaled[i] - best);
  for (double& x : prob) x /= total;
  const double border = p.min_p * *std::max_element(prob.begin(), prob.end());
  for (double& x : prob)
    if (x < border) x = 0;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return prob[a] > prob[b]; });
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < n) {
    const double kth = prob[order[static_cast<size_t>(p.top_k) - 1]];
    for (double& x : prob)
      if (x < kth) x = 0;
  }
  const double left = std::accumulate(prob.begin(), prob.end(), 0.0);
  double mass = 0;
  for (size_t i : order) {
    if (mass >= p.top_p * left && p.top_p < 1)
      prob[i] = 0;
    else
      mass += prob[i];
  }
  total = std::accumulate(prob.begin(), prob.end(), 0.0);
  for (double& x : prob) x /= total;
  return prob;
}

std::vector<float> random_logits(size_t n, uint64_t seed, float spread) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

int32_t draw(const SamplingParams& params, std::vector<float> logits, int32_t position) {
  SamplerScratch scratch;
  Sampler sampler(params, {}, {});
  Result<int32_t> token = sampler.sample(logits, position, scratch);
  EXPECT_TRUE(token.ok()) << token.status().to_string();
  return token.ok() ? *token : -1;
}

// Upper border of chi-square for a tail of about 1e-6 (Wilson-Hilferty).
double chi_square_border(double freedom) {
  const double z = 4.75, a = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1 - a + z * std::sqrt(a), 3);
}

void expect_distribution(const SamplingParams& base, const std::vector<float>& logits, int draws) {
  SamplingParams params = base;
  const std::vector<double> expected = reference(logits, params);
  std::vector<int> count(logits.size(), 0);
  for (int i = 0; i < draws; ++i) {
    params.seed = 1000 + static_cast<uint64_t>(i % 7);  // several seeds, many positions
    ++count[static_cast<size_t>(draw(params, logits, i))];
  }
  double chi = 0, rest_expected = 0, rest_count = 0;
  int cells = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(count[i], 0) << "id " << i << " was filtered out";
      continue;
    }
    const double e = expected[i] * draws;
    if (e < 8) {  // pooled: chi-square needs filled cells
      rest_expected += e;
      rest_count += count[i];
      continue;
    }
    chi += (count[i] - e) * (count[i] - e) / e;
    ++cells;
  }
  if (rest_expected >= 8) {
    chi += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++cells;
  }
  if (cells > 1) {
    EXPECT_LT(chi, chi_square_border(cells - 1));
  }
}

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(draw(params, {1, 5, 3, 5}, 0), 1);
  EXPECT_EQ(draw(params, {-1, -5, -1}, 3), 0);
}

TEST(Sampler, PlainSoftmaxIsDrawnFaithfully) {
  SamplingParams params;
  expect_distribution(params, random_logits(40, 1, 1.5f), 20000);
  params.temperature = 0.5;
  expect_distribution(params, random_logits(40, 2, 1.5f), 20000);
  params.temperature = 1.7;
  expect_distribution(params, random_logits(300, 3, 2.0f), 20000);
}

TEST(Sampler, FiltersAloneAndTogether) {
  const std::vector<float> logits = random_logits(200, 4, 2.0f);
  SamplingParams params;
  params.top_k = 5;
  expect_distribution(params, logits, 12000);
  params = {};
  params.top_p = 0.6;
  expect_distribution(params, logits, 12000);
  params = {};
  params.min_p = 0.1;
  expect_distribution(params, logits, 12000);
  params.top_k = 20;
  params.top_p = 0.8;
  params.temperature = 1.3;
  expect_distribution(params, logits, 12000);
}

TEST(Sampler, TopKKeepsEqualsOfTheLast) {
  SamplingParams params;
  params.top_k = 2;
  expect_distribution(params, {3, 2, 2, 2, 0, -1}, 8000);
}

TEST(Sampler, TinyTopPStillLeavesTheBest) {
  SamplingParams params;
  params.top_p = 1e-12;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(draw(params, {0, 0.1f, 0.05f}, i), 1);
}

// The vocabulary of the default model, sorted partly only: the same set as the full sort of the
// reference.
TEST(Sampler, LargeVocabularyLeavesTheReferenceSet) {
  const std::vector<float> logits = random_logits(49152, 5, 2.5f);
  for (auto [top_k, top_p, min_p] : std::vector<std::tuple<int32_t, double, double>>{
           {50, 1.0, 0.0}, {0, 0.9, 0.0}, {0, 0.3, 0.0}, {0, 1.0, 0.02}, {400, 0.7, 0.001}}) {
    SamplingParams params;
    params.top_k = top_k;
    params.top_p = top_p;
    params.min_p = min_p;
    const std::vector<double> expected = reference(logits, params);
    for (int i = 0; i < 40; ++i) {
      const int32_t token = draw(params, logits, i);
      EXPECT_GT(expected[static_cast<size_t>(token)], 0) << top_k << " " << top_p << " " << min_p;
    }
  }
}

TEST(Sampler, DrawIsAFunctionOfSeedAndPosition) {
  const std::vector<float> logits = random_logits(500, 6, 1.0f);
  SamplingParams params;
  params.seed = 42;
  SamplerScratch shared;
  Sampler a(params, {}, {});
  params.seed = 43;
  Sampler other(params, {}, {});
  std::vector<int32_t> first, second, others;
  for (int32_t i = 0; i < 64; ++i) {
    std::vector<float> row = logits;
    first.push_back(*a.sample(row, i, shared));
    row = logits;
    others.push_back(*other.sample(row, i, shared));
  }
  for (int32_t i = 63; i >= 0; --i) {  // any order
    std::vector<float> row = logits;
    second.insert(second.begin(), *a.sample(row, i, shared));
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, others);
  EXPECT_GT(std::set<int32_t>(first.begin(), first.end()).size(), 20u);
}

TEST(Sampler, PenaltiesFollowTheirFormulas) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5;
  params.frequency_penalty = 0.25;
  const std::vector<int32_t> prompt = {0, 1};
  Sampler sampler(params, prompt, {});
  sampler.accept(2);
  sampler.accept(2);
  sampler.accept(1);
  SamplerScratch scratch;
  std::vector<float> logits = {4, -4, 6, 1.9f};
  ASSERT_TRUE(sampler.sample(logits, 3, scratch).ok());
  EXPECT_FLOAT_EQ(logits[0], 2.0f);                        // prompt only: repetition
  EXPECT_FLOAT_EQ(logits[1], -8.0f - 0.5f - 0.25f);        // negative: multiplied
  EXPECT_FLOAT_EQ(logits[2], 3.0f - 0.5f - 0.25f * 2.0f);  // twice in the output
  EXPECT_FLOAT_EQ(logits[3], 1.9f);
}

TEST(Sampler, EndAndStopIdsAreMaskedUntilMinTokens) {
  SamplingParams params;
  params.temperature = 0;
  params.min_tokens = 2;
  params.stop_token_ids = {1};
  const std::vector<int32_t> eos = {0};
  Sampler sampler(params, {}, eos);
  SamplerScratch scratch;
  for (int32_t position : {0, 1}) {
    std::vector<float> logits = {9, 8, 1};
    EXPECT_EQ(*sampler.sample(logits, position, scratch), 2);
  }
  std::vector<float> logits = {9, 8, 1};
  EXPECT_EQ(*sampler.sample(logits, 2, scratch), 0);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (std::vector<float> logits :
       std::vector<std::vector<float>>{{1, std::nanf(""), 2}, {1, inf}, {-inf, -inf}}) {
    Sampler sampler({}, {}, {});
    SamplerScratch scratch;
    EXPECT_EQ(sampler.sample(logits, 0, scratch).status().code(), StatusCode::kInternal);
  }
  std::vector<float> masked = {-inf, 0, -inf};
  Sampler sampler({}, {}, {});
  SamplerScratch scratch;
  EXPECT_EQ(*sampler.sample(masked, 0, scratch), 1);
}

TEST(Sampler, VerySmallTemperaturesDoNotOverflow) {
  SamplingParams params;
  params.temperature = 1e-300;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(draw(params, {3e38f, -3e38f, 2e38f}, i), 0);
}

}  // namespace
}  // namespace omnistage::sampling
