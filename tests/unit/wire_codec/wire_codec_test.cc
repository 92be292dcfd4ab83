// Wire codec: every engine value survives the round trip, and records that lie about sizes are
// refused.
#include "stage_proc/transfer/wire_codec/wire_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "omnistage/wire/edge_generated.h"
#include "shm/base/limits.h"

namespace omnistage::transfer {
namespace {

using engine::OutputKind;
using engine::PayloadValue;
using engine::StageChunk;

// A pool of two ends in one process: lease() keeps the tensor, open() finds it again.
struct FakePool {
  std::vector<HostTensor> leased;
  LeaseTensor lease = [this](const HostTensor& tensor) -> Result<shm::TensorRef> {
    leased.push_back(tensor);
    shm::TensorRef ref;
    ref.slab = 3;
    ref.lease = static_cast<uint32_t>(leased.size() - 1);
    ref.generation = 9;
    ref.offset = 128;
    ref.bytes = tensor.bytes();
    return ref;
  };
  OpenTensor open = [this](const shm::TensorRef& ref) -> Result<std::shared_ptr<std::byte>> {
    if (ref.slab != 3 || ref.generation != 9 || ref.lease >= leased.size()) {
      return Status(StatusCode::kProtocol, "no such block");
    }
    return leased[ref.lease].data;
  };
};

HostTensor make_tensor(DType type, std::vector<int64_t> shape, uint8_t seed = 1) {
  HostTensor tensor = HeapAllocator().allocate(type, std::move(shape)).value();
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    tensor.data.get()[i] = static_cast<std::byte>(i * 7 + seed);
  }
  return tensor;
}

void expect_equal(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  ASSERT_EQ(a.bytes(), b.bytes());
  if (a.bytes() == 0) return;
  EXPECT_EQ(std::memcmp(a.data.get(), b.data.get(), a.bytes()), 0);
}

std::vector<std::byte> copy(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

WireHeader sample_header() {
  WireHeader header;
  header.request.key = {5, 2, 77};
  header.request.modalities = 3;
  header.request.deadline_ns = 123456789012345;
  header.request.priority = -4;
  header.request.extra = {{"voice", "anna"}, {"speed", "1.25"}};
  engine::SamplingParams& s = header.request.sampling;
  s.temperature = 0.7;
  s.top_k = 40;
  s.top_p = 0.9;
  s.min_p = 0.05;
  s.repetition_penalty = 1.1;
  s.presence_penalty = 0.2;
  s.frequency_penalty = -0.3;
  s.seed = 0xFFFFFFFFFFFFFFFFull;
  s.max_tokens = 99;
  s.min_tokens = 3;
  s.ignore_eos = true;
  s.stop = {"\n\n", "END"};
  s.stop_token_ids = {1, 2, 3};
  s.include_stop_str_in_output = true;
  header.given = 0x1081;
  header.output_credit = 16;
  return header;
}

void expect_equal(const WireHeader& a, const WireHeader& b) {
  EXPECT_EQ(a.request.key, b.request.key);
  EXPECT_EQ(a.request.modalities, b.request.modalities);
  EXPECT_EQ(a.request.deadline_ns, b.request.deadline_ns);
  EXPECT_EQ(a.request.priority, b.request.priority);
  EXPECT_EQ(a.request.extra, b.request.extra);
  const engine::SamplingParams &s = a.request.sampling, &t = b.request.sampling;
  EXPECT_EQ(s.temperature, t.temperature);
  EXPECT_EQ(s.top_k, t.top_k);
  EXPECT_EQ(s.top_p, t.top_p);
  EXPECT_EQ(s.min_p, t.min_p);
  EXPECT_EQ(s.repetition_penalty, t.repetition_penalty);
  EXPECT_EQ(s.presence_penalty, t.presence_penalty);
  EXPECT_EQ(s.frequency_penalty, t.frequency_penalty);
  EXPECT_EQ(s.seed, t.seed);
  EXPECT_EQ(s.max_tokens, t.max_tokens);
  EXPECT_EQ(s.min_tokens, t.min_tokens);
  EXPECT_EQ(s.ignore_eos, t.ignore_eos);
  EXPECT_EQ(s.stop, t.stop);
  EXPECT_EQ(s.stop_token_ids, t.stop_token_ids);
  EXPECT_EQ(s.include_stop_str_in_output, t.include_stop_str_in_output);
  EXPECT_EQ(a.given, b.given);
  EXPECT_EQ(a.output_credit, b.output_credit);
}

TEST(WireCodec, SubmitRoundTrip) {
  Encoder encoder;
  SubmitRecord record;
  record.header = sample_header();
  record.input.system_prompt = "Be brief.";
  record.input.text = std::string("caf\xC3\xA9 \0 end", 11);
  record.input.token_ids = {1, -1, 49151};
  Result<Bytes> bytes = encoder.submit(record);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  Result<SubmitRecord> got = decode_submit(*bytes);
  ASSERT_TRUE(got.ok()) << got.status().message();
  expect_equal(got->header, record.header);
  EXPECT_EQ(got->input.system_prompt, record.input.system_prompt);
  EXPECT_EQ(got->input.text, record.input.text);
  EXPECT_EQ(got->input.token_ids, record.input.token_ids);
  EXPECT_EQ(record_key(kRecordSubmit, *bytes).value(), record.header.request.key);
}

TEST(WireCodec, ChunkRoundTripOfEveryValueType) {
  FakePool pool;
  Encoder encoder;
  StageChunk chunk;
  WireHeader header = sample_header();
  chunk.key = header.request.key;
  chunk.finished = true;
  chunk.payload["int"] = int64_t{-5};
  chunk.payload["float"] = 0.25;
  chunk.payload["text"] = std::string("a\0b", 3);
  chunk.payload["ints"] = std::vector<int64_t>{1, -2, INT64_MAX};
  chunk.payload["strings"] = std::vector<std::string>{"", "x"};
  chunk.payload["no.ints"] = std::vector<int64_t>{};
  chunk.payload["codes.small"] = make_tensor(DType::kI64, {2, 3});
  chunk.payload["frames.large"] = make_tensor(DType::kF32, {16, 512});
  chunk.payload["scalar"] = make_tensor(DType::kBF16, {});
  chunk.payload["zero"] = make_tensor(DType::kF16, {0, 80});
  Result<Bytes> bytes = encoder.chunk(chunk, &header, pool.lease);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(encoder.leases().size(), 1u) << "only the tensor above 4 KiB is leased";
  Result<ChunkRecord> got = decode_chunk(copy(*bytes), pool.open);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->chunk.key, chunk.key);
  EXPECT_TRUE(got->chunk.finished);
  expect_equal(got->header, header);
  ASSERT_TRUE(got->chunk.header.has_value());
  ASSERT_EQ(got->chunk.payload.size(), chunk.payload.size());
  for (const auto& [name, value] : chunk.payload) {
    const PayloadValue& other = got->chunk.payload.at(name);
    ASSERT_EQ(other.index(), value.index()) << name;
    if (const auto* tensor = std::get_if<HostTensor>(&value)) {
      expect_equal(*tensor, std::get<HostTensor>(other));
      continue;
    }
    if (std::holds_alternative<int64_t>(value)) {
      EXPECT_EQ(std::get<int64_t>(other), std::get<int64_t>(value));
    } else if (std::holds_alternative<double>(value)) {
      EXPECT_EQ(std::get<double>(other), std::get<double>(value));
    } else if (std::holds_alternative<std::string>(value)) {
      EXPECT_EQ(std::get<std::string>(other), std::get<std::string>(value));
    } else if (std::holds_alternative<std::vector<int64_t>>(value)) {
      EXPECT_EQ(std::get<std::vector<int64_t>>(other), std::get<std::vector<int64_t>>(value));
    } else {
      EXPECT_EQ(std::get<std::vector<std::string>>(other),
                std::get<std::vector<std::string>>(value));
    }
  }
}

TEST(WireCodec, LaterChunksCarryNoHeader) {
  FakePool pool;
  Encoder encoder;
  StageChunk chunk;
  chunk.key = {1, 0, 2};
  chunk.number = 4;
  Result<ChunkRecord> got =
      decode_chunk(copy(encoder.chunk(chunk, nullptr, pool.lease).value()), pool.open);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->chunk.number, 4u);
  EXPECT_FALSE(got->chunk.header.has_value());
  EXPECT_TRUE(got->chunk.payload.empty());
  chunk.number = 0;
  EXPECT_FALSE(encoder.chunk(chunk, nullptr, pool.lease).ok());
}

