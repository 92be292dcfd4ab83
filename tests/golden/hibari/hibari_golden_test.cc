// The acoustic model and the vocoder against references made by make_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "stage_proc/models/safetensors.h"
#include "tests/unit/hibari/hibari_assets.h"

namespace omnistage::hibari {
namespace {

constexpr int64_t kFrameStep = 7, kColumnStep = 13, kColumnShift = 5;

SafetensorsFile golden(const std::string& name) {
  auto file = SafetensorsFile::open(std::string(OMS_SOURCE_DIR) + "/tests/golden/hibari/" + name);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  return std::move(file).value();
}

float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024.0f, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <typename T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
  auto view = file.get(name);
  EXPECT_TRUE(view.ok()) << view.status().to_string();
  if (!view.ok()) return {};
  if constexpr (std::is_same_v<T, float>) {
    if (view->dtype == Dtype::kF16) {
      std::vector<uint16_t> half(view->bytes / 2);
      std::memcpy(half.data(), view->data, view->bytes);
      std::vector<float> out(half.size());
      std::transform(half.begin(), half.end(), out.begin(), from_half);
      return out;
    }
  }
  std::vector<T> out(view->bytes / sizeof(T));
  std::memcpy(out.data(), view->data, view->bytes);
  return out;
}

class AcousticGolden : public ::testing::TestWithParam<int> {};

// A value passes when it is off by at most 1e-3 of the larger of itself and its component's RMS.
TEST_P(AcousticGolden, EqualsTheFloatReference) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  const SafetensorsFile file = golden("acoustic.safetensors");
  const std::string key = std::to_string(GetParam()) + ".";
  const auto ids = values<int64_t>(file, key + "ids");
  const auto f0 = values<float>(file, key + "f0");
  const auto rms = values<float>(file, key + "rms");
  const auto expected = values<float>(file, key + "values");
  Status status;
  const std::vector<float> rows =
      testing::all_frames(*model, ids, values<float>(file, key + "speed").at(0), {32, 64}, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto frames = static_cast<int64_t>(f0.size());
  ASSERT_EQ(static_cast<int64_t>(rows.size()), frames * kFrameValues) << "other number of frames";

  double worst = 0, worst_f0 = 0;
  for (int64_t i = 0; i < frames; ++i) {
    const double want = f0[static_cast<size_t>(i)];
    const double got = rows[static_cast<size_t>(i * kFrameValues + kSpectrumValues)];
    worst_f0 = std::max(worst_f0, std::fabs(got - want) / std::max(std::fabs(want), 40.0));
  }
  const int64_t picked = (frames + kFrameStep - 1) / kFrameStep;
  const int64_t columns = static_cast<int64_t>(expected.size()) / picked;
  for (int64_t r = 0; r < picked; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t column = (kColumnShift * kFrameStep * r + kColumnStep * c) % kSpectrumValues;
      const double want = expected[static_cast<size_t>(r * columns + c)];
      const double got = rows[static_cast<size_t>(r * kFrameStep * kFrameValues + column)];
      const double unit =
          std::max<double>(std::fabs(want), rms[static_cast<size_t>(column / kBins)]);
      worst = std::max(worst, std::fabs(got - want) / unit);
    }
  RecordProperty("relative_error", std::to_string(worst));
  EXPECT_LE(worst, 1e-3);
  EXPECT_LE(worst_f0, 1e-3);
  printf("  %lld frames, relative error %.2g, F0 %.2g\n", static_cast<long long>(frames), worst,
         worst_f0);
}

INSTANTIATE_TEST_SUITE_P(TenSentences, AcousticGolden, ::testing::Range(0, 10));

// Runs rows picked by `row_of` through the vocoder with the stored noise.
std::vector<float> synthesize(const std::vector<float>& frames, const std::vector<float>& noise,
                              const std::vector<float>& f0, int64_t step, int64_t noise_step,
                              int64_t chunk) {
  const auto total = static_cast<int64_t>(f0.size());
  const auto row = [](const std::vector<float>& all, int64_t i, int64_t width) {
    return all.data() + i % 40 * width;
  };
  VocoderStream stream(
      [&](int64_t, int64_t first, int64_t count, float* z) {
        for (int64_t i = 0; i < count; ++i)
          std::copy_n(row(noise, noise_step * (first + i), 2 * kBins), 2 * kBins,
                      z + i * 2 * kBins);
      },
      0);
  std::vector<float> audio(static_cast<size_t>(total * kHop));
  float* out = audio.data();
  for (int64_t at = 0; at < total; at += chunk) {
    const int64_t count = std::min(chunk, total - at);
    std::vector<float> rows(static_cast<size_t>(count * kFrameValues));
    for (int64_t i = 0; i < count; ++i) {
      float* to = rows.data() + i * kFrameValues;
      std::copy_n(row(frames, step * (at + i), kSpectrumValues), kSpectrumValues, to);
      to[kSpectrumValues] = f0[static_cast<size_t>(at + i)];
    }
    const bool last = at + count == total;
    const int64_t samples = stream.samples_after(count, last);
    const Status status = stream.push(rows.data(), count, last, out);
    EXPECT_TRUE(status.ok()) << status.to_string();
    out += samples;
  }
  EXPECT_EQ(out - audio.data(), total * kHop);
  return audio;
}

TEST(VocoderGolden, EqualsThePackage) {
  const SafetensorsFile file = golden("vocoder.safetensors");
  const auto want = values<float>(file, "audio");
  const auto got = synthesize(values<float>(file, "frames"), values<float>(file, "noise"),
                              values<float>(file, "f0"), 1, 1, 16);
  ASSERT_EQ(got.size(), want.size());
  float worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(got[i] - want[i]));
  printf("  max error %.2g, peak %.2g\n", worst, *std::max_element(want.begin(), want.end()));
  EXPECT_LE(worst, 1e-4f);
}

TEST(VocoderGolden, EqualsThePackageOnTenSeconds) {
  const SafetensorsFile file = golden("vocoder.safetensors");
  const auto want = values<float>(file, "long.audio");
  const auto got = synthesize(values<float>(file, "frames"), values<float>(file, "noise"),
                              values<float>(file, "long.f0"), 7, 11, 64);
  ASSERT_EQ((got.size() + 4) / 5, want.size());
  float worst = 0;
  for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(got[5 * i] - want[i]));
  printf("  max error %.2g\n", worst);
  EXPECT_LE(worst, 1e-4f);
}

}  // namespace
}  // namespace omnistage::hibari
