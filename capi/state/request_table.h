// RequestTable: the state of every request this client has in flight, and the only place that makes
// a FINAL. It knows no process, ring or clock: the pipeline feeds it what happened and sends what
// it asks for, so that its tests can play every order of events.
//
// A request ends exactly once: when all wanted final-output stages said StageEnd, or at the first
// error, dead stage, passed deadline, cancel or close. What comes later for it is dropped and
// counted.
//
// Threads: none of its own; the pipeline's mutex guards it. Sinks are called with that mutex held.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "capi/state/output_event.h"
#include "capi/state/stage_graph.h"

namespace omnistage::capi {

struct RequestSpec {
  std::shared_ptr<EventSink> sink;
  uint32_t wanted = 0;   // modality bits, a subset of StageGraph::outputs(), not empty
  StageMask ends = 0;    // StageGraph::ends(wanted)
  StageMask needed = 0;  // StageGraph::needed(wanted)
  uint64_t user_data = 0;
  uint64_t seed = 0;
  uint32_t credit = limits::kDefaultCreditOutputs;
  int64_t submit_ns = 0;
  int64_t deadline_ns = 0;  // absolute, 0 = none
};

struct TableStats {
  uint64_t submitted = 0, finished = 0, cancelled = 0, failed = 0, outputs = 0, late_records = 0;
};

class RequestTable {
 public:
  // `abort` is called for each request that ends before its stages are done, with the stages that
  // still work.
  using AbortFn = std::function<void(uint64_t request, StageMask stages)>;
  RequestTable(uint32_t max_inflight, AbortFn abort);

  // A new request; its number. kFull: max_inflight reached.
  Result<uint64_t> add(RequestSpec spec);

  // --- what stages say. `label` is the stage's name for messages, `now_ns` the time of arrival.
  // ------------------- An output event with kind, position, text, token_ids, tensor, sample_rate
  // filled. Returns true when the sender's credit should go back at once because the output was not
  // delivered to a live request's sink.
  bool on_output(uint32_t stage, const std::string& label, uint64_t request, OutputEvent output,
                 int64_t now_ns);
  void on_stage_end(uint32_t stage, const std::string& label, uint64_t request, FinishReason reason,
                    const Status& status, const Usage& usage, int64_t now_ns);

  // --- what else happens
  // ----------------------------------------------------------------------------------------- Ends
  // every request that still needs the stage.
  void on_stage_death(uint32_t stage, const Status& why, int64_t now_ns);
  // The application took an output. True: the request lives and the stage wants its credit back.
  bool on_taken(uint64_t request, uint32_t stage, OutputKind kind);
  // kNotFound: unknown, over, or of another sink.
  Status cancel(uint64_t request, const EventSink* sink, int64_t now_ns);
  void cancel_sink(const EventSink* sink, int64_t now_ns);
  // Ends one request with an error.
  void fail(uint64_t request, int32_t stage, const Status& why, int64_t now_ns);
  void end_all(const Status& why, int64_t now_ns);
  void expire(int64_t now_ns);
  int64_t next_deadline_ns() const;  // kNever if none

  size_t inflight() const { return requests_.size(); }
  bool alive(uint64_t request) const { return requests_.count(request) != 0; }
  const TableStats& stats() const { return stats_; }

 private:
  struct Entry {
    RequestSpec spec;
    uint64_t sequence = 0;
    StageMask ended = 0;
    std::array<bool, kStreamKinds> seen{};
    // Outputs delivered and not yet taken, per stage and kind: never above the credit.
    std::array<std::array<uint16_t, kStreamKinds>, limits::kStagesMax> waiting{};
    FinishReason reason = FinishReason::kNone;
    int32_t reason_stage = -1;
    Usage usage;
  };
  using Map = std::unordered_map<uint64_t, Entry>;

  Map::iterator find_or_count_late(uint64_t request);
  void finish(Map::iterator entry, int32_t stage, const Status& status, int64_t now_ns);

  const uint32_t max_inflight_;
  AbortFn abort_;
  Map requests_;
  std::set<std::pair<int64_t, uint64_t>> deadlines_;
  uint64_t next_request_ = 1;
  TableStats stats_;
};

}  // namespace omnistage::capi
