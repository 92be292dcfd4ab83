// Control messages and their socket: round trips, descriptors, bounds, damaged bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "shm/base/limits.h"
#include "shm/control/control_socket.h"

namespace omnistage::control {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    a = ControlSocket(UniqueFd(fds[0]));
    b = ControlSocket(UniqueFd(fds[1]));
  }
  ControlSocket a, b;
};

Welcome sample_welcome() {
  Welcome welcome;
  welcome.client = 7;
  welcome.pipeline = "speak";
  welcome.config_path = "deploy/speak.yaml";
  for (uint32_t i = 0; i < limits::kStagesMax; ++i) {
    Stage stage;
    stage.index = i;
    stage.name = "stage-" + std::to_string(i);
    stage.state = wire::StageState::Ready;
    stage.pid = 100 + static_cast<pid_t>(i);
    stage.epoch = 3;
    stage.restarts = 2;
    stage.entry = i == 0;
    stage.final_output = i == 2 ? 2u : 0u;
    if (i > 0) stage.input_sources = {i - 1};
    stage.message = std::string(10000, 'x');
    welcome.stages.push_back(stage);
  }
  return welcome;
}

TEST(Control, WelcomeRoundTripFitsOneMessage) {
  Pair pair;
  ASSERT_TRUE(pair.a.send(make_welcome(sample_welcome())).ok());
  Result<Message> message = pair.b.recv();
  ASSERT_TRUE(message.ok()) << message.status().message();
  ASSERT_EQ(message->type(), wire::ControlBody::Welcome);
  Welcome got = read_welcome(*message->control().body_as_Welcome());
  EXPECT_EQ(got.client, 7u);
  EXPECT_EQ(got.pipeline, "speak");
  ASSERT_EQ(got.stages.size(), limits::kStagesMax);
  EXPECT_EQ(got.stages[2].name, "stage-2");
  EXPECT_EQ(got.stages[2].final_output, 2u);
  EXPECT_EQ(got.stages[2].input_sources, std::vector<uint32_t>{1});
  EXPECT_TRUE(got.stages[0].entry);
  EXPECT_FALSE(got.stages[1].entry);
  EXPECT_EQ(got.stages[1].state, wire::StageState::Ready);
}

TEST(Control, ConnectCarriesItsDescriptor) {
  Pair pair;
  int pipe_fds[2];
  ASSERT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
  UniqueFd read_end(pipe_fds[0]);
  Connect connect;
  connect.peer_index = 2;
  connect.peer_epoch = 4;
  connect.peer_name = "code2wav";
  connect.downstream = true;
  ASSERT_TRUE(pair.a.send(make_connect(connect), UniqueFd(pipe_fds[1])).ok());
  EXPECT_EQ(::fcntl(pipe_fds[1], F_GETFD), -1) << "the sender's copy must be closed";
  Result<Message> message = pair.b.recv();
  ASSERT_TRUE(message.ok()) << message.status().message();
  Connect got = read_connect(*message->control().body_as_Connect());
  EXPECT_EQ(got.peer_name, "code2wav");
  EXPECT_TRUE(got.downstream);
  EXPECT_FALSE(got.upstream);
  ASSERT_EQ(message->fds().size(), 1u);
  EXPECT_TRUE(::fcntl(message->fds()[0].get(), F_GETFD) & FD_CLOEXEC);
  ASSERT_EQ(::write(message->fds()[0].get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(read_end.get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST(Control, ConnectWithoutDescriptorAndHelloWithOneAreRefused) {
  Pair pair;
  ASSERT_TRUE(pair.a.send(make_connect({})).ok());
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kProtocol);
  ASSERT_TRUE(pair.a.send(make_hello({}), UniqueFd(::dup(0))).ok());
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kProtocol);
}

TEST(Control, EmptySocketIsAgainAndEofIsClosed) {
  Pair pair;
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kAgain);
  ASSERT_TRUE(pair.a.send(make_shutdown(true)).ok());
  pair.a.reset();
  Result<Message> last = pair.b.recv();
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->control().body_as_Shutdown()->drain());
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kClosed);
  EXPECT_EQ(pair.b.send(make_stage_ready()).code(), StatusCode::kClosed);
}

