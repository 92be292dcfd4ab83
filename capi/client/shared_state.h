// What the application's threads, the control thread and the data thread of one pipeline share. The
// request table and the graph change under `mutex`; links and rings belong to the data thread alone
// and are not in here.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "capi/client/edge_codec.h"
#include "capi/queue/completion_queue.h"
#include "capi/state/request_table.h"
#include "shm/wait/wait_set.h"

namespace omnistage::capi {

// What the control thread tells the data thread, in the order the supervisor said it.
struct ControlEvent {
  enum class Kind : uint8_t { kStageChanged, kLink, kSupervisorGone };
  Kind kind = Kind::kStageChanged;
  StageNode stage;                  // kStageChanged; for kLink index and epoch
  std::shared_ptr<shm::Link> link;  // kLink
  Status why;                       // kSupervisorGone
};

// Records that wait for room in the rings to one stage. Bounded: one Submit and one Abort per
// request in flight, one credit count per request and kind.
struct Outbox {
  struct Submit {
    uint64_t request = 0;
    Bytes record;
  };
  std::deque<Submit> submits;
  std::deque<uint64_t> aborts;
  std::map<std::pair<uint64_t, OutputKind>, uint32_t> credits;
  void clear() {
    submits.clear();
    aborts.clear();
    credits.clear();
  }
};

// How much pool memory outputs hold. Outlives the pipeline as long as an output does.
struct BorrowAccount {
  std::atomic<uint64_t> borrowed{0};
  std::atomic<uint64_t> copied{0};
  uint64_t limit = 0;
  std::shared_ptr<shm::WaitSet> bell;  // rung at each release, so that the lease goes back
};

struct SharedState {
  SharedState(StageGraph stages, uint32_t client_id, uint32_t max_inflight, uint64_t max_borrowed);

  // Wakes the data thread. Any thread.
  void ring() { account->bell->ring(); }
  RequestKey key(uint64_t request) const { return {client, 0, request}; }

  const uint32_t client;
  const std::shared_ptr<BorrowAccount> account;

  std::mutex mutex;
  std::condition_variable changed;  // graph or `closed` changed
  StageGraph graph;
  RequestTable table;
  std::array<Outbox, limits::kStagesMax> outbox;
  std::deque<ControlEvent> events;
  std::vector<std::shared_ptr<CompletionQueue>> queues;
  Status closed;          // why nothing goes any more; OK while it does
  bool stopping = false;  // close() was called

 private:
  void post_abort(uint64_t request, StageMask stages);
};

}  // namespace omnistage::capi
