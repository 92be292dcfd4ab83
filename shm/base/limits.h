// Every bound of the system with its reason. Options above these are refused by name.
#pragma once

#include <cstdint>

namespace omnistage::limits {

constexpr uint32_t kStagesMax = 16;               // stages x replicas of one pipeline
constexpr uint32_t kClientsMax = 64;              // attached clients of one supervisor
constexpr uint32_t kRequestsPerClientMax = 1024;  // requests in flight of one client
constexpr uint32_t kRecordBytesMax =
    64 * 1024;  // one ring record; larger data goes through the pool
constexpr uint32_t kInlineTensorBytesMax = 4096;         // larger tensors are leased from the pool
constexpr uint32_t kControlMessageBytesMax = 64 * 1024;  // one message on a control socket
constexpr uint64_t kSlabBytesMax = 16ull << 20;          // one memfd of the tensor pool
constexpr uint32_t kTextInputBytesMax =
    48 * 1024;  // typed text input of one request, fits a record
constexpr uint32_t kTensorDimsMax = 8;
constexpr uint32_t kStopStringsMax = 16;
constexpr uint32_t kStopStringBytesMax = 256;
constexpr uint32_t kNameBytesMax = 64;         // stage, model, voice names
constexpr uint32_t kDefaultCreditOutputs = 8;  // outputs under way per request and output kind
constexpr uint64_t kDefaultCreditBytes = 1u << 20;
constexpr uint32_t kAbortTombstones = 8192;  // remembered aborted requests per stage

}  // namespace omnistage::limits
