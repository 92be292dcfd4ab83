// ControlLoop: the control thread of one pipeline. It sleeps in epoll over the supervisor's socket,
// the sockets of the links and the private supervisor's pidfd, makes links when the supervisor
// sends an end of one, and passes everything on to the data thread in order. It blocks every
// signal.
//
// Threads: start/stop by the owner.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "capi/client/shared_state.h"
#include "capi/client/supervisor_process.h"
#include "shm/control/control_socket.h"

namespace omnistage::capi {

class ControlLoop {
 public:
  // `supervisor` is null for an attached pipeline. Both references outlive the loop.
  ControlLoop(SharedState& state, control::ControlSocket socket, SupervisorProcess* supervisor);
  ~ControlLoop() { stop(false); }

  Status start();
  // Ends the thread; with `shutdown` it tells the supervisor to end everything before.
  void stop(bool shutdown);

 private:
  void run();
  void on_supervisor_readable();
  void on_message(control::Message& message);
  void on_connect(const control::Connect& connect, UniqueFd socket);
  void on_link_readable(int fd);
  void supervisor_gone(const std::string& why);
  void post(ControlEvent event);
  bool watch(int fd, uint32_t events);

  SharedState& state_;
  control::ControlSocket socket_;
  SupervisorProcess* const supervisor_;
  UniqueFd epoll_;
  UniqueFd stop_event_;
  std::atomic<bool> shutdown_{false};
  bool gone_ = false;
  std::vector<std::shared_ptr<shm::Link>> links_;
  std::thread thread_;
};

// Starts a thread with all signals blocked, so that the host's handlers never run on it.
std::thread start_quiet_thread(const char* name, std::function<void()> body);

}  // namespace omnistage::capi
