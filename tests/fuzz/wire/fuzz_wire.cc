// Any bytes as any record kind: the first byte chooses the decoder, the rest is the record.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stage_proc/transfer/wire_codec/wire_codec.h"

using namespace omnistage;

namespace {

// Stands for a peer pool that has every block; the decoder must only ask for sizes a slab can have.
Result<std::shared_ptr<std::byte>> open_any(const shm::TensorRef& ref) {
  if (ref.bytes > (64u << 20)) __builtin_trap();
  return std::shared_ptr<std::byte>(new std::byte[ref.bytes](), std::default_delete<std::byte[]>());
}

void touch(const HostTensor& tensor) {
  uint64_t sum = 0;
  for (size_t i = 0; i < tensor.bytes(); ++i) sum += static_cast<uint64_t>(tensor.data.get()[i]);
  volatile uint64_t sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  // An aligned copy, as the link makes one.
  std::vector<std::byte> copy(size - 1);
  if (size > 1) std::memcpy(copy.data(), data + 1, size - 1);
  const transfer::Bytes record(copy);
  static const uint16_t kinds[] = {0x100, 0x101, 0x102, 0x103, 0x110, 0x111, 0x112};
  const uint16_t kind = kinds[data[0] % 7];
  (void)transfer::record_key(kind, record);
  if (kind == transfer::kRecordSubmit) (void)transfer::decode_submit(record);
  if (kind == transfer::kRecordChunk) {
    auto chunk = transfer::decode_chunk(record, open_any);
    if (chunk.ok()) {
      for (const auto& [name, value] : chunk->chunk.payload) {
        if (const auto* tensor = std::get_if<HostTensor>(&value)) touch(*tensor);
      }
    }
  }
  if (kind == transfer::kRecordOutput) {
    auto output = transfer::decode_output(record, open_any);
    if (output.ok()) touch(output->tensor);
  }
  if (kind == transfer::kRecordStageEnd) (void)transfer::decode_stage_end(record);
  if (kind == transfer::kRecordAbort) (void)transfer::decode_abort(record);
  if (kind == transfer::kRecordCredit) (void)transfer::decode_credit(record);
  return 0;
}