TEST(WireCodec, OutputEndAbortCreditRoundTrip) {
  FakePool pool;
  Encoder encoder;
  engine::StageOutput text;
  text.key = {1, 2, 3};
  text.position = 10;
  text.text = "hello";
  text.token_ids = {4, 5};
  Result<engine::StageOutput> got =
      decode_output(copy(encoder.output(text, pool.lease).value()), pool.open);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->text, "hello");
  EXPECT_EQ(got->token_ids, text.token_ids);
  EXPECT_EQ(got->position, 10u);

  engine::StageOutput audio;
  audio.key = text.key;
  audio.kind = OutputKind::kAudio;
  audio.sample_rate = 24000;
  audio.tensor = make_tensor(DType::kF32, {9600});
  got = decode_output(copy(encoder.output(audio, pool.lease).value()), pool.open);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->sample_rate, 24000u);
  expect_equal(got->tensor, audio.tensor);

  engine::StageEnd end;
  end.key = text.key;
  end.reason = engine::FinishReason::kError;
  end.status = Status(StatusCode::kDeadline, "stage 'talker': deadline passed");
  end.usage = {1, 2, 3};
  Result<engine::StageEnd> got_end = decode_stage_end(encoder.stage_end(end));
  ASSERT_TRUE(got_end.ok());
  EXPECT_EQ(got_end->status.code(), StatusCode::kDeadline);
  EXPECT_EQ(got_end->status.message(), end.status.message());
  EXPECT_EQ(got_end->usage.audio_samples, 3u);

  EXPECT_EQ(decode_abort(encoder.abort(text.key)).value(), text.key);
  Result<CreditRecord> credit = decode_credit(encoder.credit({text.key, 3, OutputKind::kAudio}));
  ASSERT_TRUE(credit.ok());
  EXPECT_EQ(credit->outputs, 3u);
  EXPECT_EQ(credit->kind, OutputKind::kAudio);
  EXPECT_EQ(decode_credit(encoder.credit({text.key, 0, OutputKind::kAudio})).status().code(),
            StatusCode::kInvalid);
}

