// What stands behind the opaque types of the C interface. Internal to capi/abi.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "capi/client/pipeline.h"
#include "capi/queue/completion_queue.h"
#include "omnistage/omnistage.h"

struct oms_pipeline {
  pid_t pid = ::getpid();
  std::shared_ptr<omnistage::capi::Pipeline> pipeline;
};

struct oms_queue {
  pid_t pid = ::getpid();
  std::shared_ptr<omnistage::capi::CompletionQueue> queue;
  std::shared_ptr<omnistage::capi::Pipeline> pipeline;
};

struct oms_output {
  std::atomic<uint32_t> references{1};
  omnistage::capi::OutputEvent event;
  std::vector<int64_t> strides;
};

namespace omnistage::capi {

// Null and fork checks of a handle.
template <typename Handle>
Status check_handle(const Handle* handle, const char* name) {
  if (handle == nullptr) return invalid(std::string(name) + " is NULL");
  if (handle->pid == ::getpid()) return Status();
  return Status(StatusCode::kForked, std::string(name) + " belongs to the parent process");
}

}  // namespace omnistage::capi
