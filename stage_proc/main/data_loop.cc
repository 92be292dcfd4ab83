#include "stage_proc/main/data_loop.h"

#include <algorithm>

#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "stage_proc/supervisor/pipeline_graph.h"

namespace omnistage {

DataLoop::DataLoop(const config::DeployConfig& config, const config::StageConfig& stage,
                   std::shared_ptr<shm::TensorPool> pool, Events events)
    : config_(config),
      stage_(stage),
      own_outputs_(final_output_bits(stage)),
      reachable_(reachable_outputs(config, stage.stage_id)),
      consumers_(config.consumers_of(stage.stage_id)),
      pool_(std::move(pool)),
      events_(std::move(events)),
      wait_set_(shm::WaitSet::create()),
      sink_(stage.name, pool_) {}

void DataLoop::add_edge(std::unique_ptr<Edge> edge) {
  {
    std::lock_guard lock(mutex_);
    new_edges_.push_back(std::move(edge));
  }
  wake();
}

void DataLoop::drain() {
  draining_.store(true);
  wake();
}

void DataLoop::run() {
  for (;;) {
    bool worked = take_new_edges();
    worked = read_edges() || worked;
    worked = remove_dead_edges() || worked;
    worked = expire_parked(monotonic_ns()) || worked;
    if (sink_.flush()) look_again_ = true;
    worked = work() || worked;
    for (auto& edge : edges_) {
      edge->flush_control();
      edge->link->flush_returns();
    }
    if (draining_.load() && sink_.size() == 0 && parked_.empty()) events_.drained();
    if (worked) continue;
    set_busy(false);
    (void)wait_set_->wait(std::min(core_->next_deadline_ns(), next_parked_ns()));
  }
}

void DataLoop::set_busy(bool busy) {
  if (busy_.exchange(busy, std::memory_order_relaxed) == busy) return;
  if (busy) events_.became_busy();
}

bool DataLoop::take_new_edges() {
  std::vector<std::unique_ptr<Edge>> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(new_edges_);
  }
  for (auto& edge : fresh) {
    if (edge->kind == EdgeKind::kClient) highest_client_ = std::max(highest_client_, edge->index);
    edge->link->attach_pool(pool_);
    wait_set_->add(edge->link.get());
    edges_.push_back(std::move(edge));
  }
  if (!fresh.empty()) retry_parked();
  return !fresh.empty();
}

bool DataLoop::read_edges() {
  bool any = false;
  shm::Record record;
  for (auto& edge : edges_) {
    for (int i = 0; i < kRecordsPerTurn && !edge->broken && edge->link->poll(record); ++i) {
      any = true;
      Status status = on_record(*edge, record);
      if (status.ok()) continue;
      OMS_LOG(kWarn, "stage", "cutting off " + edge->name + ": " + status.message());
      edge->broken = true;
    }
  }
  return any;
}

bool DataLoop::remove_dead_edges() {
  bool any = false;
  for (size_t i = 0; i < edges_.size();) {
    // A dead peer's last records are still read: the link is only empty after a poll that found
    // nothing.
    Edge& edge = *edges_[i];
    shm::Record record;
    const bool gone = edge.broken || (edge.link->peer_dead() && !edge.link->poll(record));
    if (!gone) {
      if (edge.link->peer_dead()) {
        Status status = on_record(edge, record);
        if (!status.ok()) edge.broken = true;
        any = true;
      }
      ++i;
      continue;
    }
    any = true;
    wait_set_->remove(edge.link.get());
    const std::unique_ptr<Edge> removed = std::move(edges_[i]);
    edges_.erase(edges_.begin() + static_cast<std::ptrdiff_t>(i));
    on_edge_removed(*removed);
    events_.edge_removed(removed->link);
  }
  return any;
}

void DataLoop::on_edge_removed(Edge& edge) {
  OMS_LOG(kInfo, "stage", "link to " + edge.name + " is gone");
  drop_parked([&edge](const Parked& parked) {
    return parked.from == &edge ||
           (edge.kind == EdgeKind::kClient && parked.key.client == edge.index);
  });
  const Status died(StatusCode::kStageDied, "stage '" + edge.name + "' died");
  for (const RequestKey& key : sink_.keys()) {
    Route* route = sink_.find(key);
    if (route == nullptr) continue;
    if (route->client == &edge) {
      abort_request(key, &edge);
      continue;
    }
    bool lost = route->source == &edge && !route->input_finished;
    for (const Route::Downstream& to : route->downstream) {
      lost = lost || (to.edge == &edge && !to.finished);
    }
    if (lost) fail_request(key, died);
  }
  sink_.forget_edge(edge);
  look_again_ = true;
}

bool DataLoop::work() {
  const int64_t now = monotonic_ns();
  if (!core_->has_work() && !look_again_ && core_->next_deadline_ns() > now) return false;
  look_again_ = false;
  set_busy(true);
  core_->step(now, sink_);
  settle();
  steps_.store(core_->stats().steps, std::memory_order_relaxed);
  return true;
}

void DataLoop::settle() {
  for (auto& [key, status] : sink_.take_failures()) fail_request(key, status);
  sink_.return_credit(*core_);
}

void DataLoop::fail_request(const RequestKey& key, const Status& status) {
  core_->abort(key);
  sink_.report_error(key, status);
  look_again_ = true;
}

void DataLoop::abort_request(const RequestKey& key, Edge* from) {
  core_->abort(key);
  sink_.abort(key, from);
  look_again_ = true;
}

}  // namespace omnistage
