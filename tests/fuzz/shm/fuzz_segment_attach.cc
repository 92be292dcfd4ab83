// Any bytes as a peer's segment: the input is the start of the file. First byte: bit 0 = slab, bit
// 1 = give the header its magic, version and size, so that the geometry checks are reached. What is
// accepted must lie inside the file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "shm/segment/segment.h"

using namespace omnistage;
using namespace omnistage::shm;

namespace {

bool inside(uint64_t offset, uint64_t bytes, uint64_t total) {
  return offset >= kSegmentPage && offset <= total && bytes <= total - offset;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kBytes = kSegmentPage + kDataRingMin + kControlRingMin;
  if (size < 1) return 0;
  const SegmentKind kind = data[0] & 1 ? SegmentKind::kSlab : SegmentKind::kLink;
  SegmentHeader header{};
  std::memcpy(&header, data + 1, std::min(size - 1, sizeof header));
  if (data[0] & 2) {
    header.magic = kSegmentMagic;
    header.layout_major = kLayoutMajor;
    header.layout_minor = kLayoutMinor;
    header.byte_order = kByteOrderMark;
    header.features = 0;
    header.total_bytes = kBytes;
    header.kind = static_cast<uint32_t>(kind);
  }
  UniqueFd fd(memfd_create("omnistage-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(fd.get(), kBytes) != 0 || fallocate(fd.get(), 0, 0, kBytes) != 0) std::abort();
  if (pwrite(fd.get(), &header, sizeof header, 0) != sizeof header) std::abort();
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | 0x10) != 0)
    std::abort();
  auto peer = PeerSegment::attach(std::move(fd), kind, kBytes);
  if (!peer.ok()) {
    if (peer.status().message().empty()) std::abort();
    return 0;
  }
  const SegmentHeader& got = peer->header();
  if (got.data_bytes != 0 && !inside(got.data_offset, got.data_bytes, peer->bytes())) std::abort();
  if (kind == SegmentKind::kLink && !inside(got.control_offset, got.control_bytes, peer->bytes()))
    std::abort();
  return 0;
}
