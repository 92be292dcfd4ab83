// omnistage.hpp - C++11 wrapper of omnistage.h, header only: owners that close by themselves,
// errors as exceptions. Everything is inline over the C interface; thread rules, lifetimes and
// limits are those of omnistage.h.
//
//   omnistage::Pipeline pipeline = omnistage::Pipeline::launch("speak.yaml");
//   pipeline.wait_ready();
//   omnistage::Queue queue(pipeline);
//   omnistage::Request request;
//   request.text("Why is the sky blue?");
//   queue.submit(request);
//   for (omnistage::Output output; queue.wait(output) == OMS_OK && !output.final();)
//     std::cout << output.text();
#ifndef OMNISTAGE_OMNISTAGE_HPP
#define OMNISTAGE_OMNISTAGE_HPP

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "omnistage/omnistage.h"

namespace omnistage {

// Thrown for every status below 0.
class Error : public std::runtime_error {
 public:
  Error(oms_status code, const std::string& message, int32_t stage_index = -1)
      : std::runtime_error(message.empty() ? oms_status_text(code) : message),
        code_(code),
        stage_index_(stage_index) {}
  explicit Error(const oms_error& error) : Error(error.code, error.message, error.stage_index) {}
  oms_status code() const noexcept { return code_; }
  int32_t stage_index() const noexcept { return stage_index_; }

