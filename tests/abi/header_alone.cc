#include "omnistage/omnistage.h"

static_assert(noexcept(oms_abi_version()), "C functions do not throw");
