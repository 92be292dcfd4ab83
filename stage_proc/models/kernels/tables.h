// The tables behind select_kernels(). Each lives in a file compiled for its instruction set;
// nothing but these constants may be touched before the CPU was asked.
#pragma once

#include "stage_proc/models/kernels/kernels.h"

namespace omnistage::kernels {

extern const KernelTable kScalarTable;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx512VnniTable;
#endif

}  // namespace omnistage::kernels
