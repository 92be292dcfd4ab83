// Any bytes as a control message.
#include <cstddef>
#include <cstdint>

#include "shm/control/control_message.h"

using namespace omnistage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Result<control::Message> message = control::parse(control::Bytes(data, data + size), {});
  if (!message.ok()) return 0;
  const wire::Control& body = message->control();
  switch (message->type()) {
    case wire::ControlBody::Hello:
      (void)control::check_protocol(control::read_hello(*body.body_as_Hello()));
      break;
    case wire::ControlBody::Welcome:
      (void)control::read_welcome(*body.body_as_Welcome());
      break;
    case wire::ControlBody::Connect:
      (void)control::read_connect(*body.body_as_Connect());
      break;
    case wire::ControlBody::StageFailed: {
      const auto* failed = body.body_as_StageFailed();
      (void)control::read_failure(failed->status(), failed->message());
      break;
    }
    case wire::ControlBody::StageChanged:
      (void)control::read_stage(*body.body_as_StageChanged()->stage());
      break;
    case wire::ControlBody::Refused: {
      const auto* refused = body.body_as_Refused();
      (void)control::read_failure(refused->status(), refused->message());
      break;
    }
    default:
      break;
  }
  return 0;
}
