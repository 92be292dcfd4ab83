// Progress: one line on stderr that changes while the stages load; nothing when stderr is not a
// terminal.
#pragma once

#include <cstdint>

#include "omnistage/omnistage.hpp"

namespace omnistage_cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { clear(); }
  void show(omnistage::Pipeline& pipeline);
  void clear();

 private:
  bool on_;
  bool shown_ = false;
  int64_t start_ns_;
};

int64_t now_ns();

}  // namespace omnistage_cli
