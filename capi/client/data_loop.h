// DataLoop: the data thread of one pipeline and the only one that touches its rings. One turn: read
// records of all links, apply what the control thread saw, let deadlines pass, send what waits;
// then sleep until something comes. It blocks every signal and makes no wake-ups while idle.
//
// Threads: start/join by the owner; stops when SharedState::stopping is set and the bell rung.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "capi/client/shared_state.h"

namespace omnistage::capi {

class DataLoop {
 public:
  explicit DataLoop(SharedState& state) : state_(state) {}
  ~DataLoop() { join(); }
  void start();
  void join();

 private:
  // A record, parsed; applied under the mutex.
  struct Incoming {
    bool is_end = false;
    OutputRecord output;
    StageEndRecord end;
  };
  // An end because a neighbour of the stage died, until the supervisor's word is due.
  struct HeldEnd {
    uint32_t stage = 0;
    uint64_t request = 0;
    StageEndRecord end;
    int64_t due_ns = 0;
  };
  struct StageLink {
    std::shared_ptr<shm::Link> link;
    int64_t lost_ns =
        0;  // when the peer hung up without the supervisor having said why; 0 = did not
  };

  void run();
  // Reads up to a bound; true when more may be there.
  bool read_stage(uint32_t stage, size_t limit);
  Status parse(uint32_t stage, const shm::Record& record, Incoming& out);
  Status open_pooled(uint32_t stage, OutputRecord& output);
  void apply(uint32_t stage, std::vector<Incoming>& batch);
  void cut_off(uint32_t stage, const Status& why);

  bool apply_events();
  void on_stage_changed(const StageNode& changed);
  void on_link(ControlEvent& event);
  void on_supervisor_gone(const Status& why);
  void drop_link(uint32_t stage);
  void look_for_lost_links(int64_t now_ns);
  void apply_held_ends(int64_t now_ns);

  void collect_credits();
  void send_all();
  void send_stage(uint32_t stage);
  int64_t next_wake_ns();
  void shut();

  SharedState& state_;
  std::array<StageLink, limits::kStagesMax> links_;
  std::deque<HeldEnd> held_ends_;  // by due time
  std::thread thread_;
};

}  // namespace omnistage::capi