 private:
  oms_status code_;
  int32_t stage_index_;
};

namespace detail {

template <typename T>
T sized() {
  T value;
  std::memset(static_cast<void*>(&value), 0, sizeof(value));
  value.struct_size = static_cast<uint32_t>(sizeof(value));
  return value;
}
inline oms_status check(oms_status status, const oms_error& error) {
  if (status < 0) throw Error(error);
  return status;
}
inline oms_status check(oms_status status) {
  if (status < 0) throw Error(status, std::string());
  return status;
}

}  // namespace detail

inline oms_pipeline_options pipeline_options() {
  oms_pipeline_options options;
  oms_pipeline_options_init(&options, static_cast<uint32_t>(sizeof(options)));
  return options;
}

class Pipeline {
 public:
  Pipeline() noexcept = default;
  explicit Pipeline(oms_pipeline* handle) noexcept : handle_(handle) {}
  Pipeline(Pipeline&& other) noexcept : handle_(other.release()) {}
  Pipeline& operator=(Pipeline&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Pipeline() { reset(); }

  static Pipeline launch(const oms_pipeline_options& options) {
    oms_pipeline* handle = nullptr;
    oms_error error = detail::sized<oms_error>();
    detail::check(oms_pipeline_launch(&options, &handle, &error), error);
    return Pipeline(handle);
  }
  static Pipeline launch(const std::string& config_path) {
    oms_pipeline_options options = pipeline_options();
    options.config_path = config_path.c_str();
    return launch(options);
  }
  static Pipeline attach(const std::string& run_dir,
                         const oms_pipeline_options* options = nullptr) {
    oms_pipeline* handle = nullptr;
    oms_error error = detail::sized<oms_error>();
    detail::check(oms_pipeline_attach(run_dir.c_str(), options, &handle, &error), error);
    return Pipeline(handle);
  }

  // OMS_OK or OMS_TIMEOUT.
  oms_status wait_ready(int64_t timeout_ns = -1) {
    oms_error error = detail::sized<oms_error>();
    return detail::check(oms_pipeline_wait_ready(handle_, timeout_ns, &error), error);
  }
  std::string describe() {
    std::string text;
    size_t needed = 1;
    // The text can grow between two calls when a stage changes its state.
    oms_status status;
    do {
      text.resize(needed);
      status = oms_pipeline_describe(handle_, &text[0], text.size(), &needed);
    } while (status == OMS_E_FULL);
    detail::check(status);
    text.resize(needed - 1);
    return text;
  }
  uint32_t stage_count() const noexcept { return oms_pipeline_stage_count(handle_); }
  oms_stage_info stage(uint32_t index) {
    oms_stage_info info = detail::sized<oms_stage_info>();
    detail::check(oms_pipeline_stage_info(handle_, index, &info));
    return info;
  }
  oms_stats stats() {
    oms_stats stats = detail::sized<oms_stats>();
    detail::check(oms_pipeline_stats(handle_, &stats));
    return stats;
  }

  oms_pipeline* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  oms_pipeline* release() noexcept { return exchange(nullptr); }
  void reset(oms_pipeline* handle = nullptr) noexcept { oms_pipeline_close(exchange(handle)); }

 private:
  oms_pipeline* exchange(oms_pipeline* next) noexcept {
    oms_pipeline* before = handle_;
    handle_ = next;
    return before;
  }
  oms_pipeline* handle_ = nullptr;
};

// A request under construction; owns copies of all texts, so temporaries are fine.
class Request {
 public:
  Request& text(std::string value) { return add(OMS_INPUT_TEXT, std::move(value)); }
  Request& system(std::string value) { return add(OMS_INPUT_SYSTEM_TEXT, std::move(value)); }
  Request& token_ids(const std::vector<int32_t>& ids) {
    return add(OMS_INPUT_TOKEN_IDS, std::string(reinterpret_cast<const char*>(ids.data()),
                                                ids.size() * sizeof(int32_t)));
  }
  Request& param(std::string key, std::string value) {
    params_.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  Request& stop(std::string value) {
    stops_.push_back(std::move(value));
    return *this;
  }
  // Set fields together with their bits of `given`; `stop` is taken from stop() above.
  oms_sampling& sampling() { return sampling_; }
  Request& outputs(uint32_t wanted) {
    request_.outputs_wanted = wanted;
    return *this;
  }
  Request& deadline_ns(int64_t value) {
    request_.deadline_ns = value;
    return *this;
  }
  Request& user_data(uint64_t value) {
    request_.user_data = value;
    return *this;
  }
  Request& priority(int32_t value) {
    request_.priority = value;
    return *this;
  }
  Request& output_credit(uint32_t value) {
    request_.output_credit = value;
    return *this;
  }

  oms_request_id submit(oms_queue* queue) const {
    std::vector<oms_input> inputs;
    for (const auto& given : inputs_) {
      oms_input input = detail::sized<oms_input>();
      input.kind = given.first;
      input.data = given.second.data();
      input.bytes = given.second.size();
      inputs.push_back(input);
    }
    std::vector<oms_param> params;
    for (const auto& given : params_) {
      oms_param param = detail::sized<oms_param>();
      param.key = given.first.c_str();
      param.value = given.second.c_str();
      params.push_back(param);
    }
    std::vector<const char*> stops;
    for (const std::string& stop : stops_) stops.push_back(stop.c_str());
    oms_sampling sampling = sampling_;
    if (!stops.empty()) {
      sampling.given |= OMS_GIVEN_STOP;
      sampling.stop = stops.data();
      sampling.stop_count = static_cast<uint32_t>(stops.size());
    }
    oms_request request = request_;
    request.inputs = inputs.data();
    request.input_count = static_cast<uint32_t>(inputs.size());
    request.params = params.data();
    request.param_count = static_cast<uint32_t>(params.size());
    request.sampling = &sampling;
    oms_request_id id = 0;
    oms_error error = detail::sized<oms_error>();
    detail::check(oms_submit(queue, &request, &id, &error), error);
    return id;
  }

 private:
  Request& add(uint32_t kind, std::string value) {
    inputs_.emplace_back(kind, std::move(value));
    return *this;
  }
  std::vector<std::pair<uint32_t, std::string>> inputs_;
  std::vector<std::pair<std::string, std::string>> params_;
  std::vector<std::string> stops_;
  oms_sampling sampling_ = detail::sized<oms_sampling>();
  oms_request request_ = detail::sized<oms_request>();
};

// Shares one output; copies count references.
class Output {
 public:
  Output() noexcept = default;
  explicit Output(oms_output* handle) noexcept : handle_(handle) {}
  Output(const Output& other) noexcept : handle_(other.handle_) { oms_output_retain(handle_); }
  Output(Output&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Output& operator=(Output other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Output() { oms_output_release(handle_); }

  oms_output_info info() const {
    oms_output_info info = detail::sized<oms_output_info>();
    detail::check(oms_output_info_get(handle_, &info));
    return info;
  }
  bool final() const { return (info().flags & OMS_OUTPUT_FINAL) != 0; }
  // Of a FINAL.
  oms_error error() const {
    oms_error error = detail::sized<oms_error>();
    detail::check(oms_output_error(handle_, &error));
    return error;
  }
  std::string text() const {
    const char* text = nullptr;
    size_t length = 0;
    detail::check(oms_output_text(handle_, &text, &length));
    return std::string(text, length);
  }
  uint32_t tensor_count() const noexcept { return oms_output_tensor_count(handle_); }
  oms_tensor_view tensor(uint32_t index = 0) const {
    oms_tensor_view view = detail::sized<oms_tensor_view>();
    detail::check(oms_output_tensor(handle_, index, &view));
    return view;
  }
  oms_output* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  oms_output* handle_ = nullptr;
};

class Queue {
 public:
  Queue() noexcept = default;
  explicit Queue(const Pipeline& pipeline, uint32_t capacity = 0) {
    oms_queue_options options = detail::sized<oms_queue_options>();
    options.capacity = capacity;
    oms_error error = detail::sized<oms_error>();
    detail::check(oms_queue_create(pipeline.get(), &options, &handle_, &error), error);
  }
  Queue(Queue&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Queue& operator=(Queue&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Queue() { oms_queue_destroy(handle_); }

  oms_request_id submit(const Request& request) { return request.submit(handle_); }
  // OMS_E_NOT_FOUND (it is over) is no error here.
  oms_status cancel(oms_request_id id) {
    const oms_status status = oms_cancel(handle_, id);
    return status == OMS_E_NOT_FOUND ? status : detail::check(status);
  }
  // One output: OMS_OK, else OMS_AGAIN, OMS_WOKEN, OMS_TIMEOUT. Throws with OMS_E_CLOSED when none
  // will come.
  oms_status poll(Output& output) {
    oms_output* handle = nullptr;
    uint32_t count = 0;
    const oms_status status = detail::check(oms_queue_poll(handle_, &handle, 1, &count));
    output = Output(handle);
    return status;
  }
  oms_status wait(Output& output, int64_t timeout_ns = -1) {
    oms_output* handle = nullptr;
    uint32_t count = 0;
    const oms_status status =
        detail::check(oms_queue_wait(handle_, &handle, 1, &count, timeout_ns));
    output = Output(handle);
    return status;
  }
  void wake() noexcept { oms_queue_wake(handle_); }
  int32_t event_fd() const noexcept { return oms_queue_event_fd(handle_); }
  oms_queue* get() const noexcept { return handle_; }

 private:
  oms_queue* handle_ = nullptr;
};

}  // namespace omnistage

#endif  // OMNISTAGE_OMNISTAGE_HPP
