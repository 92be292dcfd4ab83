// The CUDA kernels against the scalar CPU table, bit for bit, through the plug-in as a stage loads
// it. Needs a CUDA device: without one every test fails and says so.
#include "stage_proc/models/kernels_cuda/kernels_cuda.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "stage_proc/models/kernels/pack.h"

namespace omnistage::kernels::cuda {
namespace {

// The plug-in beside this program, so that a build folder can be moved to another machine.
MakeCudaKernels plugin_entry() {
  static void* library = [] {
    const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
    return ::dlopen((build / "lib/omnistage" / kCudaPluginFile).c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  if (library == nullptr) return nullptr;
  return reinterpret_cast<MakeCudaKernels>(::dlsym(library, kCudaPluginSymbol));
}

template <typename T>
std::vector<T> to_host(CudaKernels& gpu, const DeviceMemory& memory) {
  std::vector<T> out(memory.bytes() / sizeof(T));
  const Status status = gpu.download(memory, 0, out.data(), memory.bytes());
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

template <typename T>
std::unique_ptr<DeviceMemory> to_device(CudaKernels& gpu, const std::vector<T>& from) {
  auto memory = gpu.allocate(from.size() * sizeof(T), "test");
  if (!memory.ok()) throw std::runtime_error(memory.status().to_string());  // ends the test
  const Status status = gpu.upload(**memory, 0, from.data(), from.size() * sizeof(T));
  EXPECT_TRUE(status.ok()) << status.to_string();
  return std::move(memory).value();
}

template <typename T>
void expect_same_bits(const std::vector<T>& expected, const std::vector<T>& got, const char* what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): -0 and 0 are not the same result here
    if (std::memcmp(&expected[i], &got[i], sizeof(T)) == 0) continue;
    if (++wrong == 1)
      ADD_FAILURE() << what << "[" << i << "]: " << +expected[i] << " / " << +got[i];
  }
  EXPECT_EQ(wrong, 0u) << what << ": of " << expected.size();
}

// Quantised rows on the host and, once uploaded, on the device.
struct Rows {
  Rows(int32_t rows, int32_t k)
      : q(static_cast<size_t>(rows) * static_cast<size_t>(k)),
        scale(q.size() / kGroup),
        scaled(q.size() / kGroup),
        sum(q.size() / kGroup),
        host{k, q.data(), scale.data(), scaled.data(), sum.data()} {}

  void upload(CudaKernels& gpu) {
    memory[0] = to_device(gpu, q);
    memory[1] = to_device(gpu, scale);
    memory[2] = to_device(gpu, scaled);
    memory[3] = to_device(gpu, sum);
    device = {host.k, static_cast<int8_t*>(memory[0]->data()),
              static_cast<float*>(memory[1]->data()), static_cast<float*>(memory[2]->data()),
              static_cast<int32_t*>(memory[3]->data())};
  }
  void expect_same_on_device(CudaKernels& gpu, const std::string& what) const {
    expect_same_bits(q, to_host<int8_t>(gpu, *memory[0]), (what + ".q").c_str());
    expect_same_bits(scale, to_host<float>(gpu, *memory[1]), (what + ".scale").c_str());
    expect_same_bits(scaled, to_host<float>(gpu, *memory[2]), (what + ".scaled_sum").c_str());
    expect_same_bits(sum, to_host<int32_t>(gpu, *memory[3]), (what + ".sum").c_str());
  }

  std::vector<int8_t> q;
  std::vector<float> scale, scaled;
  std::vector<int32_t> sum;
  QuantRows host;
  std::unique_ptr<DeviceMemory> memory[4];
  QuantRows device;
};

// Rows of another content, so that an output that no kernel wrote shows.
void spoil(Rows* rows) {
  std::fill(rows->q.begin(), rows->q.end(), int8_t{99});
  std::fill(rows->scale.begin(), rows->scale.end(), -1.0f);
  std::fill(rows->scaled.begin(), rows->scaled.end(), -1.0f);
  std::fill(rows->sum.begin(), rows->sum.end(), -99999);
}

// A random packed matrix: any bytes are weights; scales are halves of every size from subnormal to
// about 2, both signs.
struct Matrix {
  Matrix(int32_t n, int32_t k, bool eight_bit, uint32_t seed)
      : q(static_cast<size_t>(eight_bit ? packed_q8_bytes(n, k) : packed_q4_bytes(n, k))),
        scales(static_cast<size_t>(eight_bit ? packed_q8_scales(n, k) : packed_q4_scales(n, k))),
        q4{n, k, q.data(), scales.data()},
        q8{n, k, q.data(), scales.data()} {
    std::mt19937 random(seed);
    for (uint8_t& byte : q) byte = static_cast<uint8_t>(random());
    for (uint16_t& half : scales) half = static_cast<uint16_t>(random() & 0xbfff);
  }
  template <typename View>
  View upload(CudaKernels& gpu, const View& host) {
    memory[0] = to_device(gpu, q);
    memory[1] = to_device(gpu, scales);
    return {host.n, host.k, static_cast<const uint8_t*>(memory[0]->data()),
            static_cast<const uint16_t*>(memory[1]->data())};
  }
  std::vector<uint8_t> q;
  std::vector<uint16_t> scales;
  Q4Matrix q4;
  Q8Matrix q8;
  std::unique_ptr<DeviceMemory> memory[2];
};

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

// Random rows, those of three groups and more with values that round, vanish or dominate.
std::vector<float> odd_rows(int32_t rows, int32_t k, uint32_t seed) {
  std::vector<float> x = random_floats(static_cast<size_t>(rows) * static_cast<size_t>(k), seed);
  if (k < 3 * kGroup) return x;
  std::fill_n(x.begin(), kGroup, 0.0f);
  for (size_t i = 0; i < kGroup; ++i) x[kGroup + i] = (static_cast<float>(i) - 16) * 0.5f;
  x[kGroup] = 127.0f;  // scale 1: the halves behind it are ties
  if (rows > 1) {
    float* row = x.data() + k;
    row[0] = -1.0e4f;
    for (int i = 0; i < kGroup; ++i) row[kGroup + i] *= 1e-41f;  // subnormal
    row[2 * kGroup] = std::numeric_limits<float>::min();
  }
  return x;
}

class DeviceKernels : public testing::Test {
 protected:
  void SetUp() override {
    MakeCudaKernels make = plugin_entry();
    ASSERT_NE(make, nullptr) << "cannot load the plug-in: " << ::dlerror();
    auto made = make(kCudaPluginAbi, 0);
    ASSERT_TRUE(made.ok()) << "no CUDA device, nothing was tested: " << made.status().to_string();
    gpu_ = std::move(made).value();
    cpu_ = *select_kernels("scalar");
  }

  Rows quantised(int32_t rows, int32_t k, uint32_t seed) {
    Rows x(rows, k);
    const std::vector<float> from = odd_rows(rows, k, seed);
    for (int32_t r = 0; r < rows; ++r)
      cpu_->quantize(from.data() + int64_t{r} * k, x.host.from_row(r));
    x.upload(*gpu_);
    return x;
  }

  std::unique_ptr<CudaKernels> gpu_;
  const KernelTable* cpu_ = nullptr;
};

struct Shape {
  int32_t n;
  int32_t k;
};
// Query/key/value, output, gate with up, and down of SmolLM2-135M; then the smallest, one with a
// group count that is no multiple of 16, and a wide one.
constexpr Shape kShapes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536},
                             {16, 32},   {48, 544},  {32, 4096}};
constexpr int32_t kRowCounts[] = {1, 2, 7, 8, 9, 33, 64};

TEST_F(DeviceKernels, QuantizeEqualsScalarBitForBit) {
  for (const int32_t k : {32, 544, 576, 1536}) {
    for (const int32_t rows : {1, 3, 64}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(k));
      const std::vector<float> x = odd_rows(rows, k, 5);
      Rows first(rows, k), rest(rows, k);
      spoil(&first);
      spoil(&rest);
      first.upload(*gpu_);
      rest.upload(*gpu_);
      const auto device_x = to_device(*gpu_, x);
      const Status status = gpu_->quantize(
          {static_cast<const float*>(device_x->data()), k, rows, k}, first.device, &rest.device);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (int32_t r = 0; r < rows; ++r) {
        cpu_->quantize(x.data() + int64_t{r} * k, first.host.from_row(r));
        cpu_->quantize_rest(x.data() + int64_t{r} * k, first.host.from_row(r),
                            rest.host.from_row(r));
      }
      first.expect_same_on_device(*gpu_, "first");
      rest.expect_same_on_device(*gpu_, "rest");
    }
  }
}

