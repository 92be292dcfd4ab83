// The vectorised loops against plain ones, and the random words against the published test vectors.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "stage_proc/models/hibari/kernels.h"

namespace omnistage::hibari {
namespace base {
extern const Kernels kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
#endif

namespace {

std::vector<const Kernels*> usable() {
  std::vector<const Kernels*> all = {&base::kTable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&avx2::kTable);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    all.push_back(&avx512::kTable);
#endif
  return all;
}

struct Case {
  int64_t channels, kernel, dilation, rows;
};

void check(const Kernels& kernels, const Case& c) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = normal(random);
    return values;
  };
  const auto weight = draw(c.kernel * c.channels), bias = draw(c.channels), gain = draw(c.channels),
             shift = draw(c.channels), skip_bias = draw(c.channels);
  const auto input = draw((c.rows + (c.kernel - 1) * c.dilation) * c.channels);
  std::vector<float> normed(static_cast<size_t>(c.rows * c.channels)), skip(normed.size());
  kernels.depthwise_norm({weight.data(), bias.data(), gain.data(), shift.data(), skip_bias.data(),
                          c.channels, c.kernel, c.dilation},
                         input.data(), c.rows, normed.data(), skip.data());
  for (int64_t row = 0; row < c.rows; ++row) {
    std::vector<double> y(static_cast<size_t>(c.channels));
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < c.channels; ++i) {
      double sum = bias[static_cast<size_t>(i)];
      for (int64_t k = 0; k < c.kernel; ++k)
        sum += double{weight[static_cast<size_t>(k * c.channels + i)]} *
               input[static_cast<size_t>((row + k * c.dilation) * c.channels + i)];
      y[static_cast<size_t>(i)] = sum;
      mean += sum / static_cast<double>(c.channels);
    }
    for (double v : y) variance += (v - mean) * (v - mean) / static_cast<double>(c.channels);
    for (int64_t i = 0; i < c.channels; ++i) {
      const auto at = static_cast<size_t>(i);
      const double want = (y[at] - mean) / std::sqrt(variance + 1e-5) * gain[at] + shift[at];
      ASSERT_NEAR(normed[static_cast<size_t>(row * c.channels + i)], want, 2e-5) << kernels.name;
      const int64_t centre = (row + c.kernel / 2 * c.dilation) * c.channels + i;
      ASSERT_EQ(skip[static_cast<size_t>(row * c.channels + i)],
                input[static_cast<size_t>(centre)] + skip_bias[at]);
    }
  }
}

TEST(HibariKernels, DepthwiseNormEqualsAPlainLoop) {
  for (const Kernels* kernels : usable())
    for (const Case& c :
         {Case{128, 5, 1, 3}, Case{192, 7, 8, 2}, Case{256, 7, 1, 5}, Case{16, 5, 2, 1}})
      check(*kernels, c);
}

TEST(HibariKernels, PhiloxGivesThePublishedWords) {
  struct Vector {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> words;
  };
  // The known answers of Random123 for philox4x32 with 10 rounds.
  const Vector vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Kernels* kernels : usable())
    for (const Vector& v : vectors) {
      std::array<uint32_t, 4> words{};
      const uint32_t rest[3] = {v.counter[1], v.counter[2], v.counter[3]};
      kernels->philox(v.key.data(), v.counter[0], rest, 1, words.data());
      EXPECT_EQ(words, v.words) << kernels->name;
    }
}

TEST(HibariKernels, PhiloxBlocksFollowTheirCounter) {
  for (const Kernels* kernels : usable()) {
    const uint32_t key[2] = {1, 2}, rest[3] = {3, 4, 5};
    std::vector<uint32_t> many(4 * 301), one(4);
    kernels->philox(key, 10, rest, 301, many.data());
    for (uint32_t i : {0u, 1u, 15u, 16u, 300u}) {
      kernels->philox(key, 10 + i, rest, 1, one.data());
      EXPECT_TRUE(std::equal(one.begin(), one.end(), many.begin() + 4 * i)) << kernels->name;
    }
  }
}

}  // namespace
}  // namespace omnistage::hibari
