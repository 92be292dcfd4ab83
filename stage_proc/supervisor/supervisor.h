// Supervisor: owns the stage processes of one pipeline and the control connections to them and to
// the clients. It starts a process per stage, brings the ends of links together (the data itself
// never passes through here), tells clients what happens to stages, starts dead stages again within
// their budget and ends everything in order.
//
// Life of a stage:  Starting -> Ready -> Dead -> (back-off) -> Starting ...   killed or ended while
// it should run
//                   Starting -> Failed        never was ready: restarting would not help
//                   Dead -> Failed            restart budget used up
//                   any -> Stopped            the supervisor ended it
//
// Everything runs on the thread that calls run(). Files: supervisor.cc (life, signals, shutdown),
// supervisor_stages.cc, supervisor_clients.cc.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shm/control/control_socket.h"
#include "stage_proc/config/deploy_config.h"
#include "stage_proc/supervisor/child.h"
#include "stage_proc/supervisor/event_loop.h"
#include "stage_proc/supervisor/restart_policy.h"
#include "stage_proc/supervisor/run_dir.h"

namespace omnistage {

struct SupervisorSetup {
  config::DeployConfig config;
  std::string stage_executable;
  UniqueFd client;                  // private mode: the one client's socket
  std::unique_ptr<RunDir> run_dir;  // shared mode
};

class Supervisor {
 public:
  static constexpr int64_t kHelloTimeoutNs = 10'000'000'000;

  // Blocks the handled signals and becomes the subreaper; starts nothing. Errors: kSystem.
  static Result<std::unique_ptr<Supervisor>> create(SupervisorSetup setup);
  ~Supervisor();

  // Starts all stages and returns when everything has ended: an ExitCode.
  int run();

 private:
  struct StageProcess {
    const config::StageConfig* config = nullptr;
    control::Stage info;
    Child child;
    control::ControlSocket socket;
    bool said_hello = false;
    bool was_ready = false;  // in any incarnation
    bool told_to_stop = false;
    Status last_words;
    std::string killed_because;  // why the supervisor killed it
    std::unique_ptr<RestartPolicy> restarts;
    EventLoop::TimerId init_timer = 0;
    EventLoop::TimerId restart_timer = 0;
    uint64_t steps = 0;  // of the last heartbeat
  };
  struct Client {
    uint32_t id = 0;
    control::ControlSocket socket;
    bool said_hello = false;
    EventLoop::TimerId hello_timer = 0;
  };

  Supervisor(SupervisorSetup setup, std::unique_ptr<EventLoop> loop);

  // supervisor.cc
  Status watch_signals();
  Status watch_clients();
  void on_signal();
  bool private_mode() const { return run_dir_ == nullptr; }
  void begin_shutdown(bool drain);
  void stop_stages_without_live_sources();
  void kill_all();
  void finish_if_done();

  // supervisor_stages.cc
  void start_stage(StageProcess& stage);
  Status spawn(StageProcess& stage);
  void on_stage_socket(StageProcess& stage, uint32_t events);
  void read_stage_socket(StageProcess& stage);
  Status on_stage_message(StageProcess& stage, control::Message& message);
  Status on_stage_hello(StageProcess& stage, const control::Hello& hello);
  void on_stage_ready(StageProcess& stage);
  void on_stage_exit(StageProcess& stage);
  void log_loss(const std::string& what) const;
  void after_death(StageProcess& stage, const std::string& how, int exit_code);
  void plan_restart(StageProcess& stage);
  void fail_stage(StageProcess& stage, const std::string& why);
  void kill_stage(StageProcess& stage, const std::string& why);
  void stop_stage(StageProcess& stage, bool drain);
  void close_stage_socket(StageProcess& stage);
  void send_to_stage(StageProcess& stage, control::Bytes message, UniqueFd fd = UniqueFd());
  void set_state(StageProcess& stage, wire::StageState state, const std::string& message);
  void connect_stages(StageProcess& from, StageProcess& to);
  void connect_neighbours(StageProcess& stage);
  bool can_connect(const StageProcess& stage) const;
  StageProcess* find_stage(int stage_id);
  std::string own_words(const StageProcess& stage, const std::string& how) const;

  // supervisor_clients.cc
  void accept_clients();
  void add_client(UniqueFd socket);
  void on_client_socket(uint32_t id, uint32_t events);
  void read_client_socket(uint32_t id);
  Status on_client_message(Client& client, control::Message& message);
  Status on_client_hello(Client& client, const control::Hello& hello);
  void drop_client(uint32_t id, const Status& why);
  void send_to_client(Client& client, control::Bytes message, UniqueFd fd = UniqueFd());
  void broadcast(const StageProcess& stage);
  void connect_client(Client& client, StageProcess& stage);
  void connect_clients(StageProcess& stage);

  config::DeployConfig config_;
  std::string stage_executable_;
  UniqueFd private_client_;
  std::unique_ptr<RunDir> run_dir_;
  std::unique_ptr<EventLoop> loop_;
  UniqueFd signals_;

  std::vector<std::unique_ptr<StageProcess>> stages_;
  std::map<uint32_t, Client> clients_;
  uint32_t next_client_ = 1;
  bool stopping_ = false;
  bool draining_ = false;
  int exit_code_ = kExitOk;
};

}  // namespace omnistage