TEST_F(DeviceKernels, NormQuantizeEqualsScalarBitForBit) {
  for (const int32_t k : {96, 576, 1536, 8192}) {
    for (const int32_t rows : {1, 5, 64}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(k));
      const std::vector<float> x = odd_rows(rows, k, 6);
      const std::vector<float> weight = random_floats(static_cast<size_t>(k), 7);
      std::vector<float> normed(x.size(), -1.0f);
      Rows first(rows, k), rest(rows, k);
      spoil(&first);
      spoil(&rest);
      first.upload(*gpu_);
      rest.upload(*gpu_);
      const auto device_x = to_device(*gpu_, x);
      const auto device_weight = to_device(*gpu_, weight);
      const auto device_normed = to_device(*gpu_, normed);
      const Status status = gpu_->norm_quantize(
          {static_cast<const float*>(device_x->data()), k, rows, k},
          static_cast<const float*>(device_weight->data()), 1e-5f,
          static_cast<float*>(device_normed->data()), first.device, &rest.device);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (int32_t r = 0; r < rows; ++r) {
        float* row = normed.data() + int64_t{r} * k;
        cpu_->rms_norm(x.data() + int64_t{r} * k, weight.data(), k, 1e-5f, row);
        cpu_->quantize(row, first.host.from_row(r));
        cpu_->quantize_rest(row, first.host.from_row(r), rest.host.from_row(r));
      }
      expect_same_bits(normed, to_host<float>(*gpu_, *device_normed), "normed");
      first.expect_same_on_device(*gpu_, "first");
      rest.expect_same_on_device(*gpu_, "rest");
    }
  }
}

