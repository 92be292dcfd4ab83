// Segments: what a peer may do with one (read), what it may not (everything else), and which files
// are refused.
#include "shm/segment/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shm/link/messages.h"
#include "tests/unit/shm/processes.h"

namespace omnistage::shm {
namespace {

SegmentHeader link_header() {
  SegmentHeader header{};
  header.kind = static_cast<uint32_t>(SegmentKind::kLink);
  header.epoch = 4;
  header.data_offset = kSegmentPage;
  header.data_bytes = kDataRingMin;
  header.control_offset = kSegmentPage + kDataRingMin;
  header.control_bytes = kControlRingMin;
  return header;
}
constexpr uint64_t kBytes = kSegmentPage + kDataRingMin + kControlRingMin;

UniqueFd copy_of(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

TEST(Segment, OwnerWritesPeerReads) {
  auto owner = OwnedSegment::create("omnistage-test", kBytes, link_header());
  ASSERT_TRUE(owner.ok()) << owner.status().to_string();
  auto peer = PeerSegment::attach(copy_of(owner->fd()), SegmentKind::kLink, kBytes);
  ASSERT_TRUE(peer.ok()) << peer.status().to_string();
  EXPECT_NE(owner->base(), peer->base());
  owner->base()[5000] = std::byte{42};
  EXPECT_EQ(peer->base()[5000], std::byte{42});
  EXPECT_EQ(peer->header().pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(peer->header().start_time, own_start_time());
  EXPECT_GT(own_start_time(), 0u);
}

// Each bit is one thing a peer must not be able to do.
int attack(int fd) {
  int done = 0;
  if (mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) done |= 1;
  void* base = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return 128;
  if (mprotect(base, kBytes, PROT_READ | PROT_WRITE) == 0) done |= 2;
  if (pwrite(fd, "x", 1, 5000) >= 0) done |= 4;
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0) done |= 8;
  if (madvise(base, kBytes, MADV_REMOVE) == 0) done |= 16;
  if (ftruncate(fd, 4096) == 0 || ftruncate(fd, 2 * kBytes) == 0) done |= 32;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  int again = open(path.c_str(), O_RDWR);
  if (again >= 0) {
    if (pwrite(again, "x", 1, 5000) >= 0) done |= 64;
    if (mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
      done |= 64;
    if (fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0) done |= 64;
    close(again);
  }
  if (open(path.c_str(), O_WRONLY | O_TRUNC) >= 0) done |= 32;
  return done;
}

TEST(Segment, PeerProcessCannotChangeAnything) {
  UniqueFd here, there;
  ASSERT_TRUE(make_socketpair(here, there).ok());
  pid_t child = run_child([&] {
    here.reset();
    for (int i = 0; i < 30000; ++i) {
      auto received = receive_message(there.get());
      if (received.ok()) return attack(received->fd.get());
      if (received.status().code() != StatusCode::kAgain) return 254;
      usleep(1000);
    }
    return 255;
  });
  there.reset();
  auto owner = OwnedSegment::create("omnistage-test", kBytes, link_header());
  ASSERT_TRUE(owner.ok());
  owner->base()[5000] = std::byte{42};
  ASSERT_TRUE(send_message(here.get(), make_message(MessageType::kHello), owner->fd()).ok());
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(owner->base()[5000], std::byte{42});
}

TEST(Segment, ChildOfForkDoesNotInheritTheMapping) {
  auto owner = OwnedSegment::create("omnistage-test", kBytes, link_header());
  ASSERT_TRUE(owner.ok());
  unsigned char vec = 0;
  pid_t child = run_child([&] { return mincore(owner->base(), 1, &vec) == 0 ? 1 : 0; });
  EXPECT_EQ(exit_code(child), 0);
}

TEST(Segment, MemoryIsReservedAtOnce) {
  auto owner = OwnedSegment::create("omnistage-test", kBytes, link_header());
  ASSERT_TRUE(owner.ok());
  struct stat info;
  ASSERT_EQ(fstat(owner->fd(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kBytes);
  EXPECT_EQ(
      OwnedSegment::create("omnistage-test", uint64_t{1} << 50, link_header()).status().code(),
      StatusCode::kNoMemory);
}

TEST(Segment, FilesThatAreNotSealedSegmentsAreRefused) {
  auto refused = [](UniqueFd fd, const char* why) {
    auto peer = PeerSegment::attach(std::move(fd), SegmentKind::kLink, kBytes);
    EXPECT_FALSE(peer.ok()) << why;
    if (peer.ok()) return;
    EXPECT_EQ(peer.status().code(), StatusCode::kProtocol) << why;
    EXPECT_NE(peer.status().message().find(why), std::string::npos) << peer.status().message();
  };
  refused(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), "not a memory file");
  refused(UniqueFd(), "not a memory file");
  UniqueFd open_file(memfd_create("omnistage-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open_file.get(), kBytes), 0);
  refused(copy_of(open_file.get()), "seals");
  ASSERT_EQ(fcntl(open_file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | 0x10),
            0);
  refused(copy_of(open_file.get()), "not reserved");
  auto large = OwnedSegment::create("omnistage-test", 2 * kBytes, link_header());
  refused(copy_of(large->fd()), "limit");
}

TEST(Segment, HostileHeaders) {
  SegmentHeader good = link_header();
  good.magic = kSegmentMagic;
  good.layout_major = kLayoutMajor;
  good.layout_minor = kLayoutMinor;
  good.byte_order = kByteOrderMark;
  good.total_bytes = kBytes;
  ASSERT_TRUE(check_header(good, SegmentKind::kLink, kBytes).ok());
  auto code = [&](auto change) {
    SegmentHeader header = good;
    change(header);
    return check_header(header, SegmentKind::kLink, kBytes).code();
  };
  using H = SegmentHeader;
  EXPECT_EQ(code([](H& h) { h.magic ^= 1; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.byte_order = 0x04030201; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.layout_major = 2; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](H& h) { h.layout_minor = kLayoutMinor + 2; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](H& h) { h.layout_minor = kLayoutMinor + 1; }), StatusCode::kOk);
  EXPECT_EQ(code([](H& h) { h.features = 1; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](H& h) { h.total_bytes += 4096; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.kind = 2; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_bytes = kDataRingMin * 2; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_bytes = 65537; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_bytes = uint64_t{1} << 63; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_offset = 0; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_offset = UINT64_MAX - 127; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.control_offset = kSegmentPage; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.control_offset += 1; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.control_bytes = 0; }), StatusCode::kProtocol);
  EXPECT_EQ(code([](H& h) { h.data_bytes = h.data_offset = 0; }), StatusCode::kOk);
}

TEST(Segment, NothingIsLeftBehind) {
  const size_t fds = open_fds(), maps = shared_mappings();
  for (int i = 0; i < 20; ++i) {
    auto owner = OwnedSegment::create("omnistage-test", kBytes, link_header());
    auto peer = PeerSegment::attach(copy_of(owner->fd()), SegmentKind::kLink, kBytes);
    EXPECT_EQ(shared_mappings(), maps + 2);
    auto refused = PeerSegment::attach(copy_of(owner->fd()), SegmentKind::kSlab, kBytes);
    EXPECT_FALSE(refused.ok());
  }
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(shared_mappings(), maps);
}

}  // namespace
}  // namespace omnistage::shm
