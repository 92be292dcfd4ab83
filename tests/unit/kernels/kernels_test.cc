// Each kernel table against double-precision loops written here, and its independence of batch,
// tile split and KV blocks, bit for bit.
#include "stage_proc/models/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "stage_proc/models/kernels/half.h"
#include "stage_proc/models/kernels/pack.h"

namespace omnistage::kernels {
namespace {

struct Activations {
  Activations(int32_t rows, int32_t k)
      : q(static_cast<size_t>(rows * k)),
        scale(q.size() / kGroup),
        scaled(q.size() / kGroup),
        sum(q.size() / kGroup),
        view{k, q.data(), scale.data(), scaled.data(), sum.data()} {}
  std::vector<int8_t> q;
  std::vector<float> scale, scaled;
  std::vector<int32_t> sum;
  QuantRows view;
};

// A random GGUF matrix, packed, with its values.
struct Matrix {
  Matrix(int32_t n, int32_t k, bool eight_bit, uint32_t seed) {
    std::mt19937 random(seed);
    const int64_t row = eight_bit ? q8_0_row_bytes(k) : q4_1_row_bytes(k);
    std::vector<std::byte> raw(static_cast<size_t>(n * row));
    for (std::byte& b : raw) b = static_cast<std::byte>(random());
    const size_t block = eight_bit ? 34 : 20;
    for (size_t at = 0; at < raw.size(); at += block) {  // scales: finite halves of fair size
      raw[at + 1] = static_cast<std::byte>(0x20 | (random() & 0x87));
      if (!eight_bit) raw[at + 3] = static_cast<std::byte>(0x20 | (random() & 0x87));
    }
    q.resize(static_cast<size_t>(eight_bit ? packed_q8_bytes(n, k) : packed_q4_bytes(n, k)));
    scales.resize(static_cast<size_t>(eight_bit ? packed_q8_scales(n, k) : packed_q4_scales(n, k)));
    const int64_t tiles = n / kTileRows;
    for (int64_t t = 0; t < tiles; ++t) {
      auto* pack = eight_bit ? pack_tile_q8_0 : pack_tile_q4_1;
      pack(raw.data() + t * kTileRows * row, k, q.data() + t * (q.size() / tiles),
           scales.data() + t * (scales.size() / tiles));
    }
    q4 = {n, k, q.data(), scales.data()};
    q8 = {n, k, q.data(), scales.data()};
    values.resize(static_cast<size_t>(n) * static_cast<size_t>(k));
    for (int32_t r = 0; r < n; ++r) dequantize(raw.data() + r * row, k, eight_bit, r);
  }

  // From the file's blocks, so that packing is checked too.
  void dequantize(const std::byte* raw, int32_t k, bool eight_bit, int32_t row) {
    for (int32_t i = 0; i < k; ++i) {
      const std::byte* b = raw + i / 32 * (eight_bit ? 34 : 20);
      uint16_t d, m;
      std::memcpy(&d, b, 2);
      std::memcpy(&m, b + 2, 2);
      const int at = i % 32;
      double v;
      if (eight_bit) {
        v = half_to_float(d) * static_cast<int8_t>(b[2 + at]);
      } else {
        const int two = std::to_integer<int>(b[4 + at % 16]);
        v = double{half_to_float(d)} * (at < 16 ? two & 15 : two >> 4) + half_to_float(m);
      }
      values[static_cast<size_t>(row) * k + i] = v;
    }
  }

