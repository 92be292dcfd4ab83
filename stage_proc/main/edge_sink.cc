#include "stage_proc/main/edge_sink.h"

#include <algorithm>

#include "shm/base/log.h"

namespace omnistage {

using engine::OutputKind;
using engine::StageChunk;
using engine::StageEnd;
using engine::StageOutput;
using shm::SendResult;

namespace {

uint32_t bit_of(OutputKind kind) {
  return 1u << static_cast<uint32_t>(kind);
}
static_assert(engine::kModalityText == 1u << static_cast<uint32_t>(OutputKind::kText));
static_assert(engine::kModalityAudio == 1u << static_cast<uint32_t>(OutputKind::kAudio));
static_assert(engine::kModalityTensor == 1u << static_cast<uint32_t>(OutputKind::kTensor));

}  // namespace

Route* EdgeSink::find(const RequestKey& key) {
  auto found = routes_.find(key);
  return found == routes_.end() ? nullptr : &found->second;
}

Route& EdgeSink::add(const RequestKey& key, Route route) {
  route.output_credit.fill(route.header.output_credit);
  if (route.client != nullptr) ++route.client->requests;
  return routes_[key] = std::move(route);
}

void EdgeSink::erase(const RequestKey& key) {
  auto found = routes_.find(key);
  if (found == routes_.end()) return;
  if (found->second.client != nullptr) --found->second.client->requests;
  waiting_.erase(key);
  owing_.erase(key);
  routes_.erase(found);
}

std::vector<RequestKey> EdgeSink::keys() const {
  std::vector<RequestKey> keys;
  for (const auto& [key, route] : routes_) keys.push_back(key);
  return keys;
}

bool EdgeSink::ready(const RequestKey& key) {
  const Route* route = find(key);
  if (route == nullptr) return true;  // aborted a moment ago: what it makes is dropped
  if (!route->pending.empty()) return false;
  for (uint32_t kind = 0; kind < route->output_credit.size(); ++kind) {
    if ((route->own_outputs >> kind & 1) != 0 && route->output_credit[kind] == 0) return false;
  }
  return std::all_of(route->downstream.begin(), route->downstream.end(),
                     [](const Route::Downstream& d) { return d.edge == nullptr || d.credit > 0; });
}

void EdgeSink::chunk(StageChunk&& chunk) {
  Route* route = find(chunk.key);
  if (route == nullptr || route->ended || route->downstream.empty()) return;
  route->next_chunk = chunk.number + 1;
  const RequestKey key = chunk.key;
  append(key, *route, {std::move(chunk)});
}

void EdgeSink::output(StageOutput&& output) {
  Route* route = find(output.key);
  if (route == nullptr || route->ended || (route->own_outputs & bit_of(output.kind)) == 0) return;
  const RequestKey key = output.key;
  append(key, *route, {std::move(output)});
}

void EdgeSink::end(StageEnd&& end) {
  Route* route = find(end.key);
  if (route == nullptr || route->ended) return;
  const RequestKey key = end.key;
  if (!end.status.ok()) return report_error(key, end.status);
  route->ended = true;
  if (route->own_outputs != 0) return append(key, *route, {std::move(end)});
  if (route->pending.empty()) erase(key);
}

void EdgeSink::append(const RequestKey& key, Route& route, Route::Pending pending) {
  route.pending.push_back(std::move(pending));
  flush_route(key, route);  // may erase the route
}

// True when the route has nothing left to send. The route is gone afterwards if its request had
// ended.
bool EdgeSink::flush_route(const RequestKey& key, Route& route) {
  while (!route.pending.empty()) {
    if (!send(route, route.pending.front())) {
      waiting_.insert(key);
      return false;
    }
    route.pending.pop_front();
  }
  waiting_.erase(key);
  if (route.ended) erase(key);
  return true;
}

bool EdgeSink::flush() {
  bool progress = false;
  const std::vector<RequestKey> keys(waiting_.begin(), waiting_.end());
  for (const RequestKey& key : keys) {
    if (Route* route = find(key)) progress = flush_route(key, *route) || progress;
  }
  return progress;
}

bool EdgeSink::send(Route& route, Route::Pending& pending) {
  if (const auto* chunk = std::get_if<StageChunk>(&pending.what)) {
    return send_chunk(route, pending, *chunk);
  }
  if (const auto* output = std::get_if<StageOutput>(&pending.what)) {
    return send_output(route, *output);
  }
  return send_end(route, std::get<StageEnd>(pending.what));
}

bool EdgeSink::send_chunk(Route& route, Route::Pending& pending, const StageChunk& chunk) {
  for (; pending.next_downstream < route.downstream.size(); ++pending.next_downstream) {
    Route::Downstream& to = route.downstream[pending.next_downstream];
    if (to.edge == nullptr || !to.edge->usable() || to.finished) continue;
    if (to.credit == 0 && !route.errored) return false;
    // An error may overtake chunk 0; then it is the first thing the next stage hears of the
    // request.
    StageChunk first;
    const bool error_is_first = route.errored && !to.started;
    if (error_is_first) {
      first = chunk;
      first.number = 0;
    }
    Result<transfer::Bytes> record =
        encoder_.chunk(error_is_first ? first : chunk, &route.header, to.edge->lease_tensor(pool_));
    if (!record.ok()) {
      for (const shm::TensorRef& ref : encoder_.leases()) to.edge->link->unlease(ref);
      fail(chunk.key, record.status());
      continue;
    }
    if (!send_data(*to.edge, transfer::kRecordChunk, *record)) return false;
    to.credit -= std::min(to.credit, 1u);
    to.started = true;
    to.finished = chunk.finished;
  }
  return true;
}

bool EdgeSink::send_output(Route& route, const StageOutput& output) {
  if (route.client == nullptr || !route.client->usable()) return true;
  uint32_t& credit = route.output_credit[static_cast<size_t>(output.kind)];
  if (credit == 0) return false;
  Result<transfer::Bytes> record = encoder_.output(output, route.client->lease_tensor(pool_));
  if (!record.ok()) {
    for (const shm::TensorRef& ref : encoder_.leases()) route.client->link->unlease(ref);
    fail(output.key, record.status());
    return true;
  }
  if (!send_data(*route.client, transfer::kRecordOutput, *record)) return false;
  --credit;
  return true;
}

bool EdgeSink::send_end(Route& route, const StageEnd& end) {
  if (route.client == nullptr || !route.client->usable()) return true;
  return send_data(*route.client, transfer::kRecordStageEnd, encoder_.stage_end(end));
}

// False when the ring is full. Leases of a record that did not go out are taken back.
bool EdgeSink::send_data(Edge& edge, shm::RecordKind kind, transfer::Bytes record) {
  const SendResult result = edge.link->try_send(kind, record);
  if (result == SendResult::kOk) return true;
  if (kind != transfer::kRecordStageEnd) {
    for (const shm::TensorRef& ref : encoder_.leases()) edge.link->unlease(ref);
  }
  if (result == SendResult::kFull) return false;
  if (result == SendResult::kTooLarge) {
    OMS_LOG(kError, "stage",
            "a record of " + std::to_string(record.size()) + " bytes to " + edge.name +
                " can never fit its ring");
    edge.broken = true;
  }
  return true;  // the peer is gone: its requests end when the edge is removed
}

void EdgeSink::fail(const RequestKey& key, Status status) {
  failures_.emplace_back(key, std::move(status));
}

void EdgeSink::report_error(const RequestKey& key, const Status& status) {
  report_error(key, status, stage_name_);
}

void EdgeSink::report_error(const RequestKey& key, const Status& status, const std::string& stage) {
  Route* route = find(key);
  if (route == nullptr) return;
  tell_neighbours(key, *route, nullptr);
  route->pending.clear();
  route->ended = true;
  route->errored = true;
  if (route->client != nullptr) {
    StageEnd end;
    end.key = key;
    end.reason = engine::FinishReason::kError;
    end.status = Status(status.code(), "stage '" + stage + "': " + status.message());
    route->downstream.clear();
    return append(key, *route, {std::move(end)});
  }
  if (route->downstream.empty()) {
    OMS_LOG(kWarn, "stage",
            "request " + to_string(key) + " failed and nobody can be told: " + status.message());
    return erase(key);
  }
  append(key, *route, {error_chunk(*route, status, stage)});
}

StageChunk EdgeSink::error_chunk(const Route& route, const Status& status,
                                 const std::string& stage) const {
  StageChunk chunk;
  chunk.key = route.header.request.key;
  chunk.number = route.next_chunk;
  chunk.finished = true;
  chunk.payload[kErrorStatusEntry] = static_cast<int64_t>(status.code());
  chunk.payload[kErrorMessageEntry] = status.message();
  chunk.payload[kErrorStageEntry] = stage;
  return chunk;
}

// Upstream needs no more chunks made; downstream has to drop what it has, unless the error itself
// goes that way.
void EdgeSink::tell_neighbours(const RequestKey& key, Route& route, const Edge* from) {
  if (route.source != nullptr && route.source != from && !route.input_finished) {
    route.source->send_control(transfer::kRecordAbort, encoder_.abort(key));
  }
  const bool error_goes_downstream = from == nullptr && route.client == nullptr;
  if (error_goes_downstream) return;
  for (Route::Downstream& to : route.downstream) {
    if (to.edge == nullptr || to.edge == from || !to.started) continue;
    to.edge->send_control(transfer::kRecordAbort, encoder_.abort(key));
  }
}

void EdgeSink::abort(const RequestKey& key, const Edge* from) {
  Route* route = find(key);
  if (route == nullptr) return;
  tell_neighbours(key, *route, from);
  erase(key);
}

void EdgeSink::add_output_credit(const transfer::CreditRecord& credit) {
  Route* route = find(credit.key);
  if (route == nullptr) return;
  uint32_t& have = route->output_credit[static_cast<size_t>(credit.kind)];
  have = std::min(have + credit.outputs, route->header.output_credit);
}

void EdgeSink::add_chunk_credit(const RequestKey& key, const Edge& from, uint32_t chunks) {
  Route* route = find(key);
  if (route == nullptr) return;
  for (Route::Downstream& to : route->downstream) {
    if (to.edge == &from) to.credit = std::min(to.credit + chunks, kChunkCredit);
  }
}

void EdgeSink::return_credit(const engine::StageCore& core) {
  for (auto at = owing_.begin(); at != owing_.end();) {
    Route* route = find(*at);
    if (route == nullptr || route->source == nullptr) {
      at = owing_.erase(at);
      continue;
    }
    const uint32_t open = route->chunks_received - route->chunks_credited;
    const uint32_t queued = std::min(core.queued_chunks(*at), open);
    if (queued < open) {
      route->source->send_control(transfer::kRecordCredit,
                                  encoder_.credit({*at, open - queued, OutputKind::kText}));
      route->chunks_credited += open - queued;
    }
    at = queued == 0 ? owing_.erase(at) : std::next(at);
  }
}

void EdgeSink::forget_edge(const Edge& edge) {
  for (auto& [key, route] : routes_) {
    if (route.source == &edge) route.source = nullptr;
    if (route.client == &edge) route.client = nullptr;
    for (Route::Downstream& to : route.downstream) {
      if (to.edge == &edge) to.edge = nullptr;
    }
  }
}

}  // namespace omnistage
