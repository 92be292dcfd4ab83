// A peer that does not keep to the rules: every message, header and word it can write is tried
// wrong.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "shm/link/link_impl.h"
#include "shm/link/messages.h"
#include "shm/segment/segment.h"
#include "tests/unit/shm/link_pair.h"
#include "tests/unit/shm/processes.h"

namespace omnistage::shm {
namespace {

constexpr uint64_t kBytes = kSegmentPage + kDataRingMin + kControlRingMin;

// The honest end is `link`; this end is made of raw parts.
struct Hostile {
  std::unique_ptr<Link> link;
  UniqueFd socket;
  OwnedSegment segment;
  RingWriter data, control;

  Hostile() {
    UniqueFd x;
    EXPECT_TRUE(make_socketpair(x, socket).ok());
    link = *Link::create(std::move(x), stage(1, "alpha"), stage(2, "beta"),
                         {kDataRingMin, kControlRingMin});
    segment = *OwnedSegment::create("omnistage-test", kBytes, header());
    data = RingWriter(segment.base() + kSegmentPage, kDataRingMin, &words().data_head, 0, 7);
    control = RingWriter(segment.base() + kSegmentPage + kDataRingMin, kControlRingMin,
                         &words().control_head, 0, 7);
  }

  static SegmentHeader header() {
    SegmentHeader header{};
    header.kind = static_cast<uint32_t>(SegmentKind::kLink);
    header.role = 1;
    header.index = 2;
    header.epoch = 7;
    header.data_offset = kSegmentPage;
    header.data_bytes = kDataRingMin;
    header.control_offset = kSegmentPage + kDataRingMin;
    header.control_bytes = kControlRingMin;
    return header;
  }
  static LinkMessage hello() {
    LinkMessage message = make_message(MessageType::kHello);
    message.role = 1;
    message.index = 2;
    message.epoch = 7;
    message.name_bytes = 4;
    std::memcpy(message.name, "beta", 4);
    message.bytes = kBytes;
    return message;
  }

