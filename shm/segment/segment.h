// OwnedSegment and PeerSegment: one piece of memory that one process writes and others read.
//
// The owner creates a memfd, reserves every page, maps it read-write once, fills in the header and
// then seals it SHRINK | GROW | FUTURE_WRITE | SEAL: from then on nobody, the owner included, can
// get another writable mapping, write() to it, punch holes or change its size. A peer that got the
// fd over a socket checks seals, size and header and maps it read-only. Both mappings are
// MADV_DONTFORK.
//
// Owner of a segment object unmaps it in the destructor. Threads: objects are not synchronised; the
// bytes are shared by the rules of the rings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shm/base/fd.h"
#include "shm/base/status.h"
#include "shm/segment/format.h"

namespace omnistage::shm {

// One mapping; unmapped with the object.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, size_t bytes) : base_(static_cast<std::byte*>(base)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  void reset();
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

class OwnedSegment {
 public:
  // `header` carries kind, identity, ring or payload geometry; magic, version, size, pid and start
  // time are filled in here. `name` shows up in /proc/<pid>/maps and messages. Errors: kNoMemory
  // (limit and need), kSystem.
  static Result<OwnedSegment> create(const std::string& name, uint64_t bytes, SegmentHeader header);

  std::byte* base() const { return mapping_.base(); }
  uint64_t bytes() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }  // when it needs not be sent any more; the mapping stays

 private:
  Mapping mapping_;
  UniqueFd fd_;
};

class PeerSegment {
 public:
  // Takes the fd, closes it in any case. Errors: kProtocol when seals, size or header are not
  // acceptable (the message says which), kUnsupported for another layout version, kSystem.
  static Result<PeerSegment> attach(UniqueFd fd, SegmentKind kind, uint64_t bytes_max);

  const std::byte* base() const { return mapping_.base(); }
  uint64_t bytes() const { return mapping_.bytes(); }
  const SegmentHeader& header() const { return header_; }  // the checked private copy

 private:
  Mapping mapping_;
  SegmentHeader header_{};
};

// Is this copy of a header acceptable for a file of `file_bytes`? Pure, never touches shared
// memory.
Status check_header(const SegmentHeader& header, SegmentKind kind, uint64_t file_bytes);

// Field 22 of /proc/self/stat; 0 when it cannot be read.
uint64_t own_start_time();

}  // namespace omnistage::shm
