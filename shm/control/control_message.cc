#include "shm/control/control_message.h"

#include "shm/base/limits.h"

namespace omnistage::control {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// Control messages are flat; the bounds only have to hold a Welcome with kStagesMax stages.
constexpr uint32_t kDepthMax = 8;
constexpr uint32_t kTablesMax = 64;

std::string cut(const std::string& text) {
  return text.substr(0, kTextBytesMax);
}

std::string text_of(const flatbuffers::String* text) {
  if (text == nullptr) return {};
  return std::string(text->data(), std::min<size_t>(text->size(), kTextBytesMax));
}

template <typename Table>
Bytes finish(FlatBufferBuilder& builder, wire::ControlBody type, Offset<Table> body) {
  builder.Finish(wire::CreateControl(builder, type, body.Union()));
  return Bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

Offset<wire::StageDescription> add_stage(FlatBufferBuilder& builder, const Stage& stage) {
  auto name = builder.CreateString(stage.name);
  auto sources = builder.CreateVector(stage.input_sources);
  auto message = builder.CreateString(cut(stage.message));
  return wire::CreateStageDescription(builder, stage.index, name, stage.state, stage.pid,
                                      stage.epoch, stage.restarts, stage.entry, stage.final_output,
                                      sources, message);
}

}  // namespace

Bytes make_hello(const Hello& hello) {
  FlatBufferBuilder builder(256);
  return finish(builder, wire::ControlBody::Hello,
                wire::CreateHello(builder, hello.role, hello.protocol_major, hello.protocol_minor,
                                  hello.pid, hello.stage, hello.epoch));
}

Bytes make_welcome(const Welcome& welcome) {
  FlatBufferBuilder builder(4096);
  auto pipeline = builder.CreateString(cut(welcome.pipeline));
  auto path = builder.CreateString(cut(welcome.config_path));
  std::vector<Offset<wire::StageDescription>> stages;
  for (const Stage& stage : welcome.stages) {
    // All stages share one message, so that their texts together have to stay below its limit.
    Stage brief = stage;
    brief.message = brief.message.substr(0, kTextBytesMax / limits::kStagesMax);
    stages.push_back(add_stage(builder, brief));
  }
  auto list = builder.CreateVector(stages);
  return finish(builder, wire::ControlBody::Welcome,
                wire::CreateWelcome(builder, welcome.client, pipeline, path, list));
}

Bytes make_connect(const Connect& connect) {
  FlatBufferBuilder builder(256);
  auto name = builder.CreateString(connect.peer_name);
  return finish(
      builder, wire::ControlBody::Connect,
      wire::CreateConnect(builder, connect.peer_role, connect.peer_index, connect.peer_epoch, name,
                          connect.upstream, connect.downstream));
}

Bytes make_stage_ready() {
  FlatBufferBuilder builder(64);
  return finish(builder, wire::ControlBody::StageReady, wire::CreateStageReady(builder));
}

Bytes make_stage_failed(const Status& status) {
  FlatBufferBuilder builder(512);
  auto message = builder.CreateString(cut(status.message()));
  return finish(builder, wire::ControlBody::StageFailed,
                wire::CreateStageFailed(builder, static_cast<int32_t>(status.code()), message));
}

Bytes make_heartbeat(uint64_t steps, bool busy) {
  FlatBufferBuilder builder(64);
  return finish(builder, wire::ControlBody::Heartbeat, wire::CreateHeartbeat(builder, steps, busy));
}

Bytes make_stage_changed(const Stage& stage) {
  FlatBufferBuilder builder(512);
  auto description = add_stage(builder, stage);
  return finish(builder, wire::ControlBody::StageChanged,
                wire::CreateStageChanged(builder, description));
}

Bytes make_shutdown(bool drain) {
  FlatBufferBuilder builder(64);
  return finish(builder, wire::ControlBody::Shutdown, wire::CreateShutdown(builder, drain));
}

Bytes make_refused(const Status& status) {
  FlatBufferBuilder builder(512);
  auto message = builder.CreateString(cut(status.message()));
  return finish(builder, wire::ControlBody::Refused,
                wire::CreateRefused(builder, static_cast<int32_t>(status.code()), message));
}

Hello read_hello(const wire::Hello& table) {
  Hello hello;
  hello.role = table.role();
  hello.protocol_major = table.protocol_major();
  hello.protocol_minor = table.protocol_minor();
  hello.pid = table.pid();
  hello.stage = table.stage();
  hello.epoch = table.epoch();
  return hello;
}

Stage read_stage(const wire::StageDescription& table) {
  Stage stage;
  stage.index = table.index();
  stage.name = text_of(table.name());
  stage.state = table.state();
  stage.pid = table.pid();
  stage.epoch = table.epoch();
  stage.restarts = table.restarts();
  stage.entry = table.entry();
  stage.final_output = table.final_output();
  if (table.input_sources() != nullptr) {
    for (uint32_t source : *table.input_sources()) {
      if (stage.input_sources.size() == limits::kStagesMax) break;
      stage.input_sources.push_back(source);
    }
  }
  stage.message = text_of(table.message());
  return stage;
}

Welcome read_welcome(const wire::Welcome& table) {
  Welcome welcome;
  welcome.client = table.client();
  welcome.pipeline = text_of(table.pipeline());
  welcome.config_path = text_of(table.config_path());
  if (table.stages() != nullptr) {
    for (const wire::StageDescription* stage : *table.stages()) {
      if (welcome.stages.size() == limits::kStagesMax) break;
      welcome.stages.push_back(read_stage(*stage));
    }
  }
  return welcome;
}

Connect read_connect(const wire::Connect& table) {
  Connect connect;
  connect.peer_role = table.peer_role();
  connect.peer_index = table.peer_index();
  connect.peer_epoch = table.peer_epoch();
  connect.peer_name = text_of(table.peer_name()).substr(0, limits::kNameBytesMax);
  connect.upstream = table.upstream();
  connect.downstream = table.downstream();
  return connect;
}

Status read_failure(int32_t status, const flatbuffers::String* message) {
  const bool known = status < 0 && status >= static_cast<int32_t>(StatusCode::kInternal);
  return Status(known ? static_cast<StatusCode>(status) : StatusCode::kInternal, text_of(message));
}

Status check_protocol(const Hello& hello) {
  const bool major_fits = hello.protocol_major == kProtocolMajor;
  const bool minor_fits = hello.protocol_minor <= kProtocolMinor + 1 &&
                          hello.protocol_minor + uint64_t{1} >= kProtocolMinor;
  if (major_fits && minor_fits) return {};
  const bool peer_newer = hello.protocol_major > kProtocolMajor ||
                          (major_fits && hello.protocol_minor > kProtocolMinor);
  return Status(StatusCode::kProtocol,
                "the peer speaks control protocol " + std::to_string(hello.protocol_major) + "." +
                    std::to_string(hello.protocol_minor) + ", this side " +
                    std::to_string(kProtocolMajor) + "." + std::to_string(kProtocolMinor) +
                    (peer_newer ? "; update this side" : "; update the peer"));
}

std::string client_name(uint32_t client) {
  return "client-" + std::to_string(client);
}

const char* to_string(wire::StageState state) {
  switch (state) {
    case wire::StageState::Starting:
      return "starting";
    case wire::StageState::Ready:
      return "ready";
    case wire::StageState::Dead:
      return "dead";
    case wire::StageState::Failed:
      return "failed";
    case wire::StageState::Stopped:
      return "stopped";
  }
  return "unknown";
}

Result<Message> parse(Bytes bytes, std::vector<UniqueFd> fds) {
  Message message;
  message.bytes_ = std::move(bytes);
  flatbuffers::Verifier verifier(message.bytes_.data(), message.bytes_.size(), kDepthMax,
                                 kTablesMax);
  if (!verifier.VerifyBuffer<wire::Control>(nullptr)) {
    return Status(StatusCode::kProtocol, "a control message of " +
                                             std::to_string(message.bytes_.size()) +
                                             " bytes is not well formed");
  }
  message.control_ = flatbuffers::GetRoot<wire::Control>(message.bytes_.data());
  const wire::ControlBody type = message.type();
  const bool known = type > wire::ControlBody::NONE && type <= wire::ControlBody::MAX;
  if (!known || message.control_->body() == nullptr) {
    return Status(StatusCode::kProtocol, "a control message has no known body (type " +
                                             std::to_string(static_cast<int>(type)) + ")");
  }
  const size_t wanted = type == wire::ControlBody::Connect ? 1 : 0;
  if (fds.size() != wanted) {
    return Status(StatusCode::kProtocol, std::string("a ") + wire::EnumNameControlBody(type) +
                                             " message came with " + std::to_string(fds.size()) +
                                             " file descriptors instead of " +
                                             std::to_string(wanted));
  }
  const auto* changed = message.control_->body_as_StageChanged();
  if (changed != nullptr && changed->stage() == nullptr) {
    return Status(StatusCode::kProtocol, "a StageChanged message names no stage");
  }
  message.fds_ = std::move(fds);
  return message;
}

}  // namespace omnistage::control