TEST_F(DeviceKernels, LinearQ4EqualsScalarBitForBit) {
  for (const Shape& shape : kShapes) {
    Matrix w(shape.n, shape.k, false, 11);
    const Q4Matrix device_w = w.upload(*gpu_, w.q4);
    const int32_t tiles = shape.n / kTileRows;
    for (const int32_t rows : kRowCounts) {
      for (const bool add : {false, true}) {
        SCOPED_TRACE(std::to_string(shape.n) + " x " + std::to_string(shape.k) + ", " +
                     std::to_string(rows) + " rows" + (add ? ", add" : ""));
        Rows x = quantised(rows, shape.k, 12);
        std::vector<float> y =
            random_floats(static_cast<size_t>(rows) * static_cast<size_t>(shape.n), 13);
        const auto device_y = to_device(*gpu_, y);
        const Status status = gpu_->linear_q4(device_w, x.device, rows, 0, tiles,
                                              static_cast<float*>(device_y->data()), shape.n, add);
        ASSERT_TRUE(status.ok()) << status.to_string();
        cpu_->linear_q4(w.q4, x.host, rows, 0, tiles, y.data(), shape.n, add);
        expect_same_bits(y, to_host<float>(*gpu_, *device_y), "y");
      }
    }
  }
}

// The output layer; fewer rows, as only rows that are sampled get here.
TEST_F(DeviceKernels, LinearQ8EqualsScalarBitForBit) {
  for (const Shape& shape : {Shape{4096, 576}, Shape{16, 64}, Shape{48, 544}}) {
    Matrix w(shape.n, shape.k, true, 21);
    const Q8Matrix device_w = w.upload(*gpu_, w.q8);
    const int32_t tiles = shape.n / kTileRows;
    for (const int32_t rows : kRowCounts) {
      SCOPED_TRACE(std::to_string(shape.n) + " x " + std::to_string(shape.k) + ", " +
                   std::to_string(rows) + " rows");
      Rows x = quantised(rows, shape.k, 22);
      std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(shape.n), -7.0f);
      const auto device_y = to_device(*gpu_, y);
      const Status status = gpu_->linear_q8(device_w, x.device, rows, 0, tiles,
                                            static_cast<float*>(device_y->data()), shape.n);
      ASSERT_TRUE(status.ok()) << status.to_string();
      cpu_->linear_q8(w.q8, x.host, rows, 0, tiles, y.data(), shape.n);
      expect_same_bits(y, to_host<float>(*gpu_, *device_y), "y");
    }
  }
}

