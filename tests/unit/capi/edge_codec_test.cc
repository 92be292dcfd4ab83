// What the client writes reads back as the schema says, and no broken record gets through.
#include "capi/client/edge_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace omnistage::capi {
namespace {

using flatbuffers::FlatBufferBuilder;

const RequestKey kKey{3, 0, 42};

template <typename Table>
Bytes bytes_of(FlatBufferBuilder& builder, flatbuffers::Offset<Table> root) {
  builder.Finish(root);
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return Bytes(begin, begin + builder.GetSize());
}

struct TensorSpec {
  wire::DType dtype = wire::DType::F32;
  std::vector<int64_t> shape = {4};
  size_t inline_bytes = 16;
  bool pool = false;
  uint64_t pool_bytes = 0;
};

Bytes audio_record(const TensorSpec& spec, uint32_t rate = 24000) {
  FlatBufferBuilder builder;
  auto shape = builder.CreateVector(spec.shape);
  std::vector<uint8_t> data(spec.inline_bytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> bytes;
  if (spec.inline_bytes != 0) {
    builder.ForceVectorAlignment(data.size(), 1, 16);
    bytes = builder.CreateVector(data);
  }
  const wire::PoolRef pool(1, 2, 3, 0, 64, spec.pool_bytes);
  auto tensor = wire::CreateTensor(builder, spec.dtype, shape, bytes, spec.pool ? &pool : nullptr);
  const wire::Key key(3, 0, 42);
  return bytes_of(
      builder, wire::CreateOutput(builder, &key, wire::OutputKind::Audio, 5, 0, 0, tensor, rate));
}

TEST(EdgeCodec, SubmitSaysWhatWasAsked) {
  SubmitData data;
  data.text = "Why?";
  data.system_prompt = "Be brief.";
  data.wanted = 1;
  data.priority = -2;
  data.credit = 5;
  data.given = 1u << 0 | 1u << 7 | 1u << 11;
  data.temperature = 0.5;
  data.top_k = 99;  // not given
  data.seed = 1234567890123ull;
  data.stop = {"END", "\n"};
  data.extra = {{"voice", "ruth"}, {"speed", "1.2"}};
  const Bytes record = make_submit(kKey, data, 777);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(record.data()), record.size(), 16,
                                 1024);
  ASSERT_TRUE(verifier.VerifyBuffer<wire::Submit>(nullptr));
  const auto* submit = flatbuffers::GetRoot<wire::Submit>(record.data());
  EXPECT_EQ(submit->text()->str(), "Why?");
  EXPECT_EQ(submit->system_prompt()->str(), "Be brief.");
  EXPECT_EQ(submit->token_ids(), nullptr);
  const auto* header = submit->header();
  EXPECT_EQ(header->key()->request(), 42u);
  EXPECT_EQ(header->key()->client(), 3u);
  EXPECT_EQ(header->modalities(), 1u);
  EXPECT_EQ(header->deadline_ns(), 777);
  EXPECT_EQ(header->priority(), -2);
  EXPECT_EQ(header->output_credit(), 5u);
  EXPECT_EQ(header->given(), data.given);
  EXPECT_EQ(header->sampling()->temperature(), 0.5);
  EXPECT_EQ(header->sampling()->top_k(), 0);
  EXPECT_EQ(header->sampling()->seed(), data.seed);
  ASSERT_EQ(header->sampling()->stop()->size(), 2u);
  EXPECT_EQ(header->sampling()->stop()->Get(1)->str(), "\n");
  ASSERT_EQ(header->extra()->size(), 2u);
  EXPECT_EQ(header->extra()->Get(1)->key()->str(), "speed");
}

TEST(EdgeCodec, ReadsInlineAudio) {
  auto output = read_output(audio_record({}));
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_EQ(output->key, kKey);
  EXPECT_EQ(output->event.kind, OutputKind::kAudio);
  EXPECT_EQ(output->event.position, 5u);
  EXPECT_EQ(output->event.sample_rate, 24000u);
  ASSERT_TRUE(output->event.tensor);
  EXPECT_EQ(output->event.tensor->bytes(), 16u);
  EXPECT_EQ(static_cast<int>(output->event.tensor->data.get()[15]), 15);
  EXPECT_FALSE(output->pooled);
}

TEST(EdgeCodec, ReadsPoolReference) {
  auto output = read_output(audio_record({wire::DType::F32, {2000}, 0, true, 8000}));
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_TRUE(output->pooled);
  EXPECT_EQ(output->ref.slab, 1u);
  EXPECT_EQ(output->ref.bytes, 8000u);
}

TEST(EdgeCodec, RefusesTensorsThatDoNotAddUp) {
  const TensorSpec bad[] = {
      {wire::DType::F32, {5}, 16},                          // shape and bytes differ
      {wire::DType::F32, {-4}, 16},                         // negative extent
      {wire::DType::F32, {1ll << 40, 1ll << 40}, 16},       // overflow
      {wire::DType::F32, {1, 1, 1, 1, 1, 1, 1, 1, 4}, 16},  // nine dimensions
      {static_cast<wire::DType>(77), {4}, 16},              // unknown type
      {wire::DType::F32, {4}, 16, true, 16},                // inline and in the pool
      {wire::DType::F32, {4}, 0, true, 12},                 // pool block of another size
      {wire::DType::F32, {0}, 0, true, 0},                  // a lease for nothing
      {wire::DType::I16, {8}, 16},                          // audio has to be float32
      {wire::DType::F32, {2, 2}, 16},                       // and flat
  };
  for (const TensorSpec& spec : bad) {
    EXPECT_EQ(read_output(audio_record(spec)).status().code(), StatusCode::kProtocol);
  }
  EXPECT_FALSE(read_output(audio_record({}, 0)).ok());  // no sample rate
}

TEST(EdgeCodec, RefusesTextThatIsNotUtf8) {
  FlatBufferBuilder builder;
  const wire::Key key(3, 0, 42);
  auto text = builder.CreateString("\xff\xfe");
  const Bytes record =
      bytes_of(builder, wire::CreateOutput(builder, &key, wire::OutputKind::Text, 0, text));
  EXPECT_EQ(read_output(record).status().code(), StatusCode::kProtocol);
}

TEST(EdgeCodec, ReadsStageEnd) {
  FlatBufferBuilder builder;
  const wire::Key key(3, 0, 42);
  auto message = builder.CreateString("top_p is 7");
  const Bytes record = bytes_of(
      builder,
      wire::CreateStageEnd(builder, &key, wire::FinishReason::Error, -1, message, 4, 5, 6));
  auto end = read_stage_end(record);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->status.code(), StatusCode::kInvalid);
  EXPECT_EQ(end->status.message(), "top_p is 7");
  EXPECT_EQ(end->usage.audio_samples, 6u);
  FlatBufferBuilder strange;
  const Bytes unknown =
      bytes_of(strange, wire::CreateStageEnd(strange, &key, wire::FinishReason::Stop, 4711));
  EXPECT_EQ(read_stage_end(unknown)->status.code(), StatusCode::kInternal);
}

// Flipped bytes are refused or give values within their bounds; sanitizer builds see any bad
// access.
TEST(EdgeCodec, SurvivesFlippedBytes) {
  std::mt19937 random(7);
  const Bytes good = audio_record({});
  for (int i = 0; i < 20'000; ++i) {
    Bytes bad = good;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      bad[random() % bad.size()] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    auto output = read_output(bad);
    if (output.ok() && output->event.tensor && !output->pooled) {
      EXPECT_LE(output->event.tensor->bytes(), bad.size());
    }
    (void)read_stage_end(bad);
  }
}

}  // namespace
}  // namespace omnistage::capi