// The peer refuses and closes although our hello still lies unread in its socket.
TEST(Control, LastWordsAreReadThoughOurMessageWasNot) {
  Pair pair;
  ASSERT_TRUE(pair.a.send(make_hello({})).ok());
  ASSERT_TRUE(pair.b.send(make_refused(Status(StatusCode::kFull, "no room"))).ok());
  pair.b.reset();
  Result<Message> message = pair.a.recv();
  ASSERT_TRUE(message.ok()) << message.status().message();
  EXPECT_EQ(message->type(), wire::ControlBody::Refused);
  EXPECT_EQ(pair.a.recv().status().code(), StatusCode::kClosed);
}

TEST(Control, UnreadMessagesAreQueuedInOrderUpToTheBound) {
  Pair pair;
  uint64_t sent = 0;
  Status status;
  while ((status = pair.a.send(make_heartbeat(sent, true))).ok()) {
    ++sent;
    ASSERT_LT(sent, 1000000u);
  }
  EXPECT_EQ(status.code(), StatusCode::kFull);
  EXPECT_TRUE(pair.a.wants_write());
  for (uint64_t i = 0; i < sent; ++i) {
    Result<Message> message = pair.b.recv();
    if (message.status().code() == StatusCode::kAgain) {
      ASSERT_TRUE(pair.a.flush().ok());
      message = pair.b.recv();
    }
    ASSERT_TRUE(message.ok()) << message.status().message();
    ASSERT_EQ(message->control().body_as_Heartbeat()->steps(), i);
  }
  EXPECT_FALSE(pair.a.wants_write());
}

TEST(Control, TooLargePacketIsAProtocolError) {
  Pair pair;
  std::vector<char> big(limits::kControlMessageBytesMax + 1, 'x');
  ASSERT_EQ(::send(pair.a.fd(), big.data(), big.size(), 0), static_cast<ssize_t>(big.size()));
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kProtocol);
  EXPECT_EQ(pair.a.send(Bytes(big.begin(), big.end())).code(), StatusCode::kInvalid);
}

TEST(Control, TooManyDescriptorsAreRefusedAndClosed) {
  Pair pair;
  Bytes bytes = make_shutdown(false);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof(space);
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(8 * sizeof(int));
  int fds[8] = {2, 2, 2, 2, 2, 2, 2, 2};
  std::memcpy(CMSG_DATA(c), fds, sizeof(fds));
  const int next_before = ::dup(2);
  ::close(next_before);
  ASSERT_GT(::sendmsg(pair.a.fd(), &header, 0), 0);
  EXPECT_EQ(pair.b.recv().status().code(), StatusCode::kProtocol);
  const int next_after = ::dup(2);
  ::close(next_after);
  EXPECT_EQ(next_before, next_after) << "descriptors of a refused message leaked";
}

TEST(Control, DamagedBytesNeverPassUnseenBorders) {
  const Bytes good = make_welcome(sample_welcome());
  for (size_t length = 0; length < good.size(); length += 7) {
    (void)parse(Bytes(good.begin(), good.begin() + static_cast<long>(length)), {});
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    Bytes bad = good;
    for (int flips = 0; flips < 3; ++flips) bad[random() % 400] ^= 1 << (random() % 8);
    Result<Message> message = parse(std::move(bad), {});
    if (message.ok() && message->type() == wire::ControlBody::Welcome) {
      read_welcome(*message->control().body_as_Welcome());
    }
  }
}

TEST(Control, ProtocolVersions) {
  Hello hello;
  EXPECT_TRUE(check_protocol(hello).ok());
  hello.protocol_minor = kProtocolMinor + 1;
  EXPECT_TRUE(check_protocol(hello).ok());
  hello.protocol_minor = kProtocolMinor + 2;
  EXPECT_EQ(check_protocol(hello).code(), StatusCode::kProtocol);
  hello = Hello();
  hello.protocol_major = kProtocolMajor + 1;
  EXPECT_NE(check_protocol(hello).message().find("update this side"), std::string::npos);
}

TEST(Control, FailureIsNeverOk) {
  EXPECT_EQ(read_failure(0, nullptr).code(), StatusCode::kInternal);
  EXPECT_EQ(read_failure(-999, nullptr).code(), StatusCode::kInternal);
  EXPECT_EQ(read_failure(-5, nullptr).code(), StatusCode::kFull);
}

}  // namespace
}  // namespace omnistage::control