  std::vector<uint8_t> q;
  std::vector<uint16_t> scales;
  Q4Matrix q4;
  Q8Matrix q8;
  std::vector<double> values;
};

std::vector<float> random_floats(size_t count, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

class Kernels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto found = select_kernels(GetParam());
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    table_ = *found;
  }
  const KernelTable* table_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, Kernels, testing::ValuesIn(available_kernels()),
                         [](const auto& info) { return info.param; });

TEST_P(Kernels, QuantizeRoundsToTheNearestStep) {
  const int32_t k = 256;
  std::vector<float> x = random_floats(k, 1);
  std::fill_n(x.begin() + 64, 32, 0.0f);
  x[100] = -50.0f;  // an outlier owns its group
  Activations a(1, k);
  table_->quantize(x.data(), a.view);
  for (int32_t g = 0; g < k / kGroup; ++g) {
    float top = 0;
    int32_t sum = 0;
    for (int32_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      top = std::max(top, std::fabs(x[i]));
      sum += a.q[i];
      EXPECT_NEAR(x[i], a.scale[g] * a.q[i], a.scale[g] * 0.5001f);
      EXPECT_GE(a.q[i], -127);
    }
    EXPECT_FLOAT_EQ(a.scale[g], top / 127);
    EXPECT_EQ(a.sum[g], sum);
    EXPECT_EQ(a.scaled[g], a.scale[g] * static_cast<float>(sum));
  }
}

TEST_P(Kernels, SecondTermTakesWhatIsLeft) {
  const int32_t k = 128;
  const std::vector<float> x = random_floats(k, 2, 3.0f);
  Activations a(1, k), b(1, k);
  table_->quantize(x.data(), a.view);
  table_->quantize_rest(x.data(), a.view, b.view);
  for (int32_t i = 0; i < k; ++i) {
    const int32_t g = i / kGroup;
    EXPECT_NEAR(x[i], a.scale[g] * a.q[i] + b.scale[g] * b.q[i], a.scale[g] / 200);
  }
}

// Largest error against exact sums over the same int8 inputs, relative to the sum of magnitudes.
double linear_error(const Matrix& m, const Activations& a, int32_t rows, int32_t n,
                    const std::vector<float>& y, const std::vector<float>& before) {
  double worst = 0;
  const int32_t k = a.view.k;
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t o = 0; o < n; ++o) {
      double sum = 0, size = 1e-9;
      for (int32_t i = 0; i < k; ++i) {
        const double x = double{a.scale[(r * k + i) / kGroup]} * a.q[r * k + i];
        sum += m.values[static_cast<size_t>(o) * k + i] * x;
        size += std::fabs(m.values[static_cast<size_t>(o) * k + i] * x);
      }
      const size_t at = static_cast<size_t>(r) * n + o;
      worst = std::max(worst, std::fabs(sum + before[at] - y[at]) / (size + std::fabs(before[at])));
    }
  }
  return worst;
}

TEST_P(Kernels, LinearQ4EqualsPlainSums) {
  const int32_t rows = 13, n = 48, k = 192;
  const Matrix m(n, k, false, 3);
  const std::vector<float> x = random_floats(static_cast<size_t>(rows) * k, 4);
  Activations a(rows, k);
  for (int32_t r = 0; r < rows; ++r) table_->quantize(x.data() + r * k, a.view.from_row(r));
  std::vector<float> y(static_cast<size_t>(rows) * n, 7.0f);
  table_->linear_q4(m.q4, a.view, rows, 0, n / kTileRows, y.data(), n, false);
  EXPECT_LT(linear_error(m, a, rows, n, y, std::vector<float>(y.size())), 1e-6);
  std::vector<float> sum = random_floats(y.size(), 5);
  const std::vector<float> before = sum;
  table_->linear_q4(m.q4, a.view, rows, 0, n / kTileRows, sum.data(), n, true);
  EXPECT_LT(linear_error(m, a, rows, n, sum, before), 1e-6);
}

TEST_P(Kernels, LinearQ8EqualsPlainSums) {
  const int32_t rows = 11, n = 32, k = 128;
  const Matrix m(n, k, true, 6);
  const std::vector<float> x = random_floats(static_cast<size_t>(rows) * k, 7);
  Activations a(rows, k);
  for (int32_t r = 0; r < rows; ++r) table_->quantize(x.data() + r * k, a.view.from_row(r));
  std::vector<float> y(static_cast<size_t>(rows) * n);
  table_->linear_q8(m.q8, a.view, rows, 0, n / kTileRows, y.data(), n);
  EXPECT_LT(linear_error(m, a, rows, n, y, std::vector<float>(y.size())), 1e-6);
}

TEST_P(Kernels, ExtremeBytesDoNotOverflow) {
  const int32_t n = 16, k = 64;
  for (const bool eight_bit : {false, true}) {
    for (const int fill : {0x00, 0x80, 0xff}) {
      Matrix m(n, k, eight_bit, 8);
      std::fill(m.q.begin(), m.q.end(), static_cast<uint8_t>(fill));
      for (int32_t r = 0; r < n; ++r) {
        std::vector<float> row(k);
        eight_bit ? unpack_row_q8(m.q8, r, row.data()) : unpack_row_q4(m.q4, r, row.data());
        std::copy(row.begin(), row.end(), m.values.begin() + r * k);
      }
      for (const float value : {1.0f, -1.0f}) {
        const std::vector<float> x(k, value);
        Activations a(1, k);
        table_->quantize(x.data(), a.view);
        std::vector<float> y(n);
        if (eight_bit) {
          table_->linear_q8(m.q8, a.view, 1, 0, 1, y.data(), n);
        } else {
          table_->linear_q4(m.q4, a.view, 1, 0, 1, y.data(), n, false);
        }
        EXPECT_LT(linear_error(m, a, 1, n, y, std::vector<float>(n)), 2e-6) << fill;
      }
    }
  }
}

