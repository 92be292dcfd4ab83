#include <cstring>

#include "omnistage/wire/edge_generated.h"
#include "shm/base/limits.h"
#include "stage_proc/transfer/wire_codec/wire_codec.h"

namespace omnistage::transfer {
namespace {

using flatbuffers::Offset;
template <typename T>
using Vector = flatbuffers::Vector<T>;

constexpr size_t kEndMessageBytesMax = 4096;

wire::Key wire_key(const RequestKey& key) {
  return wire::Key(key.client, key.generation, key.request);
}

using ValueOffset = std::pair<wire::Value, Offset<void>>;

}  // namespace

// The parts of a record; friend of Encoder so that wire types stay out of the header.
class EncoderImpl {
 public:
  EncoderImpl(Encoder& encoder, const LeaseTensor* lease)
      : fbb_(encoder.builder_), leases_(encoder.leases_), lease_(lease) {}

  Offset<wire::Header> header(const WireHeader& header) {
    const engine::RequestHeader& request = header.request;
    const engine::SamplingParams& s = request.sampling;
    Offset<Vector<Offset<flatbuffers::String>>> stop;
    Offset<Vector<int32_t>> stop_ids;
    if (!s.stop.empty()) stop = fbb_.CreateVectorOfStrings(s.stop);
    if (!s.stop_token_ids.empty()) stop_ids = fbb_.CreateVector(s.stop_token_ids);
    auto sampling = wire::CreateSampling(
        fbb_, s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.presence_penalty,
        s.frequency_penalty, s.seed, s.max_tokens, s.min_tokens, s.ignore_eos, stop, stop_ids,
        s.include_stop_str_in_output);
    std::vector<Offset<wire::Extra>> extras;
    for (const auto& [key, value] : request.extra) {
      auto k = fbb_.CreateString(key);
      auto v = fbb_.CreateString(value);
      extras.push_back(wire::CreateExtra(fbb_, k, v));
    }
    Offset<Vector<Offset<wire::Extra>>> extra;
    if (!extras.empty()) extra = fbb_.CreateVector(extras);
    const wire::Key key = wire_key(request.key);
    return wire::CreateHeader(fbb_, &key, request.modalities, request.deadline_ns, request.priority,
                              sampling, extra, header.given, header.output_credit);
  }

  Result<Offset<wire::Tensor>> tensor(const HostTensor& tensor) {
    if (tensor.shape.size() > limits::kTensorDimsMax) {
      return invalid("a tensor has " + std::to_string(tensor.shape.size()) + " dimensions, limit " +
                     std::to_string(limits::kTensorDimsMax));
    }
    Offset<Vector<int64_t>> shape;
    if (!tensor.shape.empty()) shape = fbb_.CreateVector(tensor.shape);
    const size_t bytes = tensor.bytes();
    const auto dtype = static_cast<wire::DType>(tensor.dtype);
    if (bytes == 0) return wire::CreateTensor(fbb_, dtype, shape);
    if (bytes <= limits::kInlineTensorBytesMax) {
      fbb_.ForceVectorAlignment(bytes, 1, 16);
      auto data = fbb_.CreateVector(reinterpret_cast<const uint8_t*>(tensor.data.get()), bytes);
      return wire::CreateTensor(fbb_, dtype, shape, data);
    }
    OMS_ASSIGN_OR_RETURN(shm::TensorRef ref, (*lease_)(tensor));
    leases_.push_back(ref);
    const wire::PoolRef pool(ref.slab, ref.lease, ref.generation, ref.reserved, ref.offset,
                             ref.bytes);
    return wire::CreateTensor(fbb_, dtype, shape, 0, &pool);
  }

  Result<ValueOffset> value(const engine::PayloadValue& value) {
    if (const auto* t = std::get_if<HostTensor>(&value)) {
      OMS_ASSIGN_OR_RETURN(auto offset, tensor(*t));
      return ValueOffset(wire::Value::Tensor, offset.Union());
    }
    if (const auto* i = std::get_if<int64_t>(&value)) {
      return ValueOffset(wire::Value::Int, wire::CreateInt(fbb_, *i).Union());
    }
    if (const auto* d = std::get_if<double>(&value)) {
      return ValueOffset(wire::Value::Float, wire::CreateFloat(fbb_, *d).Union());
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      auto string = fbb_.CreateString(*text);
      return ValueOffset(wire::Value::Text, wire::CreateText(fbb_, string).Union());
    }
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      auto list = fbb_.CreateVector(*ints);
      return ValueOffset(wire::Value::IntList, wire::CreateIntList(fbb_, list).Union());
    }
    const auto& strings = std::get<std::vector<std::string>>(value);
    auto list = fbb_.CreateVectorOfStrings(strings);
    return ValueOffset(wire::Value::StringList, wire::CreateStringList(fbb_, list).Union());
  }

