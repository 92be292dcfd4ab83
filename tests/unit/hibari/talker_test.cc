// The talker stage as the engine sees it: text in, chunks of frames out, and what it refuses.
#include "stage_proc/models/hibari/talker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stage_proc/models/hibari/code2wav.h"
#include "stage_proc/models/hibari/frame_format.h"
#include "tests/unit/hibari/hibari_assets.h"

namespace omnistage::hibari {
namespace {

constexpr const char* kText =
    "The sky is blue because air scatters sunlight. Blue light is scattered the most, you see! "
    "Is that clear?";

// Remembers the blocks it gave out.
class Recorder final : public TensorAllocator {
 public:
  Result<HostTensor> allocate(DType dtype, std::vector<int64_t> shape) override {
    auto tensor = heap_.allocate(dtype, std::move(shape));
    if (tensor.ok()) given.insert(tensor->data.get());
    return tensor;
  }
  std::set<const std::byte*> given;

 private:
  HeapAllocator heap_;
};

class TalkerTest : public ::testing::Test {
 protected:
  static models::GenerationModelOptions options() {
    return {.family = "hibari_talker", .model_dir = testing::model_dir()};
  }

  static void SetUpTestSuite() {
    auto loaded = TalkerModel::load(options());
    if (loaded.ok())
      model_ = std::move(loaded).value().release();
    else
      error_ = loaded.status().to_string() + " (run scripts/setup to fetch the voice)";
  }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(model_, nullptr) << error_; }

  std::unique_ptr<models::GenerationStream> open(
      const std::map<std::string, std::string>& extra = {}) {
    engine::RequestHeader header;
    header.extra = extra;
    auto stream = model_->open(header);
    EXPECT_TRUE(stream.ok()) << stream.status().to_string();
    return std::move(stream).value();
  }

  Status refusal(const std::map<std::string, std::string>& extra) {
    engine::RequestHeader header;
    header.extra = extra;
    return model_->open(header).status();
  }

  static Status push(models::GenerationStream& stream, const std::string& text, bool last) {
    return stream.push({{kKeyText, text}}, last);
  }

  // Steps until there is nothing left to do with the input so far.
  Status drain(models::GenerationStream& stream, std::vector<engine::Payload>* chunks) {
    for (bool more = true; more;) {
      auto step = stream.step(allocator_);
      if (!step.ok()) return step.status();
      EXPECT_TRUE(step->outputs.empty());
      EXPECT_LE(step->chunks.size(), 1u);
      for (engine::Payload& chunk : step->chunks) chunks->push_back(std::move(chunk));
      more = step->more;
    }
    return {};
  }

  // The whole text, in pieces of `piece` bytes.
  std::vector<engine::Payload> speak(const std::string& text, size_t piece, Status* status,
                                     const std::map<std::string, std::string>& extra = {}) {
    const auto stream = open(extra);
    std::vector<engine::Payload> chunks;
    for (size_t at = 0; at < text.size() && status->ok(); at += piece) {
      *status = push(*stream, text.substr(at, piece), false);
      if (status->ok()) *status = drain(*stream, &chunks);
    }
    if (status->ok()) *status = stream->push({}, true);
    if (status->ok()) *status = drain(*stream, &chunks);
    return chunks;
  }

  static const HostTensor& frames(const engine::Payload& chunk) {
    return std::get<HostTensor>(chunk.at(kKeyFrames));
  }
  static int64_t number(const engine::Payload& chunk, const char* key) {
    return std::get<int64_t>(chunk.at(key));
  }
  static std::vector<float> joined(const std::vector<engine::Payload>& chunks) {
    std::vector<float> all;
    for (const engine::Payload& chunk : chunks)
      all.insert(all.end(), frames(chunk).as<float>(),
                 frames(chunk).as<float>() + frames(chunk).elements());
    return all;
  }

