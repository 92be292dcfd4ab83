#include "stage_proc/models/hibari/kernels.h"

#include <cstdlib>
#include <string_view>

namespace omnistage::hibari {

namespace base {
extern const Kernels kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
#endif

namespace {

const Kernels& choose() {
#if defined(__x86_64__)
  const char* forced = std::getenv("OMNISTAGE_CPU");
  const std::string_view limit = forced != nullptr ? forced : "";
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (limit == "base") return base::kTable;
  if (has_avx512 && limit != "avx2") return avx512::kTable;
  if (has_avx2) return avx2::kTable;
#endif
  return base::kTable;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace omnistage::hibari
