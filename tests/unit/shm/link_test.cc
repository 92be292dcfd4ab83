// Links: hello, records in both directions, both rings, full rings, orderly and sudden ends.
#include <thread>

#include "shm/base/limits.h"
#include "tests/unit/shm/link_pair.h"

namespace omnistage::shm {
namespace {

constexpr LinkOptions kSmall{64u << 10, 16u << 10};

TEST(Link, RecordsArriveInOrderWithKindAndNumber) {
  LinkPair pair;
  ASSERT_TRUE(pair.a->connected() && pair.b->connected());
  EXPECT_EQ(pair.a->peer().name, "beta");
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(pair.a->try_send(kKind + i, bytes_of("record " + std::to_string(i))),
              SendResult::kOk);
  Record record;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.b->poll(record));
    EXPECT_EQ(record.kind, kKind + i);
    EXPECT_EQ(record.sequence, static_cast<uint64_t>(i));
    EXPECT_FALSE(record.control);
    EXPECT_EQ(text_of(record), "record " + std::to_string(i));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(record.bytes.data()) % 16, 0u);
  }
  EXPECT_FALSE(pair.b->poll(record));
}

TEST(Link, ControlOvertakesData) {
  LinkPair pair;
  ASSERT_EQ(pair.a->try_send(kKind, bytes_of("data")), SendResult::kOk);
  ASSERT_EQ(pair.a->try_send_control(kKind, bytes_of("control")), SendResult::kOk);
  Record record;
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_TRUE(record.control);
  EXPECT_EQ(text_of(record), "control");
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_EQ(text_of(record), "data");
}

TEST(Link, RecordsWrittenBeforeThePeerAttachesAreRead) {
  LinkPair pair({}, false);
  EXPECT_FALSE(pair.a->connected());
  ASSERT_EQ(pair.a->try_send(kKind, bytes_of("early")), SendResult::kOk);
  Record record;
  EXPECT_FALSE(pair.b->poll(record));
  pair.sockets();
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_EQ(text_of(record), "early");
}

TEST(Link, FullRingRefusesAndTakesAgainAfterReading) {
  LinkPair pair(kSmall);
  const std::string payload(1000, 'x');
  int sent = 0;
  while (pair.a->try_send(kKind, bytes_of(payload)) == SendResult::kOk) ++sent;
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of(payload)), SendResult::kFull);
  EXPECT_GE(sent, 60);
  EXPECT_LT(pair.a->data_room(), 1000u);
  EXPECT_EQ(pair.a->try_send_control(kKind, bytes_of("still open")), SendResult::kOk);
  Record record;
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_TRUE(record.control);
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of(payload)), SendResult::kOk);
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of(payload)), SendResult::kFull);
}

TEST(Link, SizesAtTheBorders) {
  LinkPair pair({256u << 10, 64u << 10});
  Record record;
  for (size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{31}, size_t{32},
                      size_t{33}, size_t{limits::kRecordBytesMax}}) {
    std::string payload(size, static_cast<char>('a' + size % 26));
    for (int i = 0; i < 9; ++i) {
      ASSERT_EQ(pair.a->try_send(kKind, bytes_of(payload)), SendResult::kOk) << size;
      ASSERT_TRUE(pair.b->poll(record)) << size;
      ASSERT_EQ(text_of(record), payload);
    }
  }
  std::string large(limits::kRecordBytesMax + 1, 'x');
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of(large)), SendResult::kTooLarge);
  EXPECT_EQ(pair.a->try_send_control(kKind, bytes_of(large)), SendResult::kTooLarge);
  EXPECT_EQ(pair.a->try_send(1, bytes_of("kind of the link")), SendResult::kTooLarge);
}

TEST(Link, ReservationCommitsLessAndAborts) {
  LinkPair pair;
  SendResult result;
  std::span<std::byte> place = pair.a->try_reserve(1000, result);
  ASSERT_EQ(result, SendResult::kOk);
  ASSERT_EQ(place.size(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place.data()) % 16, 0u);
  std::memcpy(place.data(), "abc", 3);
  Record record;
  EXPECT_FALSE(pair.b->poll(record));
  pair.a->commit(kKind, 3);
  place = pair.a->try_reserve(500, result);
  ASSERT_EQ(result, SendResult::kOk);
  pair.a->abort_reservation();
  pair.a->commit(kKind, 3);  // nothing reserved: nothing happens
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_EQ(text_of(record), "abc");
  EXPECT_FALSE(pair.b->poll(record));
}