  static inline TalkerModel* model_ = nullptr;
  static inline std::string error_;
  Recorder allocator_;
};

TEST_F(TalkerTest, ChunksAreNumberedAndWrittenInPlace) {
  Status status;
  const auto chunks = speak(kText, 1000, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_GE(chunks.size(), 6u);
  int64_t sentence = 0, offset = 0;
  for (const engine::Payload& chunk : chunks) {
    ASSERT_EQ(number(chunk, kKeySentence), sentence);
    ASSERT_EQ(number(chunk, kKeyFrameOffset), offset);
    ASSERT_EQ(frames(chunk).shape.size(), 2u);
    ASSERT_EQ(frames(chunk).shape[1], kFrameValues);
    EXPECT_EQ(allocator_.given.count(frames(chunk).data.get()), 1u) << "the frames were copied";
    const bool finished = number(chunk, kKeySentenceFinished) == 1;
    offset = finished ? 0 : offset + frames(chunk).shape[0];
    sentence += finished ? 1 : 0;
  }
  EXPECT_GE(sentence, 3);
  EXPECT_EQ(offset, 0) << "the last sentence has no end";
  EXPECT_EQ(frames(chunks[0]).shape[0], 32);
  EXPECT_EQ(frames(chunks[1]).shape[0], 64);
}

TEST_F(TalkerTest, FramesDoNotDependOnThePiecesOfText) {
  Status status;
  const auto whole = joined(speak(kText, 1000, &status));
  ASSERT_FALSE(whole.empty());
  for (size_t piece : {1u, 5u, 17u}) {
    EXPECT_TRUE(whole == joined(speak(kText, piece, &status))) << "pieces of " << piece << " bytes";
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST_F(TalkerTest, SpeaksASentenceBeforeTheTextEnds) {
  const auto stream = open();
  std::vector<engine::Payload> chunks;
  ASSERT_TRUE(push(*stream, "This sentence is complete. And this one is", false).ok());
  ASSERT_TRUE(drain(*stream, &chunks).ok());
  EXPECT_FALSE(chunks.empty());
}

TEST_F(TalkerTest, RequestsSideBySideDoNotMix) {
  Status status;
  const auto solo = joined(speak("One request at a time.", 1000, &status));
  const auto a = open(), b = open({{"speed", "1.5"}});
  ASSERT_TRUE(push(*a, "One request at a time.", true).ok());
  ASSERT_TRUE(push(*b, "Something else altogether, and faster.", true).ok());
  std::vector<engine::Payload> chunks;
  for (bool more = true; more;) {
    auto step = a->step(allocator_);
    ASSERT_TRUE(step.ok() && b->step(allocator_).ok());
    for (engine::Payload& chunk : step->chunks) chunks.push_back(std::move(chunk));
    more = step->more;
  }
  EXPECT_TRUE(solo == joined(chunks));
}

TEST_F(TalkerTest, AudioOfBothStagesHasTheLengthOfTheFrames) {
  Status status;
  const auto chunks = speak(kText, 9, &status);
  ASSERT_TRUE(status.ok()) << status.to_string();
  Code2WavModel vocoder;
  auto stream = vocoder.open({});
  ASSERT_TRUE(stream.ok());
  int64_t total = 0, samples = 0;
  float peak = 0;
  for (const engine::Payload& chunk : chunks) {
    total += frames(chunk).shape[0];
    ASSERT_TRUE((*stream)->push(chunk, &chunk == &chunks.back()).ok());
    auto step = (*stream)->step(allocator_);
    ASSERT_TRUE(step.ok()) << step.status().to_string();
    for (const engine::StageOutput& output : step->outputs) {
      samples += output.tensor.shape[0];
      for (int64_t i = 0; i < output.tensor.shape[0]; ++i)
        peak = std::max(peak, std::abs(output.tensor.as<float>()[i]));
    }
  }
  EXPECT_EQ(samples, total * kHop);
  EXPECT_GT(peak, 0.05f);
  EXPECT_LT(peak, 2.0f);
}

TEST_F(TalkerTest, SpeedIsCheckedByRange) {
  for (const char* speed : {"0.49", "2.01", "fast", "", "1.0x", "nan", "inf", "-1"}) {
    const Status status = refusal({{"speed", speed}});
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << speed;
    EXPECT_NE(status.message().find("speed must be a number in 0.5..2.0"), std::string::npos)
        << status.to_string();
  }
  Status status;
  const auto slow = speak("How long is this?", 1000, &status, {{"speed", "0.5"}});
  const auto fast = speak("How long is this?", 1000, &status, {{"speed", "2"}});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_GT(joined(slow).size(), 2 * joined(fast).size());
}

TEST_F(TalkerTest, OtherVoicesAreRefusedByName) {
  EXPECT_TRUE(refusal({}).ok());
  EXPECT_TRUE(refusal({{"voice", "heart"}, {"unrelated", "x"}}).ok());
  const Status status = refusal({{"voice", "emma"}});
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("'emma'"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("available: heart"), std::string::npos) << status.to_string();
}

TEST_F(TalkerTest, OtherLanguagesAreRefusedOnlyWhenNothingCanBeSpoken) {
  Status status;
  EXPECT_TRUE(
      speak("\u5929\u7a7a\u4e3a\u4ec0\u4e48\u662f\u84dd\u8272\u7684\u3002", 1000, &status).empty());
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      status.message(),
      "the text cannot be spoken: only English is supported; ask in English, or for text only");

  status = {};
  const auto mixed = speak(
      "The answer is yes. \u041d\u0435\u0431\u043e \u0441\u0438\u043d\u0435\u0435. That is all.\n",
      1000, &status);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_FALSE(mixed.empty());
}

TEST_F(TalkerTest, NothingToSayIsNoError) {
  for (const char* text : {"", " \n\t ", "..."}) {
    Status status;
    EXPECT_TRUE(speak(text, 1000, &status).empty()) << "'" << text << "'";
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST_F(TalkerTest, PendingTextIsBounded) {
  const auto stream = open();
  const std::string much(64 * 1024, 'a');
  Status status;
  size_t pushed = 0;
  while (status.ok() && pushed < 4 * TalkerModel::kPendingBytesMax) {
    status = push(*stream, much, false);
    pushed += much.size();
  }
  EXPECT_EQ(status.code(), StatusCode::kFull) << status.to_string();
  EXPECT_LE(pushed, TalkerModel::kPendingBytesMax + much.size());
}

TEST_F(TalkerTest, PayloadsAreChecked) {
  EXPECT_EQ(open()->push({{"txt", std::string("a")}}, false).code(), StatusCode::kProtocol);
  EXPECT_EQ(open()->push({{kKeyText, int64_t{1}}}, false).code(), StatusCode::kProtocol);
  const auto stream = open();
  ASSERT_TRUE(stream->push({}, true).ok());
  EXPECT_EQ(stream->push({}, true).code(), StatusCode::kProtocol);
}

class NoRoom final : public TensorAllocator {
 public:
  Result<HostTensor> allocate(DType, std::vector<int64_t>) override {
    return Status(StatusCode::kNoMemory, "pool is full");
  }
};

TEST_F(TalkerTest, FullPoolLosesNothing) {
  Status status;
  const auto expected = joined(speak("Wait for room.", 1000, &status));
  const auto stream = open();
  ASSERT_TRUE(push(*stream, "Wait for room.", true).ok());
  NoRoom none;
  EXPECT_EQ(stream->step(none).status().code(), StatusCode::kNoMemory);
  std::vector<engine::Payload> chunks;
  ASSERT_TRUE(drain(*stream, &chunks).ok());
  EXPECT_TRUE(expected == joined(chunks));
}

TEST(TalkerOptions, ChunkSizesHaveARange) {
  models::GenerationModelOptions options{.family = "hibari_talker", .model_dir = "nowhere"};
  options.chunk_frames = 0;
  Status status = TalkerModel::load(options).status();
  EXPECT_NE(status.message().find("chunk_frames must be in 1..512, got 0"), std::string::npos)
      << status.to_string();
  options.chunk_frames = 64;
  options.initial_chunk_frames = 513;
  status = TalkerModel::load(options).status();
  EXPECT_NE(status.message().find("initial_chunk_frames"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace omnistage::hibari
