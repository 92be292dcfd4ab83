// Ctrl-C and its relatives: a handler that only remembers the signal and wakes the queue, so that
// the program ends in order. A second signal ends it at once; the supervisor then sees the end of
// its socket and ends the stages.
#pragma once

#include "omnistage/omnistage.h"

namespace omnistage_cli {

// SIGINT, SIGTERM and SIGHUP; SIGPIPE becomes an error of write().
void install_interrupt_handlers();
// 0, or the signal that came.
extern volatile int interrupt_signal;
// The queue to wake from the handler; nullptr before it exists and before it is destroyed.
void set_interrupt_queue(oms_queue* queue);

}  // namespace omnistage_cli
