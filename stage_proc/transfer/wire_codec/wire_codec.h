// Wire codec: engine types to and from the records of wire/edge.fbs. The decoders trust nothing:
// structure is verified with small bounds, every value that sizes, indexes or loops is
// range-checked, and the results share no memory with the record (tensors in the peer's pool
// excepted, which are data only).
//
// Decoding errors: kProtocol = the bytes are no such record (cut the peer off); kInvalid = a
// well-formed record whose values break a limit (end that request; the message names field and
// limit; record_key() tells which).
//
// Threads: decoders are pure; an Encoder belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "shm/pool/tensor_pool.h"
#include "stage_proc/engine/request.h"

namespace omnistage::transfer {

constexpr uint16_t kRecordSubmit = 0x100;
constexpr uint16_t kRecordChunk = 0x101;
constexpr uint16_t kRecordOutput = 0x102;
constexpr uint16_t kRecordStageEnd = 0x103;
constexpr uint16_t kRecordAbort = 0x110;
constexpr uint16_t kRecordCredit = 0x111;

constexpr uint32_t kChunkEntriesMax =
    256;  // with their values well below the verifier's 1024 tables
constexpr uint32_t kExtraParametersMax = 32;
constexpr uint32_t kExtraValueBytesMax = 4096;
constexpr uint32_t kStopTokensMax = 1024;
constexpr uint32_t kOutputCreditMax = 4096;

// Bits of WireHeader::given: field ids of wire::Sampling.
enum SamplingField : uint32_t {
  kFieldTemperature = 0,
  kFieldTopK,
  kFieldTopP,
  kFieldMinP,
  kFieldRepetitionPenalty,
  kFieldPresencePenalty,
  kFieldFrequencyPenalty,
  kFieldSeed,
  kFieldMaxTokens,
  kFieldMinTokens,
  kFieldIgnoreEos,
  kFieldStop,
  kFieldStopTokenIds,
  kFieldIncludeStop,
};

// The request header with what only the shells need.
struct WireHeader {
  engine::RequestHeader request;
  uint64_t given = 0;  // sampling fields the caller set
  uint32_t output_credit =
      0;  // outputs per kind the client takes before it returns credit, 1..kOutputCreditMax
};

struct SubmitRecord {
  WireHeader header;
  engine::EntryInput input;
};

struct ChunkRecord {
  engine::StageChunk chunk;  // chunk.header is the same as header.request when number is 0
  WireHeader header;         // with number 0 only
};

struct CreditRecord {
  RequestKey key;
  uint32_t outputs = 0;  // at least 1
  engine::OutputKind kind = engine::OutputKind::kText;
};

// A view of a block in the peer's pool (Link::open_tensor).
using OpenTensor = std::function<Result<std::shared_ptr<std::byte>>(const shm::TensorRef&)>;
// Puts a tensor above limits::kInlineTensorBytesMax where the peer can read it (Link::lease).
using LeaseTensor = std::function<Result<shm::TensorRef>(const HostTensor&)>;

using Bytes = std::span<const std::byte>;

// Key of a record of any kind above. Errors: kProtocol.
Result<RequestKey> record_key(uint16_t kind, Bytes record);

Result<SubmitRecord> decode_submit(Bytes record);
Result<ChunkRecord> decode_chunk(Bytes record, const OpenTensor& open);
Result<engine::StageOutput> decode_output(Bytes record, const OpenTensor& open);
Result<engine::StageEnd> decode_stage_end(Bytes record);
Result<RequestKey> decode_abort(Bytes record);
Result<CreditRecord> decode_credit(Bytes record);

class Encoder {
 public:
  // Each returns bytes that stay valid until the next call. Errors: kInvalid when the record would
  // be above limits::kRecordBytesMax or an entry above its limit; what `lease` returned. Leases
  // taken for a record that is not sent have to be given back by the caller: leases().
  Result<Bytes> submit(const SubmitRecord& record);
  // `header` is used for number 0 and must be given then.
  Result<Bytes> chunk(const engine::StageChunk& chunk, const WireHeader* header,
                      const LeaseTensor& lease);
  Result<Bytes> output(const engine::StageOutput& output, const LeaseTensor& lease);
  // The message is cut to fit.
  Bytes stage_end(const engine::StageEnd& end);
  Bytes abort(const RequestKey& key);
  Bytes credit(const CreditRecord& credit);

  const std::vector<shm::TensorRef>& leases() const { return leases_; }

 private:
  friend class EncoderImpl;
  void start();
  Bytes bytes() const;
  Result<Bytes> checked_bytes(const char* what) const;

  flatbuffers::FlatBufferBuilder builder_{4096};
  std::vector<shm::TensorRef> leases_;
};

}  // namespace omnistage::transfer
