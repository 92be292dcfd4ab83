// NULL and nonsense at every entry point: an error, never a crash. No process is started here.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "omnistage/omnistage.h"

namespace {

oms_error fresh_error() {
  oms_error error{};
  error.struct_size = sizeof(error);
  return error;
}

TEST(Arguments, NullHandles) {
  oms_error error = fresh_error();
  uint32_t count = 9;
  oms_output* output = nullptr;
  oms_request_id id = 9;
  oms_queue* queue = reinterpret_cast<oms_queue*>(1);
  EXPECT_EQ(oms_pipeline_launch(nullptr, nullptr, &error), OMS_E_INVALID);
  EXPECT_EQ(oms_pipeline_wait_ready(nullptr, 0, &error), OMS_E_INVALID);
  EXPECT_NE(std::string(error.message).find("pipeline"), std::string::npos);
  EXPECT_EQ(oms_pipeline_describe(nullptr, nullptr, 0, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_pipeline_stage_count(nullptr), 0u);
  EXPECT_EQ(oms_pipeline_stage_info(nullptr, 0, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_pipeline_stats(nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_queue_create(nullptr, nullptr, &queue, &error), OMS_E_INVALID);
  EXPECT_EQ(queue, nullptr);
  EXPECT_EQ(oms_queue_event_fd(nullptr), -1);
  EXPECT_EQ(oms_queue_poll(nullptr, &output, 1, &count), OMS_E_INVALID);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(oms_queue_wait(nullptr, &output, 1, &count, -1), OMS_E_INVALID);
  EXPECT_EQ(oms_submit(nullptr, nullptr, &id, &error), OMS_E_INVALID);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(oms_submit(nullptr, nullptr, nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_cancel(nullptr, 1), OMS_E_INVALID);
  EXPECT_EQ(oms_output_info_get(nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_output_error(nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_output_text(nullptr, nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_output_token_ids(nullptr, nullptr, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_output_tensor_count(nullptr), 0u);
  EXPECT_EQ(oms_output_tensor(nullptr, 0, nullptr), OMS_E_INVALID);
  EXPECT_EQ(oms_output_copy(nullptr, 0, nullptr, 0, nullptr), OMS_E_INVALID);
  oms_queue_wake(nullptr);
  oms_output_retain(nullptr);
  oms_output_release(nullptr);
  oms_queue_destroy(nullptr);
  oms_pipeline_close(nullptr);
}

TEST(Arguments, LaunchNamesWhatIsWrong) {
  oms_pipeline* pipeline = nullptr;
  oms_error error = fresh_error();
  oms_pipeline_options options;
  oms_pipeline_options_init(&options, sizeof(options));
  EXPECT_EQ(oms_pipeline_launch(&options, &pipeline, &error), OMS_E_INVALID);
  EXPECT_NE(std::string(error.message).find("config_path"), std::string::npos) << error.message;
  options.config_path = "x.yaml";
  options.max_inflight = 1025;
  EXPECT_EQ(oms_pipeline_launch(&options, &pipeline, &error), OMS_E_INVALID);
  EXPECT_NE(std::string(error.message).find("max_inflight"), std::string::npos) << error.message;
  options.max_inflight = 0;
  options.bin_dir = "/nonexistent/bin";
  EXPECT_EQ(oms_pipeline_launch(&options, &pipeline, &error), OMS_E_NOT_FOUND);
  EXPECT_NE(std::string(error.message).find("/nonexistent/bin/omnistage-supervisor"),
            std::string::npos)
      << error.message;
  EXPECT_EQ(pipeline, nullptr);
}

TEST(Arguments, AttachNamesTheDirectory) {
  oms_pipeline* pipeline = nullptr;
  oms_error error = fresh_error();
  EXPECT_EQ(oms_pipeline_attach("", nullptr, &pipeline, &error), OMS_E_INVALID);
  EXPECT_EQ(oms_pipeline_attach("/nonexistent/run", nullptr, &pipeline, &error), OMS_E_NOT_FOUND);
  EXPECT_NE(std::string(error.message).find("/nonexistent/run"), std::string::npos)
      << error.message;
  const std::string deep(200, 'x');
  EXPECT_EQ(oms_pipeline_attach(deep.c_str(), nullptr, &pipeline, &error), OMS_E_INVALID);
  EXPECT_EQ(pipeline, nullptr);
}

TEST(Arguments, LogCallbackMayChangeAtAnyTime) {
  int lines = 0;
  oms_set_log_callback(
      [](void* user, int32_t, const char*, const char*, size_t) { ++*static_cast<int*>(user); },
      &lines, OMS_LOG_TRACE);
  oms_set_log_callback(nullptr, nullptr, 0);
  EXPECT_EQ(lines, 0);
}

}  // namespace
