#include <cstring>

#include "omnistage/wire/edge_generated.h"
#include "shm/base/limits.h"
#include "stage_proc/transfer/wire_codec/wire_codec.h"

namespace omnistage::transfer {
namespace {

constexpr uint32_t kDepthMax = 16;
constexpr uint32_t kTablesMax = 1024;
// Above every tensor a slab can hold; keeps products of dimensions far from overflow.
constexpr int64_t kDimensionMax = int64_t{1} << 32;

Status over(const std::string& what, uint64_t got, uint64_t limit) {
  return invalid(what + ": " + std::to_string(got) + ", limit " + std::to_string(limit));
}

template <typename Table>
Result<const Table*> verified(Bytes record, const char* what) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(record.data()), record.size(),
                                 kDepthMax, kTablesMax);
  if (record.size() > limits::kRecordBytesMax || !verifier.VerifyBuffer<Table>(nullptr)) {
    return Status(StatusCode::kProtocol, std::string(what) + " record of " +
                                             std::to_string(record.size()) +
                                             " bytes is not well formed");
  }
  return flatbuffers::GetRoot<Table>(record.data());
}

Result<RequestKey> read_key(const wire::Key* key, const char* what) {
  if (key == nullptr) {
    return Status(StatusCode::kProtocol, std::string(what) + " record has no request key");
  }
  return RequestKey{key->client(), key->generation(), key->request()};
}

template <typename Table>
Result<RequestKey> key_of(Bytes record, const char* what) {
  OMS_ASSIGN_OR_RETURN(const Table* table, verified<Table>(record, what));
  return read_key(table->key(), what);
}

std::string text_of(const flatbuffers::String* text) {
  return text == nullptr ? std::string() : std::string(text->data(), text->size());
}

// The verifier only knows that the length word of a vector is aligned, not its 8-byte elements:
// copied bytewise.
template <typename T>
std::vector<T> list_of(const flatbuffers::Vector<T>* list) {
  std::vector<T> out(list == nullptr ? 0 : list->size());
  if (!out.empty()) std::memcpy(out.data(), list->Data(), out.size() * sizeof(T));
  return out;
}

Status read_stops(const wire::Sampling& wire, engine::SamplingParams& out) {
  if (wire.stop() != nullptr) {
    if (wire.stop()->size() > limits::kStopStringsMax) {
      return over("sampling.stop: number of strings", wire.stop()->size(), limits::kStopStringsMax);
    }
    for (const flatbuffers::String* text : *wire.stop()) {
      if (text->size() > limits::kStopStringBytesMax) {
        return over("sampling.stop: bytes of one string", text->size(),
                    limits::kStopStringBytesMax);
      }
      out.stop.push_back(text_of(text));
    }
  }
  if (wire.stop_token_ids() != nullptr && wire.stop_token_ids()->size() > kStopTokensMax) {
    return over("sampling.stop_token_ids: number of ids", wire.stop_token_ids()->size(),
                kStopTokensMax);
  }
  out.stop_token_ids = list_of(wire.stop_token_ids());
  return {};
}

Status read_sampling(const wire::Sampling& wire, engine::SamplingParams& out) {
  out.temperature = wire.temperature();
  out.top_k = wire.top_k();
  out.top_p = wire.top_p();
  out.min_p = wire.min_p();
  out.repetition_penalty = wire.repetition_penalty();
  out.presence_penalty = wire.presence_penalty();
  out.frequency_penalty = wire.frequency_penalty();
  out.seed = wire.seed();
  out.max_tokens = wire.max_tokens();
  out.min_tokens = wire.min_tokens();
  out.ignore_eos = wire.ignore_eos();
  out.include_stop_str_in_output = wire.include_stop_str_in_output();
  return read_stops(wire, out);
}