TEST(Link, DataRoomIsWhatFits) {
  LinkPair pair(kSmall);
  Record record;
  for (int i = 0; i < 200; ++i) {
    std::string payload(static_cast<size_t>(i * 37 % 3000), 'p');
    while (pair.a->try_send(kKind, bytes_of(payload)) == SendResult::kFull)
      ASSERT_TRUE(pair.b->poll(record));
    size_t room = pair.a->data_room();
    if (room == 0) continue;
    SendResult result;
    pair.a->try_reserve(room, result);
    EXPECT_EQ(result, SendResult::kOk) << room;
    pair.a->abort_reservation();
    pair.a->try_reserve(room + 64, result);
    EXPECT_NE(result, SendResult::kOk) << room;
  }
}

TEST(Link, OneSidedLinkNeedsNoDataRing) {
  LinkPair pair({0, 16u << 10}, kSmall);
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of("x")), SendResult::kTooLarge);
  EXPECT_EQ(pair.a->data_room(), 0u);
  EXPECT_EQ(pair.b->try_send(kKind, bytes_of("y")), SendResult::kOk);
  Record record;
  ASSERT_TRUE(pair.a->poll(record));
  EXPECT_EQ(text_of(record), "y");
}

TEST(Link, OrderlyCloseIsSeenAfterTheLastRecord) {
  LinkPair pair;
  ASSERT_EQ(pair.a->try_send(kKind, bytes_of("last")), SendResult::kOk);
  pair.a->close();
  EXPECT_EQ(pair.a->try_send(kKind, bytes_of("late")), SendResult::kClosed);
  Record record;
  EXPECT_FALSE(pair.b->peer_dead());
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_FALSE(pair.b->peer_closed());
  EXPECT_FALSE(pair.b->poll(record));
  EXPECT_TRUE(pair.b->peer_closed() && pair.b->peer_dead());
  EXPECT_EQ(pair.b->try_send(kKind, bytes_of("x")), SendResult::kPeerDead);
}

TEST(Link, CloseGetsThroughAFullControlRing) {
  LinkPair pair(kSmall);
  std::string payload(100, 'c');
  while (pair.a->try_send_control(kKind, bytes_of(payload)) == SendResult::kOk) {
  }
  pair.a->close();
  Record record;
  while (pair.b->poll(record)) {
  }
  EXPECT_TRUE(pair.b->peer_closed());
}

TEST(Link, CommittedRecordsOfADeadPeerAreRead) {
  LinkPair pair;
  ASSERT_EQ(pair.a->try_send(kKind, bytes_of("testament")), SendResult::kOk);
  pair.a.reset();
  ASSERT_TRUE(pair.b->on_socket().ok());
  EXPECT_TRUE(pair.b->peer_dead());
  Record record;
  ASSERT_TRUE(pair.b->poll(record));
  EXPECT_EQ(text_of(record), "testament");
  EXPECT_TRUE(pair.b->on_socket().ok());
}

TEST(Link, WrongIdentityIsRefusedWithBothNames) {
  UniqueFd x, y;
  ASSERT_TRUE(make_socketpair(x, y).ok());
  auto a = Link::create(std::move(x), stage(1, "alpha"), stage(2, "beta"), {});
  auto b = Link::create(std::move(y), stage(3, "gamma"), stage(1, "alpha"), {});
  ASSERT_TRUE(a.ok() && b.ok());
  Status status = (*a)->on_socket();
  EXPECT_EQ(status.code(), StatusCode::kProtocol);
  EXPECT_NE(status.message().find("gamma"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("beta"), std::string::npos) << status.message();
  EXPECT_TRUE((*a)->peer_dead());
  EXPECT_FALSE((*a)->connected());
}

TEST(Link, OptionsOutOfRangeAreNamed) {
  for (LinkOptions options :
       {LinkOptions{1000, 65536}, LinkOptions{128u << 20, 65536}, LinkOptions{1u << 20, 4096}}) {
    UniqueFd x, y;
    ASSERT_TRUE(make_socketpair(x, y).ok());
    auto link = Link::create(std::move(x), stage(1, "a"), stage(2, "b"), options);
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.status().code(), StatusCode::kInvalid);
    EXPECT_NE(link.status().message().find("_ring_bytes"), std::string::npos);
  }
}

}  // namespace
}  // namespace omnistage::shm