TEST_P(Kernels, RowsDoNotDependOnTheBatchOrTheSplit) {
  const int32_t rows = 21, n = 64, k = 96;
  const Matrix m4(n, k, false, 9), m8(n, k, true, 10);
  const std::vector<float> x = random_floats(static_cast<size_t>(rows) * k, 11);
  Activations a(rows, k);
  for (int32_t r = 0; r < rows; ++r) table_->quantize(x.data() + r * k, a.view.from_row(r));
  const int32_t tiles = n / kTileRows;
  std::vector<float> all4(static_cast<size_t>(rows) * n), all8(all4.size());
  table_->linear_q4(m4.q4, a.view, rows, 0, tiles, all4.data(), n, false);
  table_->linear_q8(m8.q8, a.view, rows, 0, tiles, all8.data(), n);
  for (int32_t count = 1; count <= 9; ++count) {
    for (int32_t first = 0; first + count <= rows; first += count) {
      std::vector<float> part(static_cast<size_t>(count) * n);
      for (int32_t t = 0; t < tiles; ++t) {
        table_->linear_q4(m4.q4, a.view.from_row(first), count, t, t + 1,
                          part.data() + t * kTileRows, n, false);
      }
      ASSERT_EQ(0, std::memcmp(part.data(), all4.data() + first * n, part.size() * sizeof(float)));
      table_->linear_q8(m8.q8, a.view.from_row(first), count, 0, tiles, part.data(), n);
      ASSERT_EQ(0, std::memcmp(part.data(), all8.data() + first * n, part.size() * sizeof(float)));
    }
  }
}

TEST_P(Kernels, NormRopeAndGate) {
  const int32_t n = 192;
  const std::vector<float> x = random_floats(n, 12, 4.0f), w = random_floats(n, 13);
  std::vector<float> y(n);
  table_->rms_norm(x.data(), w.data(), n, 1e-5f, y.data());
  double squares = 0;
  for (float v : x) squares += double{v} * v;
  for (int32_t i = 0; i < n; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / n + 1e-5) * w[i], 1e-5);
  }
  std::vector<float> gate = random_floats(n, 14, 30.0f);
  gate[0] = -200;
  gate[1] = 200;
  table_->swiglu(gate.data(), w.data(), n, y.data());
  for (int32_t i = 0; i < n; ++i) {
    const double want = gate[i] / (1 + std::exp(-double{gate[i]})) * w[i];
    EXPECT_NEAR(y[i], want, 1e-6 * (1 + std::fabs(want)));
  }
  std::vector<float> cos(64), sin(64), turned = x;
  for (int32_t i = 0; i < 64; ++i) {
    cos[i] = std::cos(0.1f * (i / 2));
    sin[i] = (i % 2 == 0 ? -1 : 1) * std::sin(0.1f * (i / 2));
  }
  table_->rope(turned.data(), cos.data(), sin.data(), 3, 64);
  for (int32_t i = 0; i < n; i += 2) {
    const double c = cos[i % 64], s = sin[i % 64 + 1];
    EXPECT_NEAR(turned[i], x[i] * c - x[i + 1] * s, 1e-5);
    EXPECT_NEAR(turned[i + 1], x[i] * s + x[i + 1] * c, 1e-5);
  }
}

// Keys and values of one head in blocks of any size, scattered.
struct Cache {
  Cache(const std::vector<float>& k, const std::vector<float>& v, int32_t length, int32_t dim,
        int32_t block_size, uint32_t seed)
      : stride((block_size + 15) / 16 * 16) {
    const int32_t blocks = (length + block_size - 1) / block_size;
    table.resize(static_cast<size_t>(blocks));
    std::iota(table.begin(), table.end(), 1);
    std::shuffle(table.begin(), table.end(), std::mt19937(seed));
    const int64_t floats = int64_t{dim} * (stride + block_size);
    data.assign(static_cast<size_t>((blocks + 1) * floats), NAN);  // unused places must not matter
    for (int32_t p = 0; p < length; ++p) {
      float* keys = data.data() + table[p / block_size] * floats;
      for (int32_t d = 0; d < dim; ++d) {
        keys[d * stride + p % block_size] = k[p * dim + d];
        keys[dim * stride + p % block_size * dim + d] = v[p * dim + d];
      }
    }
    view = {data.data(), data.data() + dim * stride, floats, table.data(), block_size, stride, dim};
  }
  int32_t stride;
  std::vector<float> data;
  std::vector<int32_t> table;
  KvView view;
};

