// Keys of the reference's deploy files that this release does not offer. They are known, so that a
// file written for the reference gets "not supported" and the reason instead of "unknown key"; the
// value that means "off" is accepted and has no effect.
#pragma once

#include "stage_proc/config/fields.h"

namespace omnistage::config {

enum class Scope : uint8_t { kTop, kStage, kSampling, kConnectorExtra };

// Reports each refused key that is present in `fields` and not switched off; marks all of them as
// known.
void refuse_unsupported(Scope scope, Fields* fields);

}  // namespace omnistage::config
