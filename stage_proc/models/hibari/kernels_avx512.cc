#define OMS_KERNEL_VARIANT avx512
#define OMS_KERNEL_NAME "avx512"
#include "stage_proc/models/hibari/kernels.inc"