TEST_P(Kernels, AttentionEqualsPlainSoftmaxWhateverTheBlocks) {
  const int32_t dim = 64, longest = 203;
  const std::vector<float> k = random_floats(longest * dim, 15),
                           v = random_floats(longest * dim, 16);
  const std::vector<float> q = random_floats(8 * dim, 17);
  const float scale = 0.125f;
  for (const int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 130, 203}) {
    for (const int32_t heads : {1, 2, 3, 4, 8}) {
      std::vector<float> scratch(static_cast<size_t>(attention_scratch(length, heads)), NAN);
      std::vector<float> first;
      for (const int32_t block_size : {16, 1, 5, 24, 32, 64, 256}) {
        const Cache cache(k, v, length, dim, block_size, 18);
        std::vector<float> out(static_cast<size_t>(heads * dim));
        table_->attention(cache.view, q.data(), heads, length, scale, scratch.data(), out.data());
        if (first.empty()) first = out;
        ASSERT_EQ(0, std::memcmp(first.data(), out.data(), out.size() * sizeof(float)))
            << "length " << length << " heads " << heads << " blocks of " << block_size;
      }
      for (int32_t h = 0; h < heads; ++h) {
        std::vector<double> weights(length);
        double total = 0;
        for (int32_t p = 0; p < length; ++p) {
          double dot = 0;
          for (int32_t d = 0; d < dim; ++d) dot += double{q[h * dim + d]} * k[p * dim + d];
          total += weights[p] = std::exp(dot * scale);
        }
        for (int32_t d = 0; d < dim; ++d) {
          double want = 0;
          for (int32_t p = 0; p < length; ++p) want += weights[p] / total * v[p * dim + d];
          ASSERT_NEAR(first[h * dim + d], want, 2e-5);
        }
      }
    }
  }
}

TEST(KernelSelection, NamesAreCheckedAndAutoIsTheBest) {
  const std::vector<std::string> names = available_kernels();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.front(), "scalar");
  EXPECT_EQ((*select_kernels("auto"))->name, names.back());
  const Status status = select_kernels("neon9").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("neon9"), std::string::npos);
  for (const char* name : {"avx2", "avx512vnni"}) {
    const auto found = select_kernels(name);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      EXPECT_NE(found.status().code(), StatusCode::kOk);
    } else {
      EXPECT_STREQ((*found)->name, name);
    }
  }
}

TEST(Half, EveryPatternIsExact) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const float got = half_to_float(static_cast<uint16_t>(h));
    if (exponent == 31) {
      EXPECT_TRUE(mantissa == 0 ? std::isinf(got) : std::isnan(got));
      continue;
    }
    const double size =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(got, h & 0x8000 ? -size : size) << h;
  }
}

TEST(Packing, UnpackedRowsEqualTheFile) {
  const int32_t n = 32, k = 96;
  const Matrix m4(n, k, false, 20), m8(n, k, true, 21);
  std::vector<float> row(k);
  for (int32_t r = 0; r < n; ++r) {
    unpack_row_q4(m4.q4, r, row.data());
    for (int32_t i = 0; i < k; ++i) EXPECT_FLOAT_EQ(row[i], m4.values[r * k + i]);
    unpack_row_q8(m8.q8, r, row.data());
    for (int32_t i = 0; i < k; ++i) EXPECT_FLOAT_EQ(row[i], m8.values[r * k + i]);
  }
}

TEST(PageBufferTest, AlignedZeroedAndRefusesNonsense) {
  auto made = PageBuffer::allocate(3u << 20, "test");
  ASSERT_TRUE(made.ok());
  PageBuffer buffer = std::move(made).value();
  EXPECT_GE(buffer.bytes(), 3u << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  for (uint64_t i = 0; i < buffer.bytes(); i += 4095) EXPECT_EQ(buffer.data()[i], std::byte{0});
  EXPECT_EQ(PageBuffer::allocate(UINT64_MAX - 5, "x").status().code(), StatusCode::kNoMemory);
  EXPECT_EQ(PageBuffer::allocate(uint64_t{1} << 60, "x").status().code(), StatusCode::kNoMemory);
}

}  // namespace
}  // namespace omnistage::kernels
