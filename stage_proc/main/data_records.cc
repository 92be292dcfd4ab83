// The data thread's answers to records of its peers.
#include "shm/base/clock.h"
#include "shm/base/log.h"
#include "stage_proc/main/data_loop.h"
#include "stage_proc/main/sampling_defaults.h"
#include "stage_proc/supervisor/pipeline_graph.h"

namespace omnistage {

using transfer::Bytes;

namespace {

Status protocol(const std::string& message) {
  return Status(StatusCode::kProtocol, message);
}

}  // namespace

// An error cuts the peer off.
Status DataLoop::on_record(Edge& edge, const shm::Record& record) {
  const Bytes bytes(record.bytes);
  switch (record.kind) {
    case transfer::kRecordSubmit:
      return on_submit(edge, bytes);
    case transfer::kRecordChunk:
      return on_chunk(edge, bytes);
    case transfer::kRecordAbort:
      return on_abort(edge, bytes);
    case transfer::kRecordCredit:
      return on_credit(edge, bytes);
    default:
      return protocol("unexpected record kind " + std::to_string(record.kind));
  }
}

Status DataLoop::on_submit(Edge& edge, Bytes record) {
  if (edge.kind != EdgeKind::kClient) return protocol("a stage sent a request");
  OMS_ASSIGN_OR_RETURN(const RequestKey key, transfer::record_key(transfer::kRecordSubmit, record));
  if (key.client != edge.index) return protocol("a request in the name of another client");
  if (sink_.find(key) != nullptr || is_parked(key)) {
    return protocol("request " + to_string(key) + " came twice");
  }
  if (edge.requests >= kRoutesPerClientMax)
    return protocol("it does not read the ends of its requests");
  Result<transfer::SubmitRecord> submit = transfer::decode_submit(record);
  if (submit.ok()) return admit(edge, std::move(*submit));
  if (submit.status().code() != StatusCode::kInvalid) return submit.status();
  // Well formed but out of bounds: the user learns which value it was.
  transfer::WireHeader header;
  header.request.key = key;
  refuse_submit(edge, header, submit.status());
  return {};
}

Status DataLoop::admit(Edge& edge, transfer::SubmitRecord submit) {
  const RequestKey key = submit.header.request.key;
  Status status = check_admission(edge, submit.header);
  Result<Route> made = status.ok() ? make_route(submit.header, nullptr) : Result<Route>(status);
  if (!made.ok()) {
    if (may_wait(made.status(), key)) {
      park({&edge, key, monotonic_ns() + kLinkGraceNs, std::move(submit)});
    } else {
      refuse_submit(edge, submit.header, made.status());
    }
    return {};
  }
  Route& route = sink_.add(key, std::move(*made));
  route.input_finished = true;
  status = core_->begin(core_header(submit.header, route), std::move(submit.input), monotonic_ns());
  if (!status.ok()) sink_.report_error(key, status);
  return {};
}

void DataLoop::refuse_submit(Edge& edge, const transfer::WireHeader& header, const Status& status) {
  Route refused;
  refused.header = header;
  refused.client = &edge;
  sink_.add(header.request.key, std::move(refused));
  sink_.report_error(header.request.key, status);
}

Status DataLoop::check_admission(const Edge& edge, const transfer::WireHeader& header) const {
  if (!stage_.input_sources.empty()) {
    return invalid("requests enter at another stage of this pipeline");
  }
  if (draining_.load()) return Status(StatusCode::kClosed, "the pipeline is shutting down");
  if (edge.requests >= limits::kRequestsPerClientMax) {
    return Status(StatusCode::kFull, "requests in flight of one client: limit " +
                                         std::to_string(limits::kRequestsPerClientMax));
  }
  if ((header.request.modalities & reachable_) == 0) {
    return invalid("modalities: none of the wanted outputs is made by this pipeline");
  }
  return {};
}

Edge* DataLoop::find_client(uint32_t client) {
  for (auto& edge : edges_) {
    if (edge->kind == EdgeKind::kClient && edge->index == client && edge->usable()) {
      return edge.get();
    }
  }
  return nullptr;
}

Result<Route> DataLoop::make_route(const transfer::WireHeader& header, Edge* source) {
  Route route;
  route.header = header;
  route.source = source;
  if (has_client_link(stage_)) {
    route.client = find_client(header.request.key.client);
    if (route.client == nullptr) return Status(StatusCode::kCancelled, "the client is gone");
  }
  route.own_outputs = own_outputs_ & header.request.modalities;
  OMS_RETURN_IF_ERROR(find_downstream(header, route));
  return route;
}

// Only stages behind which a wanted output is made get chunks.
Status DataLoop::find_downstream(const transfer::WireHeader& header, Route& route) {
  for (int consumer : consumers_) {
    if ((reachable_outputs(config_, consumer) & header.request.modalities) == 0) continue;
    Edge* found = nullptr;
    for (auto& edge : edges_) {
      if (edge->kind == EdgeKind::kDownstream && edge->usable() &&
          edge->index == static_cast<uint32_t>(consumer)) {
        found = edge.get();
      }
    }
    if (found == nullptr) {
      return Status(StatusCode::kStageDied,
                    "stage '" + config_.stage(consumer)->name + "' is not running");
    }
    route.downstream.push_back({found});
  }
  return {};
}

// What the core sees: this stage's sampling parameters, and modalities that make it produce exactly
// what is wanted here. Cores tell by the bits beyond text whether somebody behind them needs
// chunks; the graph knows better.
engine::RequestHeader DataLoop::core_header(const transfer::WireHeader& header,
                                            const Route& route) const {
  engine::RequestHeader out = header.request;
  out.sampling = effective_sampling(header, stage_.default_sampling_params);
  out.modalities = route.own_outputs;
  if (!route.downstream.empty()) out.modalities |= engine::kModalityAudio;
  return out;
}

Status DataLoop::on_chunk(Edge& edge, Bytes bytes) {
  if (edge.kind != EdgeKind::kUpstream) return protocol("a chunk from somebody who feeds nothing");
  OMS_ASSIGN_OR_RETURN(const RequestKey key, transfer::record_key(transfer::kRecordChunk, bytes));
  Result<transfer::ChunkRecord> record = transfer::decode_chunk(bytes, edge.open_tensor());
  if (!record.ok()) {
    if (record.status().code() != StatusCode::kInvalid) return record.status();
    if (sink_.find(key) != nullptr) {
      fail_request(key, record.status());
    } else {
      edge.send_control(transfer::kRecordAbort, encoder_.abort(key));
    }
    return {};
  }
  return take_chunk(edge, std::move(*record));
}

Status DataLoop::take_chunk(Edge& edge, transfer::ChunkRecord record) {
  const RequestKey key = record.chunk.key;
  const bool first = sink_.find(key) == nullptr && record.chunk.number == 0;
  Result<Route> made = first ? make_route(record.header, &edge) : Status(StatusCode::kNotFound, "");
  if (is_parked(key) || (first && !made.ok() && may_wait(made.status(), key))) {
    park({&edge, key, monotonic_ns() + kLinkGraceNs, std::move(record)});
    return {};
  }
  if (first && !made.ok()) {
    refuse_chunk(edge, record, made.status());
    return {};
  }
  if (first) sink_.add(key, std::move(*made));
  if (record.chunk.payload.contains(kErrorStatusEntry)) {
    on_error_chunk(record);
    return {};
  }
  Route* route = sink_.find(key);
  if (route == nullptr || route->ended || route->source != &edge) {
    // Over already; the sender may not know. The core counts it.
    core_->abort(key);
    edge.send_control(transfer::kRecordAbort, encoder_.abort(key));
    return {};
  }
  ++route->chunks_received;
  route->input_finished = route->input_finished || record.chunk.finished;
  sink_.owing_.insert(key);
  if (record.chunk.header.has_value()) record.chunk.header = core_header(record.header, *route);
  core_->chunk(std::move(record.chunk), monotonic_ns());
  look_again_ = true;
  return {};
}

// The client is gone or a stage behind is missing. In the second case the client learns it from
// here if it can; in both the source stops.
void DataLoop::refuse_chunk(Edge& edge, const transfer::ChunkRecord& record, const Status& status) {
  const RequestKey key = record.chunk.key;
  Route refused;
  refused.header = record.header;
  refused.source = &edge;
  refused.input_finished = record.chunk.finished;
  refused.client = has_client_link(stage_) ? find_client(key.client) : nullptr;
  sink_.add(key, std::move(refused));
  fail_request(key, status);
}

void DataLoop::on_error_chunk(const transfer::ChunkRecord& record) {
  const engine::Payload& payload = record.chunk.payload;
  auto text = [&payload](const char* name) {
    auto found = payload.find(name);
    const auto* value = found == payload.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value == nullptr ? std::string("unknown") : *value;
  };
  const auto* number = std::get_if<int64_t>(&payload.at(kErrorStatusEntry));
  const bool known =
      number != nullptr && *number < 0 && *number >= static_cast<int64_t>(StatusCode::kInternal);
  const Status status(known ? static_cast<StatusCode>(*number) : StatusCode::kInternal,
                      text(kErrorMessageEntry));
  const RequestKey key = record.chunk.key;
  core_->abort(key);
  if (sink_.find(key) == nullptr) return;  // over already
  sink_.find(key)->input_finished = true;
  sink_.report_error(key, status, text(kErrorStageEntry));
  look_again_ = true;
}

Status DataLoop::on_abort(Edge& edge, Bytes record) {
  OMS_ASSIGN_OR_RETURN(const RequestKey key, transfer::decode_abort(record));
  if (edge.kind == EdgeKind::kClient && key.client != edge.index) {
    return protocol("an abort in the name of another client");
  }
  const bool known = sink_.find(key) != nullptr;
  drop_parked([&key](const Parked& parked) { return parked.key == key; });
  abort_request(key, &edge);
  // Over here, but perhaps not in the stages behind, which only hear of it through us.
  if (known || edge.kind == EdgeKind::kDownstream) return {};
  for (auto& other : edges_) {
    if (other->kind == EdgeKind::kDownstream) {
      other->send_control(transfer::kRecordAbort, encoder_.abort(key));
    }
  }
  return {};
}

Status DataLoop::on_credit(Edge& edge, Bytes record) {
  OMS_ASSIGN_OR_RETURN(const transfer::CreditRecord credit, transfer::decode_credit(record));
  switch (edge.kind) {
    case EdgeKind::kClient:
      if (credit.key.client != edge.index) return protocol("credit for another client");
      sink_.add_output_credit(credit);
      break;
    case EdgeKind::kDownstream:
      sink_.add_chunk_credit(credit.key, edge, credit.outputs);
      break;
    case EdgeKind::kUpstream:
      return protocol("credit from somebody who takes nothing");
  }
  look_again_ = true;
  return {};
}

}  // namespace omnistage
