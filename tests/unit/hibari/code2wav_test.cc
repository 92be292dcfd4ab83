// The code2wav stage as the engine sees it: payloads in, audio out, and one clear error for each
// way a payload can be wrong.
#include "stage_proc/models/hibari/code2wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "stage_proc/models/hibari/frame_format.h"
#include "tests/unit/hibari/hibari_assets.h"

namespace omnistage::hibari {
namespace {

HostTensor made_up_frames(int64_t frames, int64_t first) {
  HeapAllocator heap;
  HostTensor tensor = heap.allocate(DType::kF32, {frames, kFrameValues}).value();
  for (int64_t i = 0; i < frames; ++i) {
    float* row = tensor.as<float>() + i * kFrameValues;
    for (int64_t k = 0; k < kSpectrumValues; ++k)
      row[k] =
          std::sin(static_cast<float>((first + i) * 31 + k)) - (k / kBins % 3 == 0 ? 5.0f : 4.0f);
    row[kSpectrumValues] = 200.0f;
  }
  return tensor;
}

engine::Payload payload(HostTensor frames, int64_t sentence, int64_t offset, bool finished) {
  engine::Payload entries;
  entries.emplace(kKeyFrames, std::move(frames));
  entries.emplace(kKeySentence, sentence);
  entries.emplace(kKeyFrameOffset, offset);
  entries.emplace(kKeySentenceFinished, int64_t{finished});
  return entries;
}

std::unique_ptr<models::GenerationStream> open(Code2WavModel& model, uint64_t seed = 1) {
  engine::RequestHeader header;
  header.sampling.seed = seed;
  auto stream = model.open(header);
  EXPECT_TRUE(stream.ok()) << stream.status().to_string();
  return std::move(stream).value();
}

// Two sentences of 40 and 17 frames in pieces of `chunk`.
std::vector<float> speak(models::GenerationStream& stream, int64_t chunk, size_t* pieces) {
  HeapAllocator heap;
  std::vector<float> audio;
  const auto drain = [&] {
    for (bool more = true; more;) {
      auto step = stream.step(heap);
      ASSERT_TRUE(step.ok()) << step.status().to_string();
      EXPECT_TRUE(step->chunks.empty());
      for (const engine::StageOutput& output : step->outputs) {
        EXPECT_EQ(output.kind, engine::OutputKind::kAudio);
        EXPECT_EQ(output.sample_rate, 24000u);
        ASSERT_EQ(output.tensor.shape.size(), 1u);
        ASSERT_GT(output.tensor.shape[0], 0);
        const float* samples = output.tensor.as<float>();
        audio.insert(audio.end(), samples, samples + output.tensor.shape[0]);
        ++*pieces;
      }
      more = step->more;
    }
  };
  const int64_t lengths[] = {40, 17};
  for (int64_t sentence = 0; sentence < 2; ++sentence)
    for (int64_t at = 0; at < lengths[sentence]; at += chunk) {
      const int64_t count = std::min(chunk, lengths[sentence] - at);
      const bool end = at + count == lengths[sentence];
      const Status status =
          stream.push(payload(made_up_frames(count, at), sentence, at, end), sentence == 1 && end);
      EXPECT_TRUE(status.ok()) << status.to_string();
      drain();
    }
  return audio;
}

TEST(Code2Wav, AudioDoesNotDependOnThePayloads) {
  Code2WavModel model;
  ASSERT_TRUE(model.warm_up().ok());
  size_t pieces = 0;
  const auto whole = speak(*open(model), 100, &pieces);
  EXPECT_EQ(whole.size(), (40u + 17u) * kHop);
  EXPECT_EQ(pieces, 2u);
  for (int64_t chunk : {1, 2, 7, 32}) {
    const auto cut = speak(*open(model), chunk, &pieces);
    ASSERT_EQ(cut.size(), whole.size());
    float worst = 0;
    for (size_t i = 0; i < cut.size(); ++i) worst = std::max(worst, std::fabs(cut[i] - whole[i]));
    EXPECT_LE(worst, 1e-4f) << "payloads of " << chunk;
  }
}

TEST(Code2Wav, SeedDecidesTheNoise) {
  Code2WavModel model;
  size_t pieces = 0;
  const auto one = speak(*open(model, 1), 16, &pieces);
  EXPECT_EQ(one, speak(*open(model, 1), 16, &pieces));
  EXPECT_NE(one, speak(*open(model, 2), 16, &pieces));
}

TEST(Code2Wav, RequestsSideBySideDoNotMix) {
  Code2WavModel model;
  size_t pieces = 0;
  const auto solo = speak(*open(model, 3), 8, &pieces);
  const auto other = open(model, 4);
  HeapAllocator heap;
  ASSERT_TRUE(other->push(payload(made_up_frames(9, 0), 0, 0, false), false).ok());
  ASSERT_TRUE(other->step(heap).ok());
  EXPECT_EQ(solo, speak(*open(model, 3), 8, &pieces));
}

TEST(Code2Wav, EmptyRequestEndsWithoutAudio) {
  Code2WavModel model;
  HeapAllocator heap;
  const auto stream = open(model);
  ASSERT_TRUE(stream->push({}, true).ok());
  auto step = stream->step(heap);
  ASSERT_TRUE(step.ok());
  EXPECT_TRUE(step->outputs.empty());
  EXPECT_FALSE(step->more);
}

class NoRoom final : public TensorAllocator {
 public:
  Result<HostTensor> allocate(DType, std::vector<int64_t>) override {
    return Status(StatusCode::kNoMemory, "pool is full");
  }
};

TEST(Code2Wav, FullPoolLosesNothing) {
  Code2WavModel model;
  const auto stream = open(model);
  NoRoom none;
  HeapAllocator heap;
  ASSERT_TRUE(stream->push(payload(made_up_frames(10, 0), 0, 0, true), true).ok());
  EXPECT_EQ(stream->step(none).status().code(), StatusCode::kNoMemory);
  auto step = stream->step(heap);
  ASSERT_TRUE(step.ok());
  ASSERT_EQ(step->outputs.size(), 1u);
  EXPECT_EQ(step->outputs[0].tensor.shape[0], 10 * kHop);
}

struct BadPayload {
  const char* name;
  engine::Payload payload;
  const char* says;
};

TEST(Code2Wav, EachBadPayloadHasItsError) {
  const auto with = [](const char* key, engine::PayloadValue value) {
    engine::Payload entries = payload(made_up_frames(2, 0), 0, 0, false);
    entries.insert_or_assign(key, std::move(value));
    return entries;
  };
  const auto shaped = [&](DType type, std::vector<int64_t> shape) {
    HeapAllocator heap;
    return with(kKeyFrames, heap.allocate(type, std::move(shape)).value());
  };
  engine::Payload no_offset = payload(made_up_frames(2, 0), 0, 0, false);
  no_offset.erase(kKeyFrameOffset);
  const BadPayload cases[] = {
      {"missing entry", no_offset, kKeyFrameOffset},
      {"other type", with(kKeySentence, std::string("0")), kKeySentence},
      {"sentence from the future", with(kKeySentence, int64_t{1}), "expected sentence 0 frame 0"},
      {"gap", with(kKeyFrameOffset, int64_t{5}), "expected sentence 0 frame 0"},
      {"flag", with(kKeySentenceFinished, int64_t{2}), "must be 0 or 1"},
      {"dtype", shaped(DType::kF16, {2, kFrameValues}), "float32"},
      {"columns", shaped(DType::kF32, {2, kFrameValues - 1}), "3006"},
      {"dimensions", shaped(DType::kF32, {2 * kFrameValues}), "3006"},
      {"no frames", shaped(DType::kF32, {0, kFrameValues}), "1 to 1024"},
      {"too many", shaped(DType::kF32, {kChunkFramesMax + 1, kFrameValues}), "1 to 1024"},
  };
  Code2WavModel model;
  for (const BadPayload& bad : cases) {
    const Status status = open(model)->push(bad.payload, false);
    EXPECT_EQ(status.code(), StatusCode::kProtocol) << bad.name;
    EXPECT_NE(status.message().find(bad.says), std::string::npos)
        << bad.name << ": " << status.to_string();
  }
}

TEST(Code2Wav, InputMustNotEndInsideASentence) {
  Code2WavModel model;
  const auto stream = open(model);
  ASSERT_TRUE(stream->push(payload(made_up_frames(2, 0), 0, 0, false), false).ok());
  const Status status = stream->push({}, true);
  EXPECT_EQ(status.code(), StatusCode::kProtocol);
  EXPECT_NE(status.message().find("inside sentence 0"), std::string::npos) << status.to_string();
}

TEST(Code2Wav, NothingMayFollowTheEnd) {
  Code2WavModel model;
  const auto stream = open(model);
  ASSERT_TRUE(stream->push({}, true).ok());
  EXPECT_EQ(stream->push({}, true).code(), StatusCode::kProtocol);
}

TEST(Code2Wav, RefusesFramesThatAreNotFinite) {
  Code2WavModel model;
  for (const int64_t column : {kBins, 4 * kBins + 3}) {
    HostTensor frames = made_up_frames(8, 0);
    frames.as<float>()[3 * kFrameValues + column] = std::numeric_limits<float>::quiet_NaN();
    const auto stream = open(model);
    HeapAllocator heap;
    ASSERT_TRUE(stream->push(payload(frames, 0, 0, true), true).ok());
    EXPECT_EQ(stream->step(heap).status().code(), StatusCode::kProtocol);
  }
  // F0 is only a pitch: a broken value is treated as unvoiced.
  HostTensor frames = made_up_frames(8, 0);
  frames.as<float>()[3 * kFrameValues + kSpectrumValues] = std::numeric_limits<float>::infinity();
  const auto stream = open(model);
  HeapAllocator heap;
  ASSERT_TRUE(stream->push(payload(frames, 0, 0, true), true).ok());
  EXPECT_TRUE(stream->step(heap).ok());
}

}  // namespace
}  // namespace omnistage::hibari