 private:
  flatbuffers::FlatBufferBuilder& fbb_;
  std::vector<shm::TensorRef>& leases_;
  const LeaseTensor* lease_;
};

void Encoder::start() {
  builder_.Clear();
  leases_.clear();
}

Bytes Encoder::bytes() const {
  return Bytes(reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize());
}

Result<Bytes> Encoder::checked_bytes(const char* what) const {
  if (builder_.GetSize() > limits::kRecordBytesMax) {
    return invalid(std::string(what) + " record would have " + std::to_string(builder_.GetSize()) +
                   " bytes, limit " + std::to_string(limits::kRecordBytesMax));
  }
  return bytes();
}

Result<Bytes> Encoder::submit(const SubmitRecord& record) {
  start();
  auto header = EncoderImpl(*this, nullptr).header(record.header);
  auto system = builder_.CreateString(record.input.system_prompt);
  auto text = builder_.CreateString(record.input.text);
  auto ids = builder_.CreateVector(record.input.token_ids);
  builder_.Finish(wire::CreateSubmit(builder_, header, system, text, ids));
  return checked_bytes("a submit");
}

Result<Bytes> Encoder::chunk(const engine::StageChunk& chunk, const WireHeader* header,
                             const LeaseTensor& lease) {
  start();
  EncoderImpl parts(*this, &lease);
  if (chunk.payload.size() > kChunkEntriesMax) {
    return invalid("a chunk has " + std::to_string(chunk.payload.size()) + " entries, limit " +
                   std::to_string(kChunkEntriesMax));
  }
  Offset<wire::Header> header_offset;
  if (chunk.number == 0) {
    if (header == nullptr) return internal_error("chunk 0 without a request header");
    header_offset = parts.header(*header);
  }
  std::vector<Offset<wire::Entry>> entries;
  for (const auto& [key, value] : chunk.payload) {
    OMS_ASSIGN_OR_RETURN(auto offset, parts.value(value));
    auto name = builder_.CreateString(key);
    entries.push_back(wire::CreateEntry(builder_, name, offset.first, offset.second));
  }
  auto list = builder_.CreateVector(entries);
  const wire::Key key = wire_key(chunk.key);
  builder_.Finish(
      wire::CreateChunk(builder_, &key, chunk.number, chunk.finished, header_offset, list));
  return checked_bytes("a chunk");
}

Result<Bytes> Encoder::output(const engine::StageOutput& output, const LeaseTensor& lease) {
  start();
  EncoderImpl parts(*this, &lease);
  Offset<flatbuffers::String> text;
  Offset<Vector<int32_t>> ids;
  Offset<wire::Tensor> tensor;
  if (!output.text.empty()) text = builder_.CreateString(output.text);
  if (!output.token_ids.empty()) ids = builder_.CreateVector(output.token_ids);
  if (output.kind != engine::OutputKind::kText) {
    OMS_ASSIGN_OR_RETURN(tensor, parts.tensor(output.tensor));
  }
  const wire::Key key = wire_key(output.key);
  builder_.Finish(wire::CreateOutput(builder_, &key, static_cast<wire::OutputKind>(output.kind),
                                     output.position, text, ids, tensor, output.sample_rate));
  return checked_bytes("an output");
}

Bytes Encoder::stage_end(const engine::StageEnd& end) {
  start();
  Offset<flatbuffers::String> message;
  if (!end.status.message().empty()) {
    message = builder_.CreateString(end.status.message().substr(0, kEndMessageBytesMax));
  }
  const wire::Key key = wire_key(end.key);
  builder_.Finish(wire::CreateStageEnd(builder_, &key, static_cast<wire::FinishReason>(end.reason),
                                       static_cast<int32_t>(end.status.code()), message,
                                       end.usage.prompt_tokens, end.usage.output_tokens,
                                       end.usage.audio_samples));
  return bytes();
}

Bytes Encoder::abort(const RequestKey& key) {
  start();
  const wire::Key wire = wire_key(key);
  builder_.Finish(wire::CreateAbort(builder_, &wire));
  return bytes();
}

Bytes Encoder::credit(const CreditRecord& credit) {
  start();
  const wire::Key key = wire_key(credit.key);
  builder_.Finish(wire::CreateCredit(builder_, &key, credit.outputs,
                                     static_cast<wire::OutputKind>(credit.kind)));
  return bytes();
}

}  // namespace omnistage::transfer