TEST_F(DeviceKernels, PartOfTheTilesLeavesTheRestAlone) {
  const int32_t n = 160, k = 576, rows = 9, begin = 3, end = 7, stride = 200;
  Matrix w(n, k, false, 31);
  const Q4Matrix device_w = w.upload(*gpu_, w.q4);
  Rows x = quantised(rows, k, 32);
  std::vector<float> y(static_cast<size_t>(rows) * stride, 3.25f);
  const auto device_y = to_device(*gpu_, y);
  const int64_t at = begin * kTileRows;
  const Status status = gpu_->linear_q4(device_w, x.device, rows, begin, end,
                                        static_cast<float*>(device_y->data()) + at, stride, false);
  ASSERT_TRUE(status.ok()) << status.to_string();
  cpu_->linear_q4(w.q4, x.host, rows, begin, end, y.data() + at, stride, false);
  expect_same_bits(y, to_host<float>(*gpu_, *device_y), "y");
}

TEST_F(DeviceKernels, BadArgumentsAreRefusedWithTheirLimit) {
  Matrix w(32, 64, false, 41);
  const Q4Matrix device_w = w.upload(*gpu_, w.q4);
  Rows x = quantised(2, 64, 42);
  const auto memory = to_device(*gpu_, std::vector<float>(128));
  float* y = static_cast<float*>(memory->data());
  const auto refused = [](const Status& status, const char* part) {
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << status.to_string();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused(gpu_->linear_q4(device_w, x.device, 0, 0, 2, y, 32, false), "rows must be in 1..65535");
  refused(gpu_->linear_q4(device_w, x.device, 2, 0, 3, y, 32, false), "tile_end must be in 1..2");
  refused(gpu_->linear_q4(device_w, x.device, 2, 2, 2, y, 32, false), "tile_begin");
  refused(gpu_->linear_q4(device_w, x.device, 2, 0, 2, y, 16, false), "y_stride");
  refused(gpu_->linear_q4(device_w, x.device, 2, 0, 2, nullptr, 32, false), "y is null");
  Q4Matrix narrow = device_w;
  narrow.k = 32;
  refused(gpu_->linear_q4(narrow, x.device, 2, 0, 2, y, 32, false), "rows of 64 inputs");
  narrow.k = 40;
  refused(gpu_->linear_q4(narrow, x.device, 2, 0, 2, y, 32, false), "multiple of 32");
  QuantRows shifted = x.device;
  shifted.q += 4;
  refused(gpu_->linear_q4(device_w, shifted, 1, 0, 2, y, 32, false), "aligned to 16");
  refused(gpu_->norm_quantize({y, 8224, 1, 8224}, y, 1e-5f, nullptr,
                              {8224, x.device.q, x.device.scale, x.device.scaled_sum, x.device.sum},
                              nullptr),
          "at most 8192");
  float word = 0;
  refused(gpu_->download(*memory, 510, &word, 4), "reach behind");
  EXPECT_TRUE(gpu_->synchronize().ok());
}

TEST_F(DeviceKernels, TooMuchMemoryIsAnErrorAndWorkGoesOn) {
  auto refused = gpu_->allocate(uint64_t{1} << 46, "a test");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kNoMemory) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("cudaMalloc"), std::string::npos);
  Rows x = quantised(1, 64, 51);
  Matrix w(16, 64, false, 52);
  const Q4Matrix device_w = w.upload(*gpu_, w.q4);
  std::vector<float> y(16);
  const auto device_y = to_device(*gpu_, y);
  ASSERT_TRUE(
      gpu_->linear_q4(device_w, x.device, 1, 0, 1, static_cast<float*>(device_y->data()), 16, false)
          .ok());
  cpu_->linear_q4(w.q4, x.host, 1, 0, 1, y.data(), 16, false);
  expect_same_bits(y, to_host<float>(*gpu_, *device_y), "y");
}

TEST_F(DeviceKernels, AnotherAbiOrDeviceIsRefused) {
  auto stale = plugin_entry()(kCudaPluginAbi + 1, 0);
  ASSERT_FALSE(stale.ok());
  EXPECT_NE(stale.status().message().find("rebuild both"), std::string::npos);
  auto missing = plugin_entry()(kCudaPluginAbi, 1000);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kInvalid) << missing.status().to_string();
}

}  // namespace
}  // namespace omnistage::kernels::cuda