Status read_extra(const wire::Header& wire, engine::RequestHeader& out) {
  if (wire.extra() == nullptr) return {};
  if (wire.extra()->size() > kExtraParametersMax) {
    return over("extra parameters: number", wire.extra()->size(), kExtraParametersMax);
  }
  for (const wire::Extra* extra : *wire.extra()) {
    if (extra->key()->size() > limits::kNameBytesMax) {
      return over("extra parameters: bytes of a name", extra->key()->size(), limits::kNameBytesMax);
    }
    if (extra->value()->size() > kExtraValueBytesMax) {
      return over("extra parameter '" + text_of(extra->key()) + "': bytes of the value",
                  extra->value()->size(), kExtraValueBytesMax);
    }
    out.extra[text_of(extra->key())] = text_of(extra->value());
  }
  return {};
}

Result<WireHeader> read_header(const wire::Header& wire) {
  WireHeader out;
  OMS_ASSIGN_OR_RETURN(out.request.key, read_key(wire.key(), "a request header"));
  out.request.modalities = wire.modalities();
  out.request.deadline_ns = wire.deadline_ns();
  out.request.priority = wire.priority();
  out.given = wire.given();
  if (wire.output_credit() == 0 || wire.output_credit() > kOutputCreditMax) {
    return invalid("output_credit: " + std::to_string(wire.output_credit()) + ", must be 1.." +
                   std::to_string(kOutputCreditMax));
  }
  out.output_credit = wire.output_credit();
  if (wire.deadline_ns() < 0) return invalid("deadline: must not be negative");
  if (wire.sampling() != nullptr) {
    OMS_RETURN_IF_ERROR(read_sampling(*wire.sampling(), out.request.sampling));
  }
  OMS_RETURN_IF_ERROR(read_extra(wire, out.request));
  return out;
}

Result<uint64_t> tensor_bytes(const HostTensor& tensor) {
  uint64_t bytes = dtype_bytes(tensor.dtype);
  bool zero = false;
  for (int64_t d : tensor.shape) {
    if (d < 0 || d > kDimensionMax) {
      return invalid("tensor dimension: " + std::to_string(d) + ", must be 0.." +
                     std::to_string(kDimensionMax));
    }
    zero = zero || d == 0;
    // A zero elsewhere must not hide a product that does not fit: HostTensor::elements() multiplies
    // in order.
    if (d != 0 && bytes > limits::kSlabBytesMax / static_cast<uint64_t>(d)) {
      return invalid("tensor: above " + std::to_string(limits::kSlabBytesMax) + " bytes");
    }
    if (d != 0) bytes *= static_cast<uint64_t>(d);
  }
  return zero ? 0 : bytes;
}

Result<HostTensor> read_tensor(const wire::Tensor& wire, const OpenTensor& open) {
  HostTensor out;
  if (wire.dtype() < wire::DType::MIN || wire.dtype() > wire::DType::MAX) {
    return over("tensor dtype", static_cast<uint64_t>(wire.dtype()),
                static_cast<uint64_t>(wire::DType::MAX));
  }
  out.dtype = static_cast<DType>(wire.dtype());
  if (wire.shape() != nullptr && wire.shape()->size() > limits::kTensorDimsMax) {
    return over("tensor dimensions", wire.shape()->size(), limits::kTensorDimsMax);
  }
  out.shape = list_of(wire.shape());
  OMS_ASSIGN_OR_RETURN(const uint64_t bytes, tensor_bytes(out));
  if (wire.inline_bytes() != nullptr && wire.pool() != nullptr) {
    return invalid("tensor: has both inline bytes and a pool reference");
  }
  const uint64_t given = wire.inline_bytes() != nullptr ? wire.inline_bytes()->size()
                         : wire.pool() != nullptr       ? wire.pool()->bytes()
                                                        : 0;
  if (given != bytes) {
    return invalid("tensor: the shape needs " + std::to_string(bytes) + " bytes, the record has " +
                   std::to_string(given));
  }
  if (bytes == 0) return out;
  if (wire.pool() != nullptr) {
    const wire::PoolRef& p = *wire.pool();
    const shm::TensorRef ref{p.slab(),     p.lease(),  p.generation(),
                             p.reserved(), p.offset(), p.bytes()};
    OMS_ASSIGN_OR_RETURN(out.data, open(ref));
    return out;
  }
  OMS_ASSIGN_OR_RETURN(HostTensor copy, HeapAllocator().allocate(out.dtype, out.shape));
  std::memcpy(copy.data.get(), wire.inline_bytes()->data(), bytes);
  return copy;
}

