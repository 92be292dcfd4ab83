// Any ring state: the input is {start line, head - start, epoch, repair headers} and then the bytes
// of a 4 KiB ring. The reader must end with "empty" or "broken" and hand out nothing that was not
// published.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "shm/ring/ring.h"

using namespace omnistage::shm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kCapacity = 4096;
  struct Parameters {
    uint32_t start_line;
    uint32_t published;
    uint32_t epoch;
    uint32_t repair;  // bit 0: positions and numbers of headers are made right, to get further
  } parameters{};
  if (size < sizeof parameters) return 0;
  std::memcpy(&parameters, data, sizeof parameters);
  std::vector<std::byte> ring(kCapacity);
  const size_t bytes = std::min(size - sizeof parameters, ring.size());
  std::memcpy(ring.data(), data + sizeof parameters, bytes);
  const uint64_t start =
      static_cast<uint64_t>(static_cast<int32_t>(parameters.start_line)) * kRecordAlign;
  // Make the chain of headers plausible, so that the fuzzer reaches the length checks.
  uint64_t position = start;
  for (uint64_t number = 0; (parameters.repair & 1) != 0 && number < 8; ++number) {
    RecordHeader header;
    std::byte* at = ring.data() + (position & (kCapacity - 1));
    std::memcpy(&header, at, sizeof header);
    header.position = position;
    header.sequence = number;
    header.epoch = parameters.epoch;
    header.reserved = 0;
    header.flags &= 1;
    std::memcpy(at, &header, sizeof header);
    position += record_stride(header.bytes % kCapacity) / kRecordAlign * kRecordAlign;
  }
  std::atomic<uint64_t> head{0}, tail{0};
  RingReader reader(ring.data(), kCapacity, &head, &tail, start, parameters.epoch);
  head.store(start + parameters.published);
  std::vector<std::byte> out;
  RecordHeader header;
  uint64_t taken = 0;
  while (reader.read(header, out) == RingReader::Outcome::kRecord) {
    if (out.size() != header.bytes) std::abort();
    taken = tail.load() - start;
    if (taken > parameters.published || taken > kCapacity) std::abort();
  }
  // Any tail word: the writer never claims room that it does not have.
  std::atomic<uint64_t> own_head{0};
  RingWriter writer(ring.data(), kCapacity, &own_head, start, 1);
  std::atomic<uint64_t> hostile_tail{start + parameters.published};
  writer.attach(&hostile_tail);
  const std::vector<std::byte> payload(parameters.epoch % 2000);
  for (int i = 0; i < 8; ++i) {
    if (writer.room(0) > kCapacity) std::abort();
    (void)writer.write(9, payload);
  }
  return 0;
}
