#include "shm/segment/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <utility>

#include "shm/segment/memory_check.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace omnistage::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

Status refuse(const std::string& why) {
  return Status(StatusCode::kProtocol, "segment refused: " + why);
}

Status check_area(const char* name, uint64_t offset, uint64_t bytes, uint64_t file_bytes) {
  if (offset < kSegmentPage || offset % kLineBytes != 0 || offset > file_bytes ||
      bytes > file_bytes - offset)
    return refuse(std::string(name) + " area at " + std::to_string(offset) + " of " +
                  std::to_string(bytes) + " bytes does not fit a file of " +
                  std::to_string(file_bytes));
  return Status();
}

Status check_ring(const char* name, uint64_t bytes, uint64_t least, uint64_t most) {
  if (!std::has_single_bit(bytes) || bytes < least || bytes > most)
    return refuse(std::string(name) + " ring has " + std::to_string(bytes) +
                  " bytes, allowed are powers of two from " + std::to_string(least) + " to " +
                  std::to_string(most));
  return Status();
}

Status check_link_rings(const SegmentHeader& h, uint64_t file_bytes) {
  if (h.data_bytes != 0) {
    OMS_RETURN_IF_ERROR(check_ring("data", h.data_bytes, kDataRingMin, kDataRingMax));
    OMS_RETURN_IF_ERROR(check_area("data", h.data_offset, h.data_bytes, file_bytes));
  }
  OMS_RETURN_IF_ERROR(check_ring("control", h.control_bytes, kControlRingMin, kControlRingMax));
  OMS_RETURN_IF_ERROR(check_area("control", h.control_offset, h.control_bytes, file_bytes));
  bool apart = h.data_bytes == 0 || h.data_offset + h.data_bytes <= h.control_offset ||
               h.control_offset + h.control_bytes <= h.data_offset;
  return apart ? Status() : refuse("the rings overlap");
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Mapping::reset() {
  if (base_ != nullptr) munmap(base_, bytes_);
  base_ = nullptr;
}

uint64_t own_start_time() {
  FILE* file = std::fopen("/proc/self/stat", "re");
  if (file == nullptr) return 0;
  char line[1024];
  size_t n = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  line[n] = '\0';
  const char* at = std::strrchr(line, ')');  // the name before it may hold spaces and brackets
  unsigned long long start = 0;
  constexpr const char* kSkip19 =
      ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
  if (at == nullptr || std::sscanf(at, kSkip19, &start) != 1) return 0;
  return start;
}

Result<OwnedSegment> OwnedSegment::create(const std::string& name, uint64_t bytes,
                                          SegmentHeader header) {
  if (bytes < kSegmentPage || bytes % kSegmentPage != 0)
    return internal_error("segment " + name + ": " + std::to_string(bytes) +
                          " bytes are not whole pages");
  OMS_RETURN_IF_ERROR(check_memory(bytes, name));
  OwnedSegment segment;
  segment.fd_.reset(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd_.valid()) return Status::from_errno("memfd_create for " + name);
  int fd = segment.fd_.get();
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return Status::from_errno("sizing " + name);
  int result;
  do result = fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0) {
    if (errno != ENOSPC && errno != ENOMEM) return Status::from_errno("reserving " + name);
    return Status(StatusCode::kNoMemory, "cannot reserve " + std::to_string(bytes) + " bytes for " +
                                             name +
                                             ": the kernel has no more shared memory to give");
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return Status::from_errno("mapping " + name);
  segment.mapping_ = Mapping(base, bytes);
  if (madvise(base, bytes, MADV_DONTFORK) != 0)
    return Status::from_errno("MADV_DONTFORK for " + name);
  header.magic = kSegmentMagic;
  header.layout_major = kLayoutMajor;
  header.layout_minor = kLayoutMinor;
  header.byte_order = kByteOrderMark;
  header.features = kFeaturesKnown;
  header.total_bytes = bytes;
  header.pid = static_cast<uint32_t>(getpid());
  header.start_time = own_start_time();
  std::memcpy(base, &header, sizeof header);
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return Status::from_errno("sealing " + name);
  return segment;
}

Status check_header(const SegmentHeader& h, SegmentKind kind, uint64_t file_bytes) {
  if (h.magic != kSegmentMagic) return refuse("no magic number");
  if (h.byte_order != kByteOrderMark) return refuse("another byte order");
  if (h.layout_major != kLayoutMajor || h.layout_minor > kLayoutMinor + 1 ||
      h.layout_minor + 1 < kLayoutMinor)
    return Status(StatusCode::kUnsupported,
                  "segment layout " + std::to_string(h.layout_major) + "." +
                      std::to_string(h.layout_minor) + " is not readable by this release (" +
                      std::to_string(kLayoutMajor) + "." + std::to_string(kLayoutMinor) +
                      "); update both programs to the same release");
  if ((h.features & ~kFeaturesKnown) != 0)
    return Status(StatusCode::kUnsupported, "segment needs features this release does not know");
  if (h.total_bytes != file_bytes)
    return refuse("header says " + std::to_string(h.total_bytes) + " bytes, the file has " +
                  std::to_string(file_bytes));
  if (h.kind != static_cast<uint32_t>(kind)) return refuse("kind " + std::to_string(h.kind));
  if (kind == SegmentKind::kLink) return check_link_rings(h, file_bytes);
  return check_area("slab", h.data_offset, h.data_bytes, file_bytes);
}

Result<PeerSegment> PeerSegment::attach(UniqueFd fd, SegmentKind kind, uint64_t bytes_max) {
  int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return refuse("not a memory file");
  if ((seals & kSeals) != kSeals) return refuse("its seals are incomplete");
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Status::from_errno("fstat of a peer's segment");
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < kSegmentPage || bytes > bytes_max || bytes % kSegmentPage != 0)
    return refuse("size of " + std::to_string(bytes) + " bytes, limit " +
                  std::to_string(bytes_max));
  // A sparse file would let the peer's memory limit strike in this process.
  if (static_cast<uint64_t>(info.st_blocks) * 512 < bytes)
    return refuse("its memory is not reserved");
  void* base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Status::from_errno("mapping a peer's segment");
  PeerSegment segment;
  segment.mapping_ = Mapping(base, bytes);
  if (madvise(base, bytes, MADV_DONTFORK) != 0) return Status::from_errno("MADV_DONTFORK");
  segment.header_ = copy_shared<SegmentHeader>(segment.base());
  OMS_RETURN_IF_ERROR(check_header(segment.header_, kind, bytes));
  return segment;
}

}  // namespace omnistage::shm