Result<engine::PayloadValue> read_value(const wire::Entry& entry, const OpenTensor& open) {
  const std::string name = text_of(entry.key());
  if (entry.value() == nullptr) return invalid("entry '" + name + "': has no value");
  switch (entry.value_type()) {
    case wire::Value::Tensor: {
      Result<HostTensor> tensor = read_tensor(*entry.value_as_Tensor(), open);
      if (!tensor.ok()) {
        return Status(tensor.status().code(), "entry '" + name + "': " + tensor.status().message());
      }
      return engine::PayloadValue(std::move(*tensor));
    }
    case wire::Value::Int:
      return engine::PayloadValue(entry.value_as_Int()->value());
    case wire::Value::Float:
      return engine::PayloadValue(entry.value_as_Float()->value());
    case wire::Value::Text:
      return engine::PayloadValue(text_of(entry.value_as_Text()->value()));
    case wire::Value::IntList:
      return engine::PayloadValue(list_of(entry.value_as_IntList()->values()));
    case wire::Value::StringList: {
      std::vector<std::string> list;
      if (const auto* values = entry.value_as_StringList()->values()) {
        for (const flatbuffers::String* text : *values) list.push_back(text_of(text));
      }
      return engine::PayloadValue(std::move(list));
    }
    default:
      return invalid("entry '" + name + "': unknown value type " +
                     std::to_string(static_cast<int>(entry.value_type())));
  }
}

Status read_entries(const wire::Chunk& wire, const OpenTensor& open, engine::Payload& out) {
  if (wire.entries() == nullptr) return {};
  if (wire.entries()->size() > kChunkEntriesMax) {
    return over("chunk entries", wire.entries()->size(), kChunkEntriesMax);
  }
  for (const wire::Entry* entry : *wire.entries()) {
    OMS_ASSIGN_OR_RETURN(engine::PayloadValue value, read_value(*entry, open));
    const bool fresh = out.emplace(text_of(entry->key()), std::move(value)).second;
    if (!fresh) return invalid("entry '" + text_of(entry->key()) + "': given twice");
  }
  return {};
}

}  // namespace

Result<RequestKey> record_key(uint16_t kind, Bytes record) {
  switch (kind) {
    case kRecordSubmit: {
      OMS_ASSIGN_OR_RETURN(const auto* submit, verified<wire::Submit>(record, "a submit"));
      return read_key(submit->header()->key(), "a submit");
    }
    case kRecordChunk:
      return key_of<wire::Chunk>(record, "a chunk");
    case kRecordOutput:
      return key_of<wire::Output>(record, "an output");
    case kRecordStageEnd:
      return key_of<wire::StageEnd>(record, "a stage end");
    case kRecordAbort:
      return key_of<wire::Abort>(record, "an abort");
    case kRecordCredit:
      return key_of<wire::Credit>(record, "a credit");
    default:
      return Status(StatusCode::kProtocol, "unknown record kind " + std::to_string(kind));
  }
}

Result<SubmitRecord> decode_submit(Bytes record) {
  OMS_ASSIGN_OR_RETURN(const auto* submit, verified<wire::Submit>(record, "a submit"));
  SubmitRecord out;
  OMS_ASSIGN_OR_RETURN(out.header, read_header(*submit->header()));
  out.input.system_prompt = text_of(submit->system_prompt());
  out.input.text = text_of(submit->text());
  const size_t bytes = out.input.system_prompt.size() + out.input.text.size();
  if (bytes > limits::kTextInputBytesMax) {
    return over("text and system prompt: bytes", bytes, limits::kTextInputBytesMax);
  }
  out.input.token_ids = list_of(submit->token_ids());
  return out;
}

