#include "omnistage/omnistage.h"

int32_t take_version(void);
int32_t take_version(void) {
  return (int32_t)oms_abi_version();
}
