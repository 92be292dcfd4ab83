#include "capi/client/shared_state.h"

#include <algorithm>

namespace omnistage::capi {
namespace {

std::shared_ptr<BorrowAccount> make_account(uint64_t limit) {
  auto account = std::make_shared<BorrowAccount>();
  account->limit = limit;
  account->bell = shm::WaitSet::create();
  return account;
}

}  // namespace

SharedState::SharedState(StageGraph stages, uint32_t client_id, uint32_t max_inflight,
                         uint64_t max_borrowed)
    : client(client_id),
      account(make_account(max_borrowed)),
      graph(std::move(stages)),
      table(max_inflight,
            [this](uint64_t request, StageMask working) { post_abort(request, working); }) {}

// Only linked stages can be told; they pass it on downstream.
void SharedState::post_abort(uint64_t request, StageMask working) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if ((working & stage_bit(i)) == 0 || !graph.at(i).linked) continue;
    Outbox& box = outbox[i];
    const auto unsent =
        std::find_if(box.submits.begin(), box.submits.end(),
                     [request](const Outbox::Submit& submit) { return submit.request == request; });
    if (unsent != box.submits.end()) {
      box.submits.erase(unsent);  // it never heard of the request
    } else {
      box.aborts.push_back(request);
    }
  }
  ring();
}

}  // namespace omnistage::capi