Result<ChunkRecord> decode_chunk(Bytes record, const OpenTensor& open) {
  OMS_ASSIGN_OR_RETURN(const auto* chunk, verified<wire::Chunk>(record, "a chunk"));
  ChunkRecord out;
  OMS_ASSIGN_OR_RETURN(out.chunk.key, read_key(chunk->key(), "a chunk"));
  out.chunk.number = chunk->number();
  out.chunk.finished = chunk->finished();
  if ((chunk->number() == 0) != (chunk->header() != nullptr)) {
    return invalid("chunk " + std::to_string(chunk->number()) +
                   (chunk->number() == 0 ? ": has no request header"
                                         : ": only chunk 0 may have a request header"));
  }
  if (chunk->header() != nullptr) {
    OMS_ASSIGN_OR_RETURN(out.header, read_header(*chunk->header()));
    if (out.header.request.key != out.chunk.key) {
      return invalid("chunk 0: the header is of another request");
    }
    out.chunk.header = out.header.request;
  }
  OMS_RETURN_IF_ERROR(read_entries(*chunk, open, out.chunk.payload));
  return out;
}

Result<engine::StageOutput> decode_output(Bytes record, const OpenTensor& open) {
  OMS_ASSIGN_OR_RETURN(const auto* output, verified<wire::Output>(record, "an output"));
  engine::StageOutput out;
  OMS_ASSIGN_OR_RETURN(out.key, read_key(output->key(), "an output"));
  if (output->kind() > wire::OutputKind::MAX) {
    return over("output kind", static_cast<uint64_t>(output->kind()),
                static_cast<uint64_t>(wire::OutputKind::MAX));
  }
  out.kind = static_cast<engine::OutputKind>(output->kind());
  out.position = output->position();
  out.text = text_of(output->text());
  out.token_ids = list_of(output->token_ids());
  out.sample_rate = output->sample_rate();
  if (output->tensor() != nullptr) {
    OMS_ASSIGN_OR_RETURN(out.tensor, read_tensor(*output->tensor(), open));
  } else {
    out.tensor.shape = {0};
  }
  return out;
}

Result<engine::StageEnd> decode_stage_end(Bytes record) {
  OMS_ASSIGN_OR_RETURN(const auto* end, verified<wire::StageEnd>(record, "a stage end"));
  engine::StageEnd out;
  OMS_ASSIGN_OR_RETURN(out.key, read_key(end->key(), "a stage end"));
  if (end->reason() > wire::FinishReason::MAX) {
    return over("finish reason", static_cast<uint64_t>(end->reason()),
                static_cast<uint64_t>(wire::FinishReason::MAX));
  }
  out.reason = static_cast<engine::FinishReason>(end->reason());
  const int32_t code = end->status();
  if (code > 0 || code < static_cast<int32_t>(StatusCode::kInternal)) {
    return invalid("stage end status: unknown code " + std::to_string(code));
  }
  out.status = Status(static_cast<StatusCode>(code), text_of(end->message()));
  out.usage = {end->prompt_tokens(), end->output_tokens(), end->audio_samples()};
  return out;
}

Result<RequestKey> decode_abort(Bytes record) {
  return key_of<wire::Abort>(record, "an abort");
}

Result<CreditRecord> decode_credit(Bytes record) {
  OMS_ASSIGN_OR_RETURN(const auto* credit, verified<wire::Credit>(record, "a credit"));
  CreditRecord out;
  OMS_ASSIGN_OR_RETURN(out.key, read_key(credit->key(), "a credit"));
  if (credit->kind() > wire::OutputKind::MAX) {
    return over("credit kind", static_cast<uint64_t>(credit->kind()),
                static_cast<uint64_t>(wire::OutputKind::MAX));
  }
  out.kind = static_cast<engine::OutputKind>(credit->kind());
  out.outputs = credit->outputs();
  if (out.outputs == 0 || out.outputs > kOutputCreditMax) {
    return invalid("credit: " + std::to_string(out.outputs) + ", must be 1.." +
                   std::to_string(kOutputCreditMax));
  }
  return out;
}

}  // namespace omnistage::transfer
