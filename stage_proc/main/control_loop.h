// ControlLoop: the control thread of a stage. It owns the socket to the supervisor and the sockets
// of all links: hello, new links, death of peers, the order to end, signs of life. It works from
// the first moment on, also while the model loads, so that a stage whose supervisor is gone ends at
// once, whatever the data thread does.
//
// Threads: run() on the control thread; send_ready(), fail(), release() and end() on any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shm/control/control_socket.h"
#include "stage_proc/config/deploy_config.h"
#include "stage_proc/main/data_loop.h"
#include "stage_proc/supervisor/event_loop.h"

namespace omnistage {

class ControlLoop {
 public:
  static constexpr int64_t kHeartbeatNs = 1'000'000'000;
  static constexpr uint32_t kClientRingBytes = 256u << 10;
  static constexpr uint32_t kSmallClientRingBytes =
      64u << 10;  // stages that tell clients only of errors

  // Says hello. `socket`: connected to the supervisor.
  static Result<std::unique_ptr<ControlLoop>> create(UniqueFd socket,
                                                     const config::DeployConfig& config,
                                                     const config::StageConfig& stage,
                                                     uint32_t epoch);

  void set_data_loop(DataLoop* data) { data_ = data; }
  // Never comes back: the process ends here.
  [[noreturn]] void run();

  void send_ready();
  [[noreturn]] static void end(int exit_code);
  // Last words to the supervisor, then the end of the process.
  void fail(const Status& status, int exit_code);
  void release(std::shared_ptr<shm::Link> link);
  void became_busy();

 private:
  ControlLoop(UniqueFd socket, const config::DeployConfig& config, const config::StageConfig& stage,
              uint32_t epoch, std::unique_ptr<EventLoop> loop);
  Status start();
  void post(std::function<void()> work);
  void run_posted();
  void send(control::Bytes message);
  void on_supervisor(uint32_t events);
  void on_message(control::Message& message);
  Status on_connect(const control::Connect& connect, UniqueFd socket);
  shm::LinkOptions link_options(const Edge& edge) const;
  void on_link(const std::shared_ptr<shm::Link>& link, const std::string& name);
  void forget(const std::shared_ptr<shm::Link>& link);
  void heartbeat();

  control::ControlSocket supervisor_;
  const config::DeployConfig& config_;
  const config::StageConfig& stage_;
  const uint32_t epoch_;
  std::unique_ptr<EventLoop> loop_;
  DataLoop* data_ = nullptr;
  std::unordered_map<shm::Link*, std::shared_ptr<shm::Link>> links_;
  bool beating_ = false;

  UniqueFd posted_event_;
  std::mutex mutex_;  // guards posted_
  std::vector<std::function<void()>> posted_;
};

}  // namespace omnistage
