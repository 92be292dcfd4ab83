#include "stage_proc/transfer/chunk_adapter.h"

#include <string>

#include "shm/base/check.h"

namespace omnistage::transfer {
namespace {

ChunkCheck violation(const RequestKey& key, const std::string& what) {
  ChunkCheck check;
  check.verdict = ChunkVerdict::kViolation;
  check.status = Status(StatusCode::kProtocol, "chunk of request " + to_string(key) + ": " + what);
  return check;
}

}  // namespace

engine::StageChunk ChunkSender::make(engine::Payload payload, bool last) {
  OMS_CHECK(!finished_, "a chunk after the terminal one");
  OMS_CHECK(next_ < UINT32_MAX, "chunk numbers of one request are used up");
  engine::StageChunk chunk;
  chunk.key = header_.key;
  chunk.number = next_++;
  chunk.finished = last;
  chunk.payload = std::move(payload);
  if (chunk.number == 0) chunk.header = header_;
  finished_ = last;
  return chunk;
}

void Tombstones::add(const RequestKey& key) {
  const Id id{key.client, key.request};
  auto [at, inserted] = newest_.try_emplace(id, key.generation);
  if (!inserted) {
    if (at->second < key.generation) at->second = key.generation;
    return;
  }
  order_.push_back(id);
  if (order_.size() <= capacity_) return;
  newest_.erase(order_.front());
  order_.pop_front();
}

bool Tombstones::contains(const RequestKey& key) const {
  auto at = newest_.find({key.client, key.request});
  return at != newest_.end() && key.generation <= at->second;
}

ChunkCheck ChunkReceiver::check(const engine::StageChunk& chunk) {
  if (over_.contains(chunk.key)) return {};
  auto at = live_.find({chunk.key.client, chunk.key.request});
  if (at == live_.end() || at->second.generation < chunk.key.generation) return check_first(chunk);
  if (at->second.generation > chunk.key.generation) return {};
  return check_next(chunk, at->second);
}

ChunkCheck ChunkReceiver::check_first(const engine::StageChunk& chunk) {
  if (chunk.number != 0) return {};  // its beginning never came here
  if (!chunk.header) return violation(chunk.key, "number 0 has no header");
  if (!(chunk.header->key == chunk.key))
    return violation(chunk.key, "the header names request " + to_string(chunk.header->key));
  ChunkCheck check;
  check.verdict = ChunkVerdict::kFirst;
  auto [at, inserted] = live_.try_emplace({chunk.key.client, chunk.key.request});
  if (!inserted)
    check.superseded = RequestKey{chunk.key.client, at->second.generation, chunk.key.request};
  at->second = {chunk.key.generation, 1, chunk.finished};
  return check;
}

ChunkCheck ChunkReceiver::check_next(const engine::StageChunk& chunk, Entry& entry) {
  if (entry.finished)
    return violation(chunk.key, (chunk.finished ? "second terminal chunk, number "
                                                : "chunk after the terminal one, number ") +
                                    std::to_string(chunk.number));
  if (chunk.number != entry.next)
    return violation(chunk.key, "expected number " + std::to_string(entry.next) + ", got " +
                                    std::to_string(chunk.number));
  if (chunk.header)
    return violation(chunk.key, "header again at number " + std::to_string(chunk.number));
  ++entry.next;
  entry.finished = chunk.finished;
  ChunkCheck check;
  check.verdict = ChunkVerdict::kNext;
  return check;
}

void ChunkReceiver::close(const RequestKey& key) {
  auto at = live_.find({key.client, key.request});
  if (at != live_.end() && at->second.generation <= key.generation) live_.erase(at);
  over_.add(key);
}

}  // namespace omnistage::transfer
