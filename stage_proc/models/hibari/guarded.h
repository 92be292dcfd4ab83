// guarded(): runs a piece of tensor code without autograd and turns what it throws into a Status.
#pragma once

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <utility>

#include "shm/base/status.h"

namespace omnistage::hibari {

// `work` returns a Status or a Result<T>; so does this.
template <typename Work>
auto guarded(const char* what, Work&& work) -> decltype(work()) {
  try {
    c10::InferenceMode no_autograd;
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kNoMemory, std::string(what) + ": out of memory");
  } catch (const c10::Error& error) {
    return internal_error(std::string(what) + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return internal_error(std::string(what) + ": " + error.what());
  }
}

}  // namespace omnistage::hibari
