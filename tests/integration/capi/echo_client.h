// What the integration tests share: launching the echo pipeline, submitting, collecting answers
// through the C interface only.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "omnistage/omnistage.h"

namespace echo {

// Generous: only a hang reaches it.
constexpr int64_t kPatienceNs = 60'000'000'000;
constexpr int64_t kMillisecond = 1'000'000;

std::string bin_dir();
std::string deploy_file();

struct Ask {
  std::string text = "hello world";
  uint32_t wanted = 0;
  int64_t deadline_ns = 0;
  uint64_t user_data = 0;
  std::map<std::string, std::string> params;
  Ask& slow(int delay_ms, int repeat) {
    params["echo_delay_ms"] = std::to_string(delay_ms);
    params["echo_repeat"] = std::to_string(repeat);
    return *this;
  }
};

// One answer as it came.
struct Answer {
  std::string text;
  std::vector<float> audio;
  uint64_t outputs = 0;
  int finals = 0;
  bool in_order = true;  // sequence without gaps, positions grow per kind, nothing after the FINAL
  oms_output_info final{};
  oms_error error{};
};

class Client {
 public:
  Client() = default;
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void launch(uint32_t max_inflight = 0, uint64_t max_borrowed_bytes = 0);
  void attach(const std::string& run_dir);
  void wait_ready();
  void close();

  oms_queue* make_queue(uint32_t capacity = 0);
  oms_status try_submit(oms_queue* queue, const Ask& ask, oms_request_id* id, oms_error* error);
  oms_request_id submit(oms_queue* queue, const Ask& ask);
  // Takes from the queue until `count` FINALs came (or patience ends: a test failure).
  void collect(oms_queue* queue, int count);
  Answer ask(const Ask& ask);

  oms_stage_info stage(uint32_t index);
  oms_stats stats();
  std::vector<pid_t> stage_pids();

  oms_pipeline* pipeline = nullptr;
  std::map<oms_request_id, Answer> answers;

 private:
  std::vector<oms_queue*> queues_;
};

// Adds one output to its answer.
void add_output(std::map<oms_request_id, Answer>& answers, oms_output* output);
// True once the process is gone (waits with patience).
bool is_gone(pid_t pid);
int open_fds();
// A fresh directory below the build tree's temporary folder.
std::string make_temp_dir();
// Children of this process with the program name.
std::vector<pid_t> children();

}  // namespace echo
