// RawClient: a client that speaks control messages and link records directly, so that tests see
// what really goes over the wire. Everything happens inside pump(), on the test's thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shm/control/control_socket.h"
#include "shm/link/link.h"
#include "stage_proc/transfer/wire_codec/wire_codec.h"
#include "tests/integration/pipeline/processes.h"

namespace omnistage::test {

struct Answer {
  std::string text;
  uint64_t text_pieces = 0;
  std::vector<float> audio;
  bool positions_fit = true;                  // each piece starts where the one before ended
  std::map<uint32_t, engine::StageEnd> ends;  // by stage
  std::vector<Status> errors;                 // of ends with a failed status, in order
  uint32_t late = 0;                          // records after the stage's end
};

struct Ask {
  std::string text = "hello";
  uint32_t modalities = engine::kModalityText | engine::kModalityAudio;
  std::map<std::string, std::string> extra;
  int64_t deadline_ns = 0;
  uint32_t credit = 8;
  bool returns_credit = true;
};

class RawClient {
 public:
  // Starts a private supervisor for this client.
  static std::unique_ptr<RawClient> launch(const std::string& deploy);
  // Attaches to a shared one; retries while the socket is not there yet.
  static std::unique_ptr<RawClient> attach(const std::string& run_dir);
  ~RawClient();

  // Reads whatever is there, waits at most a few milliseconds.
  void pump();
  // All stages ready; false when one failed or patience ended.
  bool wait_ready();
  bool wait_state(uint32_t stage, wire::StageState state, uint32_t epoch_at_least = 0);
  bool wait_done(uint64_t request);

  uint64_t submit(const Ask& ask);
  void abort(uint64_t request);
  // Gives what a request with returns_credit == false has used, from now on at once.
  void return_credit(uint64_t request);
  Answer& answer(uint64_t request) { return answers_.at(request).answer; }
  // Every stage whose output is wanted said its end, or one reported an error.
  bool done(uint64_t request) const;
  Answer ask(const Ask& ask);  // submit and wait

  const control::Stage& stage(uint32_t index) const { return stages_.at(index); }
  const std::vector<control::Stage>& history() const { return history_; }
  bool closed() const { return closed_; }  // the supervisor closed its socket
  const Status& refused() const { return refused_; }
  pid_t supervisor() const { return supervisor_; }
  const std::string& mark() const { return mark_; }
  uint32_t id() const { return id_; }
  control::ControlSocket& socket() { return socket_; }
  shm::Link* link(uint32_t stage) const;
  void close_control() { socket_.reset(); }
  void drop_links() { links_.clear(); }
  // The supervisor was waited for by the test.
  void forget_supervisor() { supervisor_ = -1; }

 private:
  struct Request {
    Ask ask;
    Answer answer;
    std::map<engine::OutputKind, uint32_t> owed;
    uint64_t next_text = 0, next_sample = 0;
  };

  RawClient(UniqueFd socket, pid_t supervisor, std::string mark);
  void read_control();
  void on_message(control::Message& message);
  void read_link(uint32_t stage, shm::Link& link);
  void on_output(uint32_t stage, shm::Link& link, const engine::StageOutput& output);
  void send_credit(shm::Link& link, uint64_t request, engine::OutputKind kind, uint32_t count);
  RequestKey key(uint64_t request) const { return {id_, 0, request}; }

  control::ControlSocket socket_;
  pid_t supervisor_ = -1;
  std::string mark_;
  uint32_t id_ = 0;
  bool closed_ = false;
  Status refused_;
  std::map<uint32_t, control::Stage> stages_;
  std::vector<control::Stage> history_;  // every StageChanged
  std::map<uint32_t, std::unique_ptr<shm::Link>> links_;
  std::map<uint64_t, Request> answers_;
  uint64_t next_request_ = 1;
  transfer::Encoder encoder_;
};

}  // namespace omnistage::test
