#include "stage_proc/models/kernels/tables.h"

namespace omnistage::kernels {
namespace {

struct Variant {
  const KernelTable* table;
  bool runnable;
  const char* needs;
};

std::vector<Variant> variants() {
  std::vector<Variant> list = {{&kScalarTable, true, ""}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  list.push_back({&kAvx2Table, avx2, "AVX2 and FMA"});
  list.push_back({&kAvx512VnniTable, avx512, "AVX-512 F, BW, VL, DQ and VNNI"});
#endif
  return list;
}

}  // namespace

Result<const KernelTable*> select_kernels(const std::string& name) {
  const KernelTable* best = nullptr;
  for (const Variant& variant : variants()) {
    if (variant.runnable) best = variant.table;
    if (name != variant.table->name) continue;
    if (variant.runnable) return variant.table;
    return Status(StatusCode::kUnsupported,
                  "kernel '" + name + "' needs " + variant.needs + ", which this CPU lacks");
  }
  if (name == "auto") return best;
  std::string known = "auto";
  for (const Variant& variant : variants()) known += std::string(", ") + variant.table->name;
  return invalid("kernel '" + name + "' is unknown; this build has " + known);
}

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
  for (const Variant& variant : variants()) {
    if (variant.runnable) names.push_back(variant.table->name);
  }
  return names;
}

}  // namespace omnistage::kernels
