// Control messages: what processes and their supervisor say to each other (schema:
// wire/control.fbs). Builders give the bytes of one message; parse() checks bytes from a peer
// before anything reads them.
//
//   socket.send(control::make_hello({.role = wire::Role::Client, .pid = getpid()}));
//   Result<control::Message> message = socket.recv();
//   if (message.ok() && message->type() == wire::ControlBody::Welcome)
//     read_welcome(*message->control().body_as_Welcome());
//
// Conversation of a client: it sends Hello; the supervisor answers Welcome (or Refused, then EOF),
// then one Connect with the client's end of a link for every stage it talks to, again after each
// restart of that stage (higher epoch, replaces the old link), and StageChanged at every change of
// state of any stage. Connect for an incarnation comes before its StageChanged(Ready). A client's
// LinkIdentity on its links is {kClient, Welcome.client, epoch 0, client_name(Welcome.client)}; the
// stage's is {kStage, peer_index, peer_epoch, peer_name} of the Connect.
//
// Plain values and pure functions: any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "omnistage/wire/control_generated.h"
#include "shm/base/fd.h"
#include "shm/base/status.h"

namespace omnistage::control {

constexpr uint32_t kProtocolMajor = 1;
constexpr uint32_t kProtocolMinor = 0;
constexpr size_t kFdsPerMessageMax = 4;
constexpr size_t kTextBytesMax =
    4096;  // a message or path inside a control message; longer ones are cut

using Bytes = std::vector<uint8_t>;

struct Hello {
  wire::Role role = wire::Role::Client;
  uint32_t protocol_major = kProtocolMajor;
  uint32_t protocol_minor = kProtocolMinor;
  pid_t pid = 0;
  uint32_t stage = 0;  // stages only
  uint32_t epoch = 0;  // stages only
};

struct Stage {
  uint32_t index = 0;  // stage_id of the deploy file
  std::string name;
  wire::StageState state = wire::StageState::Starting;
  pid_t pid = 0;
  uint32_t epoch = 0;     // incarnation, from 1
  uint32_t restarts = 0;  // how often it was started again
  bool entry = false;
  uint32_t final_output = 0;  // bits of engine::Modality
  std::vector<uint32_t> input_sources;
  std::string message;  // why it died or failed
};

struct Welcome {
  uint32_t client = 0;
  std::string pipeline;
  std::string config_path;
  std::vector<Stage> stages;
};

struct Connect {
  wire::Role peer_role = wire::Role::Stage;
  uint32_t peer_index = 0;
  uint32_t peer_epoch = 0;
  std::string peer_name;
  bool upstream = false;    // to a stage: the peer feeds chunks to you
  bool downstream = false;  // to a stage: you feed chunks to the peer
};

Bytes make_hello(const Hello& hello);
Bytes make_welcome(const Welcome& welcome);
Bytes make_connect(const Connect& connect);  // send together with the fd of the link's end
Bytes make_stage_ready();
Bytes make_stage_failed(const Status& status);
Bytes make_heartbeat(uint64_t steps, bool busy);
Bytes make_stage_changed(const Stage& stage);
Bytes make_shutdown(bool drain);
Bytes make_refused(const Status& status);

// Copies out of a verified table; absent strings become empty.
Hello read_hello(const wire::Hello& table);
Stage read_stage(const wire::StageDescription& table);
Welcome read_welcome(const wire::Welcome& table);
Connect read_connect(const wire::Connect& table);
// The code and text of StageFailed or Refused; never an OK status.
Status read_failure(int32_t status, const flatbuffers::String* message);

// Major must be equal, minor may differ by one. The error says which side is older.
Status check_protocol(const Hello& hello);

std::string client_name(uint32_t client);
const char* to_string(wire::StageState state);

// A received message: verified bytes and the descriptors that came with it. Move only.
class Message {
 public:
  const wire::Control& control() const { return *control_; }
  wire::ControlBody type() const { return control_->body_type(); }
  std::vector<UniqueFd>& fds() { return fds_; }

 private:
  friend Result<Message> parse(Bytes bytes, std::vector<UniqueFd> fds);
  Bytes bytes_;
  const wire::Control* control_ = nullptr;
  std::vector<UniqueFd> fds_;
};

// Verifies `bytes` (structure, known body type, exactly one fd with Connect and none with others).
// Errors: kProtocol.
Result<Message> parse(Bytes bytes, std::vector<UniqueFd> fds);

}  // namespace omnistage::control
