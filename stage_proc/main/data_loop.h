// DataLoop: the data thread of a stage. It reads the links, feeds the core, lets it work, and
// sleeps when there is nothing to do. Everything about requests happens here; the control thread
// only brings new links and the order to end.
//
// Threads: run() on the data thread; add_edge(), drain() and wake() on any thread; busy() and
// steps() on any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "shm/pool/tensor_pool.h"
#include "shm/wait/wait_set.h"
#include "stage_proc/config/deploy_config.h"
#include "stage_proc/engine/stage_core.h"
#include "stage_proc/main/edge_sink.h"

namespace omnistage {

class DataLoop {
 public:
  // Told on the data thread.
  struct Events {
    std::function<void(std::shared_ptr<shm::Link>)>
        edge_removed;  // close it on the control thread's side too
    std::function<void()> became_busy;
    std::function<void()> drained;  // after drain(): no request is left
  };

  DataLoop(const config::DeployConfig& config, const config::StageConfig& stage,
           std::shared_ptr<shm::TensorPool> pool, Events events);

  // Before run(), on any thread: nothing is read yet, but links may connect.
  void set_core(std::unique_ptr<engine::StageCore> core) { core_ = std::move(core); }
  void add_edge(std::unique_ptr<Edge> edge);
  void drain();
  void wake() { wait_set_->ring(); }
  [[noreturn]] void run();

  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }

 private:
  static constexpr int64_t kLinkGraceNs = 2'000'000'000;  // how long a record waits for a link
  static constexpr size_t kParkedMax = 8192;
  static constexpr int kRecordsPerTurn =
      64;  // of one link, so that no peer keeps the others waiting
  // Ended requests whose results a client does not take; a client above it is cut off.
  static constexpr uint32_t kRoutesPerClientMax = 2 * limits::kRequestsPerClientMax;

  bool take_new_edges();
  bool read_edges();
  bool remove_dead_edges();
  void on_edge_removed(Edge& edge);
  bool work();
  void settle();  // after the core has worked
  void set_busy(bool busy);

  // data_records.cc
  Status on_record(Edge& edge, const shm::Record& record);
  Status on_submit(Edge& edge, transfer::Bytes record);
  Status on_chunk(Edge& edge, transfer::Bytes record);
  Status on_abort(Edge& edge, transfer::Bytes record);
  Status on_credit(Edge& edge, transfer::Bytes record);
  Status admit(Edge& edge, transfer::SubmitRecord submit);
  Status check_admission(const Edge& edge, const transfer::WireHeader& header) const;
  Status take_chunk(Edge& edge, transfer::ChunkRecord record);
  void refuse_chunk(Edge& edge, const transfer::ChunkRecord& record, const Status& status);
  void refuse_submit(Edge& edge, const transfer::WireHeader& header, const Status& status);
  void on_error_chunk(const transfer::ChunkRecord& record);
  Result<Route> make_route(const transfer::WireHeader& header, Edge* source);
  Status find_downstream(const transfer::WireHeader& header, Route& route);
  engine::RequestHeader core_header(const transfer::WireHeader& header, const Route& route) const;
  Edge* find_client(uint32_t client);
  void fail_request(const RequestKey& key, const Status& status);
  void abort_request(const RequestKey& key, Edge* from);

  // data_parking.cc: first records of requests that came before a link they need. Links are brought
  // by the supervisor to each process by itself, so a neighbour may be ahead of us by as much as
  // our control thread lags.
  struct Parked {
    Edge* from = nullptr;
    RequestKey key;
    int64_t until_ns = 0;
    std::variant<transfer::SubmitRecord, transfer::ChunkRecord> what;
  };
  bool is_parked(const RequestKey& key) const;
  bool may_wait(const Status& missing, const RequestKey& key) const;
  void park(Parked parked);
  void retry_parked();
  bool expire_parked(int64_t now_ns);
  void drop_parked(const std::function<bool(const Parked&)>& which);
  void refuse_parked(Parked& parked);
  Result<Route> route_of(const Parked& parked);
  int64_t next_parked_ns() const;

  const config::DeployConfig& config_;
  const config::StageConfig& stage_;
  const uint32_t own_outputs_;
  const uint32_t reachable_;
  const std::vector<int> consumers_;
  std::shared_ptr<shm::TensorPool> pool_;
  Events events_;
  std::unique_ptr<shm::WaitSet> wait_set_;
  std::unique_ptr<engine::StageCore> core_;
  EdgeSink sink_;
  transfer::Encoder encoder_;
  std::vector<std::unique_ptr<Edge>> edges_;
  std::deque<Parked> parked_;    // in order of arrival
  uint32_t highest_client_ = 0;  // ids are given in ascending order: a higher one is still to come
  bool look_again_ = false;      // credit, room or an end: the core should ask ready() again

  std::mutex mutex_;  // guards new_edges_
  std::vector<std::unique_ptr<Edge>> new_edges_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> steps_{0};
};

}  // namespace omnistage
