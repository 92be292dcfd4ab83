#include "progress.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace omnistage_cli {

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

Progress::Progress(bool quiet) : on_(!quiet && ::isatty(STDERR_FILENO) == 1), start_ns_(now_ns()) {}

void Progress::show(omnistage::Pipeline& pipeline) {
  if (!on_) return;
  std::string waiting;
  for (uint32_t i = 0; i < pipeline.stage_count(); ++i) {
    const oms_stage_info stage = pipeline.stage(i);
    if (stage.state == OMS_STAGE_READY) continue;
    waiting += (waiting.empty() ? "" : ", ") + std::string(stage.name);
  }
  std::fprintf(stderr, "\r\033[Kloading %s ... %.1f s", waiting.c_str(),
               static_cast<double>(now_ns() - start_ns_) / 1e9);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace omnistage_cli
