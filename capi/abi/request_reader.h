// Checks and copies an oms_request. Internal to capi/abi.
#pragma once

#include "capi/client/edge_codec.h"
#include "omnistage/omnistage.h"

namespace omnistage::capi {

// Bounds of one request, named in messages.
constexpr uint32_t kInputsMax = 16;
constexpr uint32_t kParamsMax = 32;
constexpr size_t kParamKeyBytesMax = 64;
constexpr size_t kParamValueBytesMax = 1024;
constexpr uint32_t kStopTokenIdsMax = 64;
constexpr uint32_t kCreditMax = 64;

// Errors: kInvalid and kUnsupported with the field's name.
Result<SubmitData> read_request(const oms_request* request);

}  // namespace omnistage::capi
