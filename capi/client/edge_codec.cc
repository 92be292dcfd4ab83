#include "capi/client/edge_codec.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <new>

#include "capi/state/utf8.h"
#include "shm/base/limits.h"

namespace omnistage::capi {
namespace {

constexpr uint32_t kDepthMax = 16;
constexpr uint32_t kTablesMax = 1024;
// One tensor of an output; keeps products of dimensions far from overflow.
constexpr uint64_t kTensorBytesMax = limits::kSlabBytesMax;

wire::Key wire_key(const RequestKey& key) {
  return wire::Key(key.client, key.generation, key.request);
}

RequestKey read_key(const wire::Key& key) {
  return {key.client(), key.generation(), key.request()};
}

template <typename Table>
Bytes finish(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Table> root) {
  builder.Finish(root);
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return Bytes(begin, begin + builder.GetSize());
}

template <typename Table>
const Table* verified(std::span<const std::byte> record) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(record.data());
  flatbuffers::Verifier verifier(bytes, record.size(), kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<Table>(bytes);
}

Status malformed(const std::string& what) {
  return Status(StatusCode::kProtocol, what);
}

flatbuffers::Offset<wire::Sampling> add_sampling(flatbuffers::FlatBufferBuilder& builder,
                                                 const SubmitData& data) {
  auto stop = builder.CreateVectorOfStrings(data.stop);
  auto stop_ids = builder.CreateVector(data.stop_token_ids);
  wire::SamplingBuilder sampling(builder);
  const auto given = [&](int field) { return (data.given >> field & 1) != 0; };
  if (given(0)) sampling.add_temperature(data.temperature);
  if (given(1)) sampling.add_top_k(data.top_k);
  if (given(2)) sampling.add_top_p(data.top_p);
  if (given(3)) sampling.add_min_p(data.min_p);
  if (given(4)) sampling.add_repetition_penalty(data.repetition_penalty);
  if (given(5)) sampling.add_presence_penalty(data.presence_penalty);
  if (given(6)) sampling.add_frequency_penalty(data.frequency_penalty);
  if (given(7)) sampling.add_seed(data.seed);
  if (given(8)) sampling.add_max_tokens(data.max_tokens);
  if (given(9)) sampling.add_min_tokens(data.min_tokens);
  if (given(10)) sampling.add_ignore_eos(data.ignore_eos);
  if (given(11)) sampling.add_stop(stop);
  if (given(12)) sampling.add_stop_token_ids(stop_ids);
  if (given(13)) sampling.add_include_stop_str_in_output(data.include_stop);
  return sampling.Finish();
}

Result<HostTensor> read_shape(const wire::Tensor& table, uint64_t& bytes) {
  HostTensor tensor;
  if (table.dtype() > wire::DType::MAX) return malformed("a tensor has an unknown dtype");
  tensor.dtype = static_cast<DType>(table.dtype());
  bytes = dtype_bytes(tensor.dtype);
  if (table.shape() == nullptr) return tensor;
  if (table.shape()->size() > limits::kTensorDimsMax) {
    return malformed("a tensor has " + std::to_string(table.shape()->size()) + " dimensions");
  }
  for (int64_t extent : *table.shape()) {
    if (extent < 0 || static_cast<uint64_t>(extent) > kTensorBytesMax) {
      return malformed("a tensor has extent " + std::to_string(extent));
    }
    bytes *= static_cast<uint64_t>(extent);
    if (bytes > kTensorBytesMax) return malformed("a tensor has more than 16 MiB");
    tensor.shape.push_back(extent);
  }
  return tensor;
}

Status read_tensor(const wire::Tensor& table, OutputRecord& out) {
  uint64_t bytes = 0;
  OMS_ASSIGN_OR_RETURN(HostTensor tensor, read_shape(table, bytes));
  const auto* inline_bytes = table.inline_bytes();
  const wire::PoolRef* pool = table.pool();
  if (inline_bytes != nullptr && pool != nullptr) {
    return malformed("a tensor is both inline and in the pool");
  }
  if (pool != nullptr) {
    if (pool->bytes() != bytes || bytes == 0) {
      return malformed("a tensor of " + std::to_string(bytes) + " bytes has a pool block of " +
                       std::to_string(pool->bytes()));
    }
    out.pooled = true;
    out.ref = {pool->slab(), pool->lease(), pool->generation(), 0, pool->offset(), pool->bytes()};
  } else {
    const uint64_t present = inline_bytes != nullptr ? inline_bytes->size() : 0;
    if (present != bytes) {
      return malformed("a tensor of " + std::to_string(bytes) + " bytes came with " +
                       std::to_string(present));
    }
    if (bytes != 0) {
      HeapAllocator heap;
      auto block = heap.allocate(tensor.dtype, tensor.shape);
      if (!block.ok()) return block.status();
      std::memcpy(block->data.get(), inline_bytes->data(), bytes);
      tensor = *block;
    }
  }
  out.event.tensor = std::move(tensor);
  return Status();
}

}  // namespace

Bytes make_submit(const RequestKey& key, const SubmitData& data, int64_t deadline_ns) {
  flatbuffers::FlatBufferBuilder builder(1024 + data.text.size() + data.system_prompt.size());
  std::vector<flatbuffers::Offset<wire::Extra>> extras;
  for (const auto& [name, value] : data.extra) {
    auto name_offset = builder.CreateString(name);
    extras.push_back(wire::CreateExtra(builder, name_offset, builder.CreateString(value)));
  }
  auto extra = builder.CreateVector(extras);
  auto sampling = add_sampling(builder, data);
  const wire::Key wired = wire_key(key);
  auto header = wire::CreateHeader(builder, &wired, data.wanted, deadline_ns, data.priority,
                                   sampling, extra, data.given, data.credit);
  flatbuffers::Offset<flatbuffers::String> system, text;
  flatbuffers::Offset<flatbuffers::Vector<int32_t>> ids;
  if (!data.system_prompt.empty()) system = builder.CreateString(data.system_prompt);
  if (!data.text.empty()) text = builder.CreateString(data.text);
  if (!data.token_ids.empty()) ids = builder.CreateVector(data.token_ids);
  return finish(builder, wire::CreateSubmit(builder, header, system, text, ids));
}

Bytes make_abort(const RequestKey& key) {
  flatbuffers::FlatBufferBuilder builder(64);
  const wire::Key wired = wire_key(key);
  return finish(builder, wire::CreateAbort(builder, &wired));
}

Bytes make_credit(const RequestKey& key, uint32_t outputs, OutputKind kind) {
  flatbuffers::FlatBufferBuilder builder(64);
  const wire::Key wired = wire_key(key);
  return finish(builder,
                wire::CreateCredit(builder, &wired, outputs, static_cast<wire::OutputKind>(kind)));
}

Result<OutputRecord> read_output(std::span<const std::byte> record) {
  const auto* table = verified<wire::Output>(record);
  if (table == nullptr || table->key() == nullptr) {
    return malformed("an Output record is not well formed");
  }
  if (table->kind() > wire::OutputKind::MAX) return malformed("an Output has an unknown kind");
  OutputRecord out;
  out.key = read_key(*table->key());
  out.event.kind = static_cast<OutputKind>(table->kind());
  out.event.position = table->position();
  out.event.sample_rate = table->sample_rate();
  if (table->text() != nullptr) {
    out.event.text.assign(table->text()->data(), table->text()->size());
    if (!utf8_valid(out.event.text)) return malformed("an Output's text is not UTF-8");
  }
  if (table->token_ids() != nullptr) {
    out.event.token_ids.assign(table->token_ids()->begin(), table->token_ids()->end());
  }
  if (table->tensor() != nullptr) OMS_RETURN_IF_ERROR(read_tensor(*table->tensor(), out));
  if (out.event.kind == OutputKind::kAudio) {
    const bool fits = out.event.tensor && out.event.tensor->dtype == DType::kF32 &&
                      out.event.tensor->shape.size() == 1 && out.event.sample_rate != 0;
    if (!fits) return malformed("an audio Output has no float32 [samples] tensor or no rate");
  }
  return out;
}

Result<StageEndRecord> read_stage_end(std::span<const std::byte> record) {
  const auto* table = verified<wire::StageEnd>(record);
  if (table == nullptr || table->key() == nullptr) {
    return malformed("a StageEnd record is not well formed");
  }
  if (table->reason() > wire::FinishReason::MAX) {
    return malformed("a StageEnd has an unknown reason");
  }
  StageEndRecord end;
  end.key = read_key(*table->key());
  end.reason = static_cast<FinishReason>(table->reason());
  end.usage = {table->prompt_tokens(), table->output_tokens(), table->audio_samples()};
  if (table->status() != 0) {
    const int32_t code = table->status();
    const bool known = code < 0 && code >= static_cast<int32_t>(StatusCode::kInternal);
    std::string text = table->message() != nullptr ? table->message()->str() : std::string();
    text.resize(utf8_valid_prefix(text));
    end.status =
        Status(known ? static_cast<StatusCode>(code) : StatusCode::kInternal, std::move(text));
  }
  return end;
}

}  // namespace omnistage::capi
