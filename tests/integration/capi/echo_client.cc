#include "tests/integration/capi/echo_client.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace echo {

std::string bin_dir() {
  return std::string(OMS_BUILD_DIR) + "/bin";
}
std::string deploy_file() {
  return std::string(OMS_SOURCE_DIR) + "/deploy/echo.yaml";
}

Client::~Client() {
  for (oms_queue* queue : queues_) oms_queue_destroy(queue);
  oms_pipeline_close(pipeline);
}

void Client::launch(uint32_t max_inflight, uint64_t max_borrowed_bytes) {
  oms_pipeline_options options;
  oms_pipeline_options_init(&options, sizeof(options));
  const std::string config = deploy_file(), bin = bin_dir();
  options.config_path = config.c_str();
  options.bin_dir = bin.c_str();
  options.max_inflight = max_inflight;
  options.max_borrowed_bytes = max_borrowed_bytes;
  oms_error error{};
  error.struct_size = sizeof(error);
  ASSERT_EQ(oms_pipeline_launch(&options, &pipeline, &error), OMS_OK) << error.message;
}

void Client::attach(const std::string& run_dir) {
  oms_error error{};
  error.struct_size = sizeof(error);
  ASSERT_EQ(oms_pipeline_attach(run_dir.c_str(), nullptr, &pipeline, &error), OMS_OK)
      << error.message;
}

void Client::wait_ready() {
  oms_error error{};
  error.struct_size = sizeof(error);
  ASSERT_EQ(oms_pipeline_wait_ready(pipeline, kPatienceNs, &error), OMS_OK) << error.message;
}

void Client::close() {
  oms_pipeline_close(pipeline);
  pipeline = nullptr;
}

oms_queue* Client::make_queue(uint32_t capacity) {
  oms_queue_options options;
  oms_queue_options_init(&options, sizeof(options));
  if (capacity != 0) options.capacity = capacity;
  oms_error error{};
  error.struct_size = sizeof(error);
  oms_queue* queue = nullptr;
  EXPECT_EQ(oms_queue_create(pipeline, &options, &queue, &error), OMS_OK) << error.message;
  queues_.push_back(queue);
  return queue;
}

oms_status Client::try_submit(oms_queue* queue, const Ask& ask, oms_request_id* id,
                              oms_error* error) {
  oms_request request;
  oms_request_init(&request, sizeof(request));
  const oms_input input{sizeof(input), OMS_INPUT_TEXT, ask.text.data(), ask.text.size()};
  std::vector<oms_param> params;
  for (const auto& [key, value] : ask.params) {
    params.push_back({sizeof(oms_param), 0, key.c_str(), value.c_str()});
  }
  request.inputs = &input;
  request.input_count = 1;
  request.params = params.data();
  request.param_count = static_cast<uint32_t>(params.size());
  request.outputs_wanted = ask.wanted;
  request.deadline_ns = ask.deadline_ns;
  request.user_data = ask.user_data;
  return oms_submit(queue, &request, id, error);
}

oms_request_id Client::submit(oms_queue* queue, const Ask& ask) {
  oms_request_id id = 0;
  oms_error error{};
  error.struct_size = sizeof(error);
  EXPECT_EQ(try_submit(queue, ask, &id, &error), OMS_OK) << error.message;
  EXPECT_NE(id, 0u);
  return id;
}

void Client::collect(oms_queue* queue, int count) {
  int finals = 0;
  while (finals < count) {
    oms_output* outs[4];
    uint32_t got = 0;
    const oms_status status = oms_queue_wait(queue, outs, 4, &got, kPatienceNs);
    ASSERT_EQ(status, OMS_OK) << oms_status_name(status) << " with " << finals << " of " << count
                              << " FINALs";
    for (uint32_t i = 0; i < got; ++i) {
      oms_output_info info{};
      info.struct_size = sizeof(info);
      ASSERT_EQ(oms_output_info_get(outs[i], &info), OMS_OK);
      finals += (info.flags & OMS_OUTPUT_FINAL) != 0 ? 1 : 0;
      add_output(answers, outs[i]);
      oms_output_release(outs[i]);
    }
  }
}

Answer Client::ask(const Ask& ask) {
  oms_queue* queue = make_queue();
  const oms_request_id id = submit(queue, ask);
  collect(queue, 1);
  return answers[id];
}

oms_stage_info Client::stage(uint32_t index) {
  oms_stage_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(oms_pipeline_stage_info(pipeline, index, &info), OMS_OK);
  return info;
}

oms_stats Client::stats() {
  oms_stats stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(oms_pipeline_stats(pipeline, &stats), OMS_OK);
  return stats;
}

std::vector<pid_t> Client::stage_pids() {
  std::vector<pid_t> pids;
  for (uint32_t i = 0; i < oms_pipeline_stage_count(pipeline); ++i) pids.push_back(stage(i).pid);
  return pids;
}

void add_output(std::map<oms_request_id, Answer>& answers, oms_output* output) {
  oms_output_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(oms_output_info_get(output, &info), OMS_OK);
  Answer& answer = answers[info.request];
  if (answer.finals != 0 || info.sequence != answer.outputs) answer.in_order = false;
  ++answer.outputs;
  if ((info.flags & OMS_OUTPUT_FINAL) != 0) {
    ++answer.finals;
    answer.final = info;
    answer.error.struct_size = sizeof(answer.error);
    ASSERT_EQ(oms_output_error(output, &answer.error), OMS_OK);
    return;
  }
  if (info.kind == OMS_KIND_TEXT) {
    const char* text = nullptr;
    size_t length = 0;
    ASSERT_EQ(oms_output_text(output, &text, &length), OMS_OK);
    answer.text.append(text, length);
  } else if (info.kind == OMS_KIND_AUDIO) {
    if (info.position != answer.audio.size()) answer.in_order = false;
    oms_tensor_view view{};
    view.struct_size = sizeof(view);
    ASSERT_EQ(oms_output_tensor(output, 0, &view), OMS_OK);
    ASSERT_EQ(view.dtype_code, OMS_DTYPE_FLOAT);
    ASSERT_EQ(view.dtype_bits, 32);
    const auto* samples = static_cast<const float*>(view.data);
    answer.audio.insert(answer.audio.end(), samples, samples + view.bytes / 4);
  }
}

bool is_gone(pid_t pid) {
  for (int i = 0; i < 2000; ++i) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    // A zombie of a foreign parent (the reaper of this machine) counts as gone.
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(stat, line);
    const size_t paren = line.rfind(") ");
    if (paren != std::string::npos && line[paren + 2] == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int open_fds() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

std::string make_temp_dir() {
  std::string name = (std::filesystem::temp_directory_path() / "oms-capi-XXXXXX").string();
  return ::mkdtemp(name.data()) != nullptr ? name : std::string();
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid; list >> pid;) pids.push_back(pid);
  }
  return pids;
}

}  // namespace echo
