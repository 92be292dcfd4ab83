// Cutting a sentence into chunks must not change what is heard: properties of the acoustic model's
// and the vocoder's streams, and how they treat bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "stage_proc/models/hibari/frame_format.h"
#include "tests/unit/hibari/hibari_assets.h"

namespace omnistage::hibari {
namespace {

constexpr float kTolerance = 1e-4f;

float max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = a.size() == b.size() ? 0.0f : std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// Chunk sizes as a client could meet them: mostly 1..90, and runs of single frames.
std::vector<int64_t> random_split(std::mt19937& random) {
  std::vector<int64_t> sizes;
  const int64_t highest = std::vector<int64_t>{1, 3, 8, 90}[random() % 4];
  for (int i = 0; i < 16; ++i)
    sizes.push_back(1 + static_cast<int64_t>(random() % static_cast<uint64_t>(highest)));
  return sizes;
}

std::vector<float> vocode(const std::vector<float>& rows, const std::vector<int64_t>& sizes,
                          uint64_t seed, bool separate_end) {
  const int64_t total = static_cast<int64_t>(rows.size()) / kFrameValues;
  VocoderStream stream(counter_noise(seed), 3);
  std::vector<float> audio;
  const auto push = [&](int64_t at, int64_t count, bool last) {
    const auto samples = static_cast<size_t>(stream.samples_after(count, last));
    // Its own buffer for each push: a write past the promised samples is a sanitizer error.
    std::vector<float> piece(samples);
    const Status status = stream.push(rows.data() + at * kFrameValues, count, last, piece.data());
    EXPECT_TRUE(status.ok()) << status.to_string();
    audio.insert(audio.end(), piece.begin(), piece.end());
  };
  int64_t at = 0;
  for (size_t i = 0; at < total; ++i) {
    const int64_t count = std::min(total - at, sizes[i % sizes.size()]);
    push(at, count, !separate_end && at + count == total);
    at += count;
  }
  if (separate_end) push(at, 0, true);
  return audio;
}

// Speech-like rows without a network: moving spectra and an F0 curve with unvoiced stretches.
std::vector<float> made_up_rows(int64_t frames, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<size_t>(frames * kFrameValues));
  for (int64_t i = 0; i < frames; ++i) {
    float* row = rows.data() + i * kFrameValues;
    for (int64_t k = 0; k < kSpectrumValues; ++k) {
      const bool log_magnitude = k / kBins != 1 && k / kBins != 4;
      row[k] = log_magnitude ? -5.0f + normal(random) : normal(random);
    }
    row[kSpectrumValues] =
        i / 9 % 3 == 2 ? 0.0f : 180.0f + 60.0f * std::sin(static_cast<float>(i) * 0.1f);
  }
  return rows;
}

TEST(AcousticModelStream, FramesDoNotDependOnTheSplit) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  Status status;
  const std::vector<int64_t> ids = testing::sample_ids();
  const auto whole = testing::all_frames(*model, ids, 1.0, {kChunkFramesMax}, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_GT(whole.size(), 100u * kFrameValues);
  std::mt19937 random(1);
  for (int i = 0; i < 12; ++i) {
    const auto cut = testing::all_frames(*model, ids, 1.0, random_split(random), &status);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(whole == cut) << "split " << i << ", largest difference "
                              << max_difference(whole, cut);
  }
}

TEST(AcousticModelStream, FramesDoNotDependOnTheThreads) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  Status status;
  const auto one = testing::all_frames(*model, testing::sample_ids(), 1.3, {32, 64}, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  at::set_num_threads(2);
  const auto two = testing::all_frames(*model, testing::sample_ids(), 1.3, {90}, &status);
  at::set_num_threads(1);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(one == two) << "largest difference " << max_difference(one, two);
}

TEST(AcousticModelStream, SpeedScalesTheLength) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  const auto frames = [&](double speed) {
    auto sentence = model->start(testing::sample_ids(), speed);
    EXPECT_TRUE(sentence.ok()) << sentence.status().to_string();
    int64_t units = 0;
    for (int64_t d : (*sentence)->durations()) units += d;
    EXPECT_EQ((*sentence)->frames(), 2 * units);
    return static_cast<double>((*sentence)->frames());
  };
  EXPECT_NEAR(frames(0.5) / frames(1.0), 2.0, 0.2);
  EXPECT_NEAR(frames(2.0) / frames(1.0), 0.5, 0.1);
}

TEST(AcousticModelStream, RefusesBadInput) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  const auto code = [&](std::vector<int64_t> ids, double speed) {
    return model->start(ids, speed).status().code();
  };
  EXPECT_EQ(code({}, 1.0), StatusCode::kInvalid);
  EXPECT_EQ(code({0, 178, 0}, 1.0), StatusCode::kInvalid);
  EXPECT_EQ(code({0, -1, 0}, 1.0), StatusCode::kInvalid);
  EXPECT_EQ(code(std::vector<int64_t>(AcousticModel::kIdsMax + 1, 50), 1.0), StatusCode::kInvalid);
  EXPECT_EQ(code({0, 50, 0}, 0.49), StatusCode::kInvalid);
  EXPECT_EQ(code({0, 50, 0}, std::nan("")), StatusCode::kInvalid);

  auto sentence = model->start(std::vector<int64_t>{0, 50, 0}, 1.0);
  ASSERT_TRUE(sentence.ok());
  std::vector<float> rows(static_cast<size_t>((*sentence)->frames() * kFrameValues));
  EXPECT_EQ((*sentence)->next(0, rows.data()).code(), StatusCode::kInvalid);
  EXPECT_EQ((*sentence)->next((*sentence)->frames() + 1, rows.data()).code(), StatusCode::kInvalid);
  EXPECT_TRUE((*sentence)->next((*sentence)->frames(), rows.data()).ok());
  EXPECT_EQ((*sentence)->next(1, rows.data()).code(), StatusCode::kInvalid);
}