TEST(WireCodec, TooLargeInputsNameTheLimit) {
  Encoder encoder;
  SubmitRecord record;
  record.header = sample_header();
  record.input.text = std::string(limits::kTextInputBytesMax + 1, 'a');
  Result<SubmitRecord> got = decode_submit(encoder.submit(record).value());
  EXPECT_EQ(got.status().code(), StatusCode::kInvalid);
  EXPECT_NE(got.status().message().find("49152"), std::string::npos) << got.status().message();
  record.input.text = std::string(limits::kRecordBytesMax, 'a');
  EXPECT_EQ(encoder.submit(record).status().code(), StatusCode::kInvalid);

  record.input.text = "x";
  record.header.request.sampling.stop.assign(limits::kStopStringsMax + 1, "s");
  EXPECT_NE(decode_submit(encoder.submit(record).value()).status().message().find("sampling.stop"),
            std::string::npos);
  record.header = sample_header();
  record.header.output_credit = 0;
  EXPECT_FALSE(decode_submit(encoder.submit(record).value()).ok());
}

// Writes a chunk with one hand-made tensor.
std::vector<std::byte> lying_tensor(wire::DType type, std::vector<int64_t> shape, size_t bytes,
                                    const wire::PoolRef* pool = nullptr) {
  flatbuffers::FlatBufferBuilder fbb;
  auto shape_offset = fbb.CreateVector(shape);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
  if (bytes > 0) data = fbb.CreateVector(std::vector<uint8_t>(bytes));
  auto tensor = wire::CreateTensor(fbb, type, shape_offset, data, pool);
  auto name = fbb.CreateString("t");
  std::vector<flatbuffers::Offset<wire::Entry>> list = {
      wire::CreateEntry(fbb, name, wire::Value::Tensor, tensor.Union())};
  auto entries = fbb.CreateVector(list);
  wire::Key key(1, 0, 1);
  fbb.Finish(wire::CreateChunk(fbb, &key, 1, false, 0, entries));
  const auto* start = reinterpret_cast<const std::byte*>(fbb.GetBufferPointer());
  return {start, start + fbb.GetSize()};
}

TEST(WireCodec, TensorsThatLieAreRefused) {
  FakePool pool;
  auto code = [&](const std::vector<std::byte>& record) {
    return decode_chunk(record, pool.open).status().code();
  };
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {4}, 16)), StatusCode::kOk);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {4}, 15)), StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {5}, 16)), StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {-4, -1}, 16)), StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(static_cast<wire::DType>(9), {16}, 16)), StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::U8, {1, 1, 1, 1, 1, 1, 1, 1, 16}, 16)),
            StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {int64_t{1} << 31, int64_t{1} << 31, 4}, 0)),
            StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {int64_t{1} << 31, int64_t{1} << 31, 0}, 0)),
            StatusCode::kInvalid);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {0, 4}, 0)), StatusCode::kOk);
  const wire::PoolRef wrong(7, 0, 0, 0, 0, 16);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {4}, 0, &wrong)), StatusCode::kProtocol);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {4}, 16, &wrong)), StatusCode::kInvalid);
  const wire::PoolRef huge(7, 0, 0, 0, 0, UINT64_MAX);
  EXPECT_EQ(code(lying_tensor(wire::DType::F32, {4}, 0, &huge)), StatusCode::kInvalid);
}

TEST(WireCodec, DamagedRecordsNeverPassUnseenBorders) {
  FakePool pool;
  Encoder encoder;
  StageChunk chunk;
  WireHeader header = sample_header();
  chunk.key = header.request.key;
  chunk.payload["t"] = make_tensor(DType::kF32, {8, 8});
  chunk.payload["s"] = std::vector<std::string>{"a", "b"};
  const std::vector<std::byte> good = copy(encoder.chunk(chunk, &header, pool.lease).value());
  for (size_t length = 0; length < good.size(); ++length) {
    std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<long>(length));
    (void)decode_chunk(cut, pool.open);
    (void)record_key(kRecordChunk, cut);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bad = good;
    for (int flips = 0; flips < 2; ++flips) {
      bad[random() % bad.size()] ^= static_cast<std::byte>(1 << (random() % 8));
    }
    (void)decode_chunk(bad, pool.open);
    (void)decode_output(bad, pool.open);
    (void)decode_submit(bad);
  }
}

}  // namespace
}  // namespace omnistage::transfer
