// Edge: one link of this stage with what the data thread keeps about it. Data thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "shm/link/link.h"
#include "stage_proc/transfer/wire_codec/wire_codec.h"

namespace omnistage {

enum class EdgeKind : uint8_t { kClient, kUpstream, kDownstream };

struct Edge {
  // Control records that may wait for room in a control ring; more means that the peer does not
  // read any.
  static constexpr size_t kBacklogMax = 16384;

  EdgeKind kind = EdgeKind::kClient;
  uint32_t index = 0;  // client id or stage_id
  std::string name;    // "client-3", "talker"
  std::shared_ptr<shm::Link> link;
  uint32_t wants = 0;     // downstream: outputs a client can get through it (modality bits)
  uint32_t requests = 0;  // client: its requests that this stage still has a route for
  bool broken = false;    // to be cut off: broke the protocol or does not read

  bool usable() const { return !broken && !link->peer_dead(); }

  // Sends on the control ring, or keeps the record until flush_control().
  void send_control(shm::RecordKind kind, transfer::Bytes record);
  void flush_control();

  // Encoding of tensors for, and decoding from, this link.
  transfer::LeaseTensor lease_tensor(const std::shared_ptr<shm::TensorPool>& pool);
  transfer::OpenTensor open_tensor();

 private:
  struct Waiting {
    shm::RecordKind kind;
    std::vector<std::byte> bytes;
  };
  std::deque<Waiting> backlog_;
};

}  // namespace omnistage