TEST(AcousticModelLoad, NamesTheMissingFile) {
  const auto model = AcousticModel::load("/nonexistent-model-folder");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("/nonexistent-model-folder/hibari.safetensors"),
            std::string::npos)
      << model.status().to_string();
}

TEST(VocoderStreamTest, AudioDoesNotDependOnTheSplit) {
  std::mt19937 random(2);
  for (int64_t frames : {1, 2, 3, 4, 5, 6, 7, 30, 131}) {
    const auto rows = made_up_rows(frames, random);
    const auto whole = vocode(rows, {kChunkFramesMax}, 7, false);
    ASSERT_EQ(static_cast<int64_t>(whole.size()), frames * kHop);
    float peak = 0;
    for (float sample : whole) peak = std::max(peak, std::fabs(sample));
    ASSERT_GT(peak, 1e-3f) << "silence proves nothing";
    for (int i = 0; i < 8; ++i) {
      const auto cut = vocode(rows, random_split(random), 7, i % 2 == 1);
      ASSERT_LE(max_difference(whole, cut), kTolerance) << frames << " frames, split " << i;
    }
  }
}

TEST(VocoderStreamTest, RealSpeechDoesNotDependOnTheSplit) {
  std::string error;
  const auto model = testing::acoustic_model(&error);
  ASSERT_NE(model, nullptr) << error;
  Status status;
  const auto rows =
      testing::all_frames(*model, testing::sample_ids(), 1.0, {kChunkFramesMax}, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto whole = vocode(rows, {kChunkFramesMax}, 11, false);
  std::mt19937 random(3);
  for (int i = 0; i < 6; ++i) {
    // Both stages cut, each in its own way.
    const auto cut_rows =
        testing::all_frames(*model, testing::sample_ids(), 1.0, random_split(random), &status);
    const auto cut = vocode(cut_rows, random_split(random), 11, false);
    ASSERT_LE(max_difference(whole, cut), kTolerance) << "split " << i;
  }
}

TEST(VocoderStreamTest, FirstAudioComesWithTheSixthFrame) {
  VocoderStream stream(counter_noise(1), 0);
  EXPECT_EQ(stream.samples_after(5, false), 0);
  EXPECT_EQ(stream.samples_after(6, false), kHop);
  EXPECT_EQ(stream.samples_after(5, true), 5 * kHop);
}

TEST(VocoderStreamTest, RefusesWhatComesAfterTheEnd) {
  std::mt19937 random(4);
  const auto rows = made_up_rows(2, random);
  VocoderStream stream(counter_noise(1), 0);
  std::vector<float> audio(2 * kHop);
  ASSERT_TRUE(stream.push(rows.data(), 2, true, audio.data()).ok());
  EXPECT_EQ(stream.push(rows.data(), 1, false, audio.data()).code(), StatusCode::kInvalid);
  VocoderStream other(counter_noise(1), 0);
  EXPECT_EQ(other.push(rows.data(), kChunkFramesMax + 1, false, audio.data()).code(),
            StatusCode::kInvalid);
  EXPECT_EQ(other.push(rows.data(), -1, false, audio.data()).code(), StatusCode::kInvalid);
}

TEST(NoiseTest, IsAFunctionOfSeedSentenceFrameAndBin) {
  constexpr size_t kRow = 2 * kBins;
  const auto draw = [](uint64_t seed, int64_t sentence, int64_t first, int64_t frames) {
    std::vector<float> z(static_cast<size_t>(frames) * kRow);
    counter_noise(seed)(sentence, first, frames, z.data());
    return z;
  };
  const auto block = draw(5, 1, 10, 4);
  const auto row = draw(5, 1, 12, 1);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), block.begin() + 2 * kRow));
  EXPECT_NE(row, draw(6, 1, 12, 1));
  EXPECT_NE(row, draw(5 + (uint64_t{1} << 32), 1, 12, 1));
  EXPECT_NE(row, draw(5, 2, 12, 1));
  EXPECT_NE(row, draw(5, 1, 13, 1));
}

TEST(NoiseTest, IsNormal) {
  std::vector<float> z(2 * kBins * 500);
  counter_noise(42)(0, 0, 500, z.data());
  double sum = 0, squares = 0, fourth = 0, product = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    ASSERT_TRUE(std::isfinite(z[i]));
    sum += z[i];
    squares += z[i] * z[i];
    fourth += z[i] * z[i] * z[i] * z[i];
    if (i % 2 == 0) product += z[i] * z[i + 1];
  }
  const auto n = static_cast<double>(z.size());
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 1.0, 0.01);
  EXPECT_NEAR(fourth / n, 3.0, 0.08);
  EXPECT_NEAR(2 * product / n, 0.0, 0.01);
}

}  // namespace
}  // namespace omnistage::hibari
