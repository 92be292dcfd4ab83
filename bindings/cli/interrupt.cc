#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace omnistage_cli {

volatile int interrupt_signal = 0;

namespace {

std::atomic<oms_queue*> queue_to_wake{nullptr};
static_assert(std::atomic<oms_queue*>::is_always_lock_free, "used in a signal handler");

void on_signal(int number) {
  if (interrupt_signal != 0) ::_exit(128 + number);
  interrupt_signal = number;
  if (oms_queue* queue = queue_to_wake.load()) oms_queue_wake(queue);
}

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void set_interrupt_queue(oms_queue* queue) {
  queue_to_wake.store(queue);
}

}  // namespace omnistage_cli