  LinkWords& words() { return *reinterpret_cast<LinkWords*>(segment.base() + kWordsOffset); }
  void send(const LinkMessage& message, int fd) {
    EXPECT_TRUE(send_message(socket.get(), message, fd).ok());
  }
  Hostile& connected() {
    send(hello(), segment.fd());
    EXPECT_TRUE(link->on_socket().ok());
    EXPECT_TRUE(link->connected());
    return *this;
  }
  void expect_cut_off() {
    EXPECT_TRUE(link->peer_dead());
    EXPECT_EQ(link->try_send(kKind, bytes_of("x")), SendResult::kPeerDead);
    Record record;
    EXPECT_FALSE(link->poll(record));
    EXPECT_TRUE(link->on_socket().ok()) << "an end that is dead has nothing to complain about";
  }
};

void record_list(RingWriter& ring, RecordKind kind, uint64_t count, size_t entries) {
  std::vector<std::byte> bytes(8 + entries * 8);
  std::memcpy(bytes.data(), &count, 8);
  EXPECT_EQ(ring.write(kind, bytes), RingWriter::Outcome::kOk);
}

TEST(LinkHostile, Hellos) {
  auto refused = [](auto change, StatusCode code) {
    Hostile h;
    LinkMessage hello = Hostile::hello();
    change(hello);
    h.send(hello, h.segment.fd());
    Status status = h.link->on_socket();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_FALSE(h.link->connected());
    h.expect_cut_off();
  };
  using M = LinkMessage;
  refused([](M& m) { m.magic ^= 1; }, StatusCode::kProtocol);
  refused([](M& m) { m.byte_order = 0x04030201; }, StatusCode::kProtocol);
  refused([](M& m) { m.layout_major = 9; }, StatusCode::kUnsupported);
  refused([](M& m) { m.layout_minor = 9; }, StatusCode::kUnsupported);
  refused([](M& m) { m.type = 0; }, StatusCode::kProtocol);
  refused([](M& m) { m.type = 77; }, StatusCode::kProtocol);
  refused([](M& m) { m.type = 2; }, StatusCode::kProtocol);  // a slab before the hello
  refused([](M& m) { m.role = 2; }, StatusCode::kProtocol);
  refused([](M& m) { m.index = 3; }, StatusCode::kProtocol);
  refused([](M& m) { m.epoch = 8; }, StatusCode::kProtocol);
  refused([](M& m) { m.name[0] = '\n'; }, StatusCode::kProtocol);
  refused([](M& m) { m.name_bytes = 65; }, StatusCode::kProtocol);
  refused([](M& m) { m.bytes += 4096; }, StatusCode::kProtocol);
}

TEST(LinkHostile, FileDescriptorsOfTheWrongNumberOrKind) {
  const size_t before = open_fds();
  {
    Hostile h;
    h.send(Hostile::hello(), -1);
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
  {
    Hostile h;
    h.send(Hostile::hello(), h.socket.get());
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
  for (size_t fds : {2, 3, 9}) {
    Hostile h;
    LinkMessage hello = Hostile::hello();
    std::vector<int> list(fds, h.segment.fd());
    std::vector<char> control(CMSG_SPACE(fds * sizeof(int)));
    iovec data{&hello, sizeof hello};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds * sizeof(int));
    std::memcpy(CMSG_DATA(part), list.data(), fds * sizeof(int));
    ASSERT_GT(sendmsg(h.socket.get(), &header, 0), 0);
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol) << fds;
  }
  EXPECT_EQ(open_fds(), before);
}

TEST(LinkHostile, MessagesOfTheWrongSize) {
  for (size_t size : {size_t{1}, sizeof(LinkMessage) - 1, sizeof(LinkMessage) + 1, size_t{5000}}) {
    Hostile h;
    std::vector<char> bytes(size);
    LinkMessage hello = Hostile::hello();
    std::memcpy(bytes.data(), &hello, std::min(size, sizeof hello));
    ASSERT_GT(::send(h.socket.get(), bytes.data(), size, 0), 0);
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol) << size;
    h.expect_cut_off();
  }
}

TEST(LinkHostile, SegmentsThatAreNot) {
  {
    Hostile h;  // the owner could change or shrink it
    UniqueFd fd(memfd_create("omnistage-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
    h.send(Hostile::hello(), fd.get());
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
  {
    Hostile h;  // of another process
    SegmentHeader header = Hostile::header();
    header.index = 3;
    auto other = *OwnedSegment::create("omnistage-test", kBytes, header);
    h.send(Hostile::hello(), other.fd());
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
}

TEST(LinkHostile, MessagesAfterTheHello) {
  {
    Hostile& h = (new Hostile)->connected();
    h.send(Hostile::hello(), h.segment.fd());
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
    delete &h;
  }
  LinkMessage slab = make_message(MessageType::kSlab);
  slab.slab = 4;
  slab.bytes = kBytes;
  {
    Hostile h;
    h.connected().send(slab, h.segment.fd());  // a link segment
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
  {
    Hostile h;
    LinkMessage gone = make_message(MessageType::kSlabGone);
    gone.slab = 4;
    h.connected().send(gone, -1);
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
  {
    Hostile h;  // the same slab twice
    SegmentHeader header{};
    header.kind = static_cast<uint32_t>(SegmentKind::kSlab);
    header.slab = 4;
    header.data_offset = kSegmentPage;
    header.data_bytes = kBytes - kSegmentPage;
    auto segment = *OwnedSegment::create("omnistage-test", kBytes, header);
    h.connected().send(slab, segment.fd());
    EXPECT_TRUE(h.link->on_socket().ok());
    h.send(slab, segment.fd());
    EXPECT_EQ(h.link->on_socket().code(), StatusCode::kProtocol);
  }
}

TEST(LinkHostile, RingWords) {
  Record record;
  for (bool control : {false, true}) {
    Hostile h;
    h.connected();
    (control ? h.words().control_head : h.words().data_head).store(kDataRingMin * 2);
    EXPECT_FALSE(h.link->poll(record));
    h.expect_cut_off();
  }
  for (uint64_t tail : {uint64_t{1} << 40, uint64_t{0} - 32}) {
    Hostile h;
    h.connected().words().data_tail.store(tail);
    SendResult result;
    do result = h.link->try_send(kKind, bytes_of(std::string(2000, 'x')));
    while (result == SendResult::kOk);
    EXPECT_EQ(result, SendResult::kPeerDead);
    h.expect_cut_off();
  }
}

TEST(LinkHostile, RecordsBeforeTheBadOneAreDelivered) {
  Hostile h;
  h.connected();
  EXPECT_EQ(h.data.write(kKind, bytes_of("good")), RingWriter::Outcome::kOk);
  EXPECT_EQ(h.data.write(kKind, bytes_of("bad")), RingWriter::Outcome::kOk);
  reinterpret_cast<RecordHeader*>(h.segment.base() + kSegmentPage + record_stride(4))->bytes =
      60000;
  Record record;
  ASSERT_TRUE(h.link->poll(record));
  EXPECT_EQ(text_of(record), "good");
  EXPECT_FALSE(h.link->poll(record));
  h.expect_cut_off();
}

TEST(LinkHostile, LinkRecords) {
  auto cut_off = [](auto write, bool with_pool) {
    Hostile h;
    auto pool = TensorPool::create(1u << 20);
    if (with_pool) h.link->attach_pool(pool);
    write(h.connected());
    Record record;
    EXPECT_FALSE(h.link->poll(record));
    return h.link->peer_dead() && !h.link->peer_closed();
  };
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.data, kLinkLeaseReturn, 1, 1); }, true))
      << "in the data ring";
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 1, 1); }, false))
      << "no pool";
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 0, 0); }, true));
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 2, 1); }, true));
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 65, 65); }, true));
  EXPECT_TRUE(
      cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 1ull << 61, 1); }, true));
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, 77, 1, 1); }, true));
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, 0, 1, 1); }, true));
  EXPECT_TRUE(cut_off([](Hostile& h) { record_list(h.control, kLinkClose, 1, 1); }, true));
  // Returns of leases that do not exist are late returns: ignored.
  EXPECT_FALSE(cut_off([](Hostile& h) { record_list(h.control, kLinkLeaseReturn, 64, 64); }, true));
}

TEST(LinkHostile, EndlessLinkRecordsDoNotHoldTheReader) {
  Hostile h;
  h.link->attach_pool(TensorPool::create(1u << 20));
  h.connected();
  std::vector<std::byte> bytes(16);
  bytes[0] = std::byte{1};
  while (h.control.write(kLinkLeaseReturn, bytes) == RingWriter::Outcome::kOk) {
  }
  ASSERT_EQ(h.data.write(kKind, bytes_of("data")), RingWriter::Outcome::kOk);
  Record record;
  EXPECT_TRUE(h.link->poll(record));
  EXPECT_EQ(text_of(record), "data");
}

}  // namespace
}  // namespace omnistage::shm
