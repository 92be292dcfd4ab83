#include "tests/integration/pipeline/raw_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "shm/base/clock.h"

namespace omnistage::test {

using control::Message;
using engine::OutputKind;
using wire::ControlBody;
using wire::StageState;

std::unique_ptr<RawClient> RawClient::launch(const std::string& deploy) {
  UniqueFd ours, theirs;
  EXPECT_TRUE(shm::make_socketpair(ours, theirs).ok());
  const std::string mark = new_mark();
  const pid_t pid = start_supervisor({"--deploy", deploy, "--client-fd", "3"}, mark, theirs.get());
  EXPECT_GT(pid, 0);
  return std::unique_ptr<RawClient>(new RawClient(std::move(ours), pid, mark));
}

std::unique_ptr<RawClient> RawClient::attach(const std::string& run_dir) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run_dir + "/omnistage.sock";
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  UniqueFd fd;
  const bool connected = wait_until([&] {
    fd.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return true;
    }
    ::usleep(5000);
    return false;
  });
  EXPECT_TRUE(connected) << path;
  return std::unique_ptr<RawClient>(new RawClient(std::move(fd), -1, ""));
}

RawClient::RawClient(UniqueFd socket, pid_t supervisor, std::string mark)
    : socket_(std::move(socket)), supervisor_(supervisor), mark_(std::move(mark)) {
  control::Hello hello;
  hello.pid = ::getpid();
  (void)socket_.send(control::make_hello(hello));
}

RawClient::~RawClient() {
  links_.clear();
  socket_.reset();
  if (supervisor_ > 0) wait_exit(supervisor_);
}

void RawClient::pump() {
  read_control();
  for (auto& [stage, link] : links_) read_link(stage, *link);
  std::vector<pollfd> fds;
  if (socket_.valid()) fds.push_back({socket_.fd(), POLLIN, 0});
  for (auto& [stage, link] : links_) {
    if (!link->peer_dead()) fds.push_back({link->socket_fd(), POLLIN, 0});
  }
  // Records come through shared memory; this client looks for them instead of sleeping on them.
  ::poll(fds.data(), fds.size(), 1);
}

void RawClient::read_control() {
  while (socket_.valid()) {
    Result<Message> message = socket_.recv();
    if (message.ok()) {
      on_message(*message);
      continue;
    }
    if (message.status().code() == StatusCode::kAgain) return;
    EXPECT_EQ(message.status().code(), StatusCode::kClosed) << message.status().message();
    closed_ = true;
    socket_.reset();
  }
}

void RawClient::on_message(Message& message) {
  const wire::Control& body = message.control();
  switch (message.type()) {
    case ControlBody::Welcome: {
      control::Welcome welcome = control::read_welcome(*body.body_as_Welcome());
      id_ = welcome.client;
      for (const control::Stage& stage : welcome.stages) stages_[stage.index] = stage;
      break;
    }
    case ControlBody::StageChanged: {
      control::Stage stage = control::read_stage(*body.body_as_StageChanged()->stage());
      history_.push_back(stage);
      stages_[stage.index] = stage;
      break;
    }
    case ControlBody::Connect: {
      const control::Connect connect = control::read_connect(*body.body_as_Connect());
      using Identity = shm::LinkIdentity;
      const Identity self{Identity::Role::kClient, id_, 0, control::client_name(id_)};
      const Identity peer{Identity::Role::kStage, connect.peer_index, connect.peer_epoch,
                          connect.peer_name};
      shm::LinkOptions options;
      options.data_ring_bytes = 256u << 10;
      auto link = shm::Link::create(std::move(message.fds()[0]), self, peer, options);
      ASSERT_TRUE(link.ok()) << link.status().message();
      links_[connect.peer_index] = std::move(*link);
      break;
    }
    case ControlBody::Refused:
      refused_ = control::read_failure(body.body_as_Refused()->status(),
                                       body.body_as_Refused()->message());
      break;
    default:
      ADD_FAILURE() << "unexpected " << wire::EnumNameControlBody(message.type());
  }
}

