#define OMS_KERNEL_VARIANT avx2
#define OMS_KERNEL_NAME "avx2"
#include "stage_proc/models/hibari/kernels.inc"
