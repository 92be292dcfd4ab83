// EdgeSink: takes what the core produces to the edges. It holds the routes of all requests of this
// stage and the flow control: outputs need the client's credit (per kind), chunks the next stage's,
// records room in the ring. What cannot go now waits in its route, in order; ready() is false
// meanwhile, so a route holds at most the results of one step. Errors overtake what waits.
//
// Data thread only. Edges outlive their use here: forget_edge() before one is destroyed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "stage_proc/engine/stage_core.h"
#include "stage_proc/main/route.h"

namespace omnistage {

class EdgeSink final : public engine::StageSink {
 public:
  using Failure = std::pair<RequestKey, Status>;

  EdgeSink(std::string stage_name, std::shared_ptr<shm::TensorPool> pool)
      : stage_name_(std::move(stage_name)), pool_(std::move(pool)) {}

  // --- called by the core, inside step() ---
  bool ready(const RequestKey& key) override;
  void chunk(engine::StageChunk&& chunk) override;
  void output(engine::StageOutput&& output) override;
  void end(engine::StageEnd&& end) override;

  // --- called by the shell ---
  Route* find(const RequestKey& key);
  Route& add(const RequestKey& key, Route route);
  size_t size() const { return routes_.size(); }
  std::vector<RequestKey> keys() const;

  // Ends a request with an error for the user: straight to the client, or downstream when this
  // stage has no link to it. The other parties are told to drop the request. The core must have
  // forgotten it (or be told to).
  void report_error(const RequestKey& key, const Status& status);
  // The same for an error that happened in another stage; `stage` is its name.
  void report_error(const RequestKey& key, const Status& status, const std::string& stage);
  // Drops the request without a word to the client; tells neighbours except `from`.
  void abort(const RequestKey& key, const Edge* from);

  void add_output_credit(const transfer::CreditRecord& credit);
  void add_chunk_credit(const RequestKey& key, const Edge& from, uint32_t chunks);
  // Returns to the sources the credit of chunks that `core` has taken up.
  void return_credit(const engine::StageCore& core);

  // Tries to send what waits. True when some route can go on now.
  bool flush();
  // Requests whose results could not be encoded; the shell aborts them in the core. Emptied by the
  // call.
  std::vector<Failure> take_failures() { return std::exchange(failures_, {}); }
  void forget_edge(const Edge& edge);

 private:
  bool flush_route(const RequestKey& key, Route& route);
  bool send(Route& route, Route::Pending& pending);
  bool send_chunk(Route& route, Route::Pending& pending, const engine::StageChunk& chunk);
  bool send_output(Route& route, const engine::StageOutput& output);
  bool send_end(Route& route, const engine::StageEnd& end);
  bool send_data(Edge& edge, shm::RecordKind kind, transfer::Bytes record);
  void append(const RequestKey& key, Route& route, Route::Pending pending);
  void fail(const RequestKey& key, Status status);
  void tell_neighbours(const RequestKey& key, Route& route, const Edge* from);
  void erase(const RequestKey& key);
  engine::StageChunk error_chunk(const Route& route, const Status& status,
                                 const std::string& stage) const;

  const std::string stage_name_;
  std::shared_ptr<shm::TensorPool> pool_;
  transfer::Encoder encoder_;
  std::unordered_map<RequestKey, Route, RequestKeyHash> routes_;
  std::unordered_set<RequestKey, RequestKeyHash> waiting_;  // routes with something pending
  std::unordered_set<RequestKey, RequestKeyHash> owing_;  // routes that owe credit to their source
  std::vector<Failure> failures_;

  friend class DataLoop;  // tells of received chunks
};

}  // namespace omnistage