void RawClient::read_link(uint32_t stage, shm::Link& link) {
  if (!link.peer_dead()) {
    Status status = link.on_socket();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  shm::Record record;
  const transfer::OpenTensor open = [&link](const shm::TensorRef& ref) {
    return link.open_tensor(ref);
  };
  while (link.poll(record)) {
    const transfer::Bytes bytes(record.bytes);
    if (record.kind == transfer::kRecordOutput) {
      auto output = transfer::decode_output(bytes, open);
      ASSERT_TRUE(output.ok()) << output.status().message();
      on_output(stage, link, *output);
    } else {
      ASSERT_EQ(record.kind, transfer::kRecordStageEnd);
      auto end = transfer::decode_stage_end(bytes);
      ASSERT_TRUE(end.ok()) << end.status().message();
      Answer& answer = answers_.at(end->key.request).answer;
      if (!end->status.ok()) answer.errors.push_back(end->status);
      EXPECT_TRUE(answer.ends.emplace(stage, *end).second) << "a second end from " << stage;
    }
  }
  link.flush_returns();
}

void RawClient::on_output(uint32_t stage, shm::Link& link, const engine::StageOutput& output) {
  Request& request = answers_.at(output.key.request);
  Answer& answer = request.answer;
  if (answer.ends.contains(stage)) ++answer.late;
  if (output.kind == OutputKind::kText) {
    answer.positions_fit = answer.positions_fit && output.position == request.next_text;
    request.next_text += output.token_ids.size();
    answer.text += output.text;
    ++answer.text_pieces;
  } else {
    answer.positions_fit = answer.positions_fit && output.position == request.next_sample;
    request.next_sample += output.tensor.elements();
    const float* samples = output.tensor.as<float>();
    answer.audio.insert(answer.audio.end(), samples, samples + output.tensor.elements());
  }
  if (request.ask.returns_credit) {
    send_credit(link, output.key.request, output.kind, 1);
  } else {
    ++request.owed[output.kind];
  }
}

void RawClient::send_credit(shm::Link& link, uint64_t request, OutputKind kind, uint32_t count) {
  (void)link.try_send_control(transfer::kRecordCredit,
                              encoder_.credit({key(request), count, kind}));
}

void RawClient::return_credit(uint64_t id) {
  Request& request = answers_.at(id);
  request.ask.returns_credit = true;
  for (auto& [kind, count] : request.owed) {
    for (auto& [stage, link] : links_) {
      const bool from_here = stages_.at(stage).final_output >> static_cast<uint32_t>(kind) & 1;
      if (from_here && count > 0) send_credit(*link, id, kind, count);
    }
  }
  request.owed.clear();
}

bool RawClient::wait_ready() {
  bool failed = false;
  const bool ready = wait_until(
      [&] {
        size_t count = 0;
        for (auto& [index, stage] : stages_) {
          const bool needs_no_link = !stage.entry && stage.final_output == 0;
          count += stage.state == StageState::Ready && (needs_no_link || links_.contains(index));
          failed = failed || stage.state == StageState::Failed;
        }
        return failed || closed_ || (!stages_.empty() && count == stages_.size());
      },
      [&] { pump(); });
  for (auto& [index, stage] : stages_) {
    if (stage.state == StageState::Failed) ADD_FAILURE() << stage.name << ": " << stage.message;
  }
  return ready && !failed && !closed_;
}

bool RawClient::wait_state(uint32_t stage, StageState state, uint32_t epoch_at_least) {
  return wait_until(
      [&] {
        auto found = stages_.find(stage);
        return found != stages_.end() && found->second.state == state &&
               found->second.epoch >= epoch_at_least;
      },
      [&] { pump(); });
}

uint64_t RawClient::submit(const Ask& ask) {
  const uint64_t id = next_request_++;
  answers_[id].ask = ask;
  transfer::SubmitRecord record;
  record.header.request.key = key(id);
  record.header.request.modalities = ask.modalities;
  record.header.request.extra = ask.extra;
  record.header.request.deadline_ns = ask.deadline_ns;
  record.header.output_credit = ask.credit;
  record.input.text = ask.text;
  Result<transfer::Bytes> bytes = encoder_.submit(record);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  bool sent = false;
  wait_until(
      [&] {
        auto found = links_.find(0);
        sent = found != links_.end() &&
               found->second->try_send(transfer::kRecordSubmit, *bytes) == shm::SendResult::kOk;
        return sent || closed_;
      },
      [&] { pump(); });
  EXPECT_TRUE(sent) << "no way to the entry stage";
  return id;
}

void RawClient::abort(uint64_t request) {
  for (auto& [stage, link] : links_) {
    (void)link->try_send_control(transfer::kRecordAbort, encoder_.abort(key(request)));
  }
}

bool RawClient::done(uint64_t id) const {
  const Request& request = answers_.at(id);
  if (!request.answer.errors.empty()) return true;
  for (const auto& [index, stage] : stages_) {
    const bool wanted = (stage.final_output & request.ask.modalities) != 0;
    if (wanted && !request.answer.ends.contains(index)) return false;
  }
  return !request.answer.ends.empty();
}

bool RawClient::wait_done(uint64_t request) {
  return wait_until([&] { return done(request); }, [&] { pump(); });
}

Answer RawClient::ask(const Ask& ask) {
  const uint64_t id = submit(ask);
  EXPECT_TRUE(wait_done(id)) << "request " << id << " does not end";
  return answer(id);
}

shm::Link* RawClient::link(uint32_t stage) const {
  auto found = links_.find(stage);
  return found == links_.end() ? nullptr : found->second.get();
}

}  // namespace omnistage::test
