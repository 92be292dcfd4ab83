// Route: what the shell of a stage knows of one request: where it came from, where its results go,
// what may be sent now and what waits. Data thread only; plain data, the rules are in EdgeSink.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "stage_proc/engine/request.h"
#include "stage_proc/main/edge.h"

namespace omnistage {

// Chunks a stage may have under way to the next one, per request: credit comes back as its core
// takes them.
constexpr uint32_t kChunkCredit = 32;

// Entries of the terminal chunk that takes an error of a stage without client link downstream.
constexpr const char* kErrorStatusEntry = "meta.error";           // Int: status code
constexpr const char* kErrorMessageEntry = "meta.error_message";  // Text
constexpr const char* kErrorStageEntry =
    "meta.error_stage";  // Text: name of the stage it happened in

struct Route {
  struct Downstream {
    Edge* edge = nullptr;  // null when that stage is gone
    uint32_t credit = kChunkCredit;
    bool started = false;   // a chunk was sent
    bool finished = false;  // the terminal chunk was sent
  };
  // A result that waits for credit or room; chunks go to the downstreams [next_downstream, ...).
  struct Pending {
    std::variant<engine::StageChunk, engine::StageOutput, engine::StageEnd> what;
    size_t next_downstream = 0;
  };

  transfer::WireHeader header;  // as the client sent it
  Edge* source = nullptr;       // the upstream stage that feeds it; null at an entry stage
  Edge* client = nullptr;       // null at a stage without client links, or when the client is gone
  std::vector<Downstream> downstream;
  uint32_t own_outputs = 0;                 // modality bits the client gets from this stage
  std::array<uint32_t, 3> output_credit{};  // per engine::OutputKind
  std::deque<Pending> pending;
  uint32_t next_chunk = 0;      // number of the next chunk downstream
  bool input_finished = false;  // the terminal chunk from the source is here
  bool ended = false;           // the core is done; the route lives on until `pending` is out
  bool errored = false;         // `pending` is the error alone, which needs no credit
  uint32_t chunks_received = 0;
  uint32_t chunks_credited = 0;  // credit given back to the source
};

}  // namespace omnistage
