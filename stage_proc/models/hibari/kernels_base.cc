#define OMS_KERNEL_VARIANT base
#define OMS_KERNEL_NAME "base"
#include "stage_proc/models/hibari/kernels.inc"
