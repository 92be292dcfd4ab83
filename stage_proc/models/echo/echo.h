// EchoModel: a small generation model without weights. It runs through the same engine, edges and
// processes as the large models, so that pipelines can be tried and tested on any machine,
// deterministically.
//
//   family       takes             gives
//   echo         "text" (string)   text to the client and "text" to the next stage,
//   kPieceCharacters at a time;
//                                  a token id is the code point of a character
//   echo_audio   "text" (string)   "audio" (f32 [samples], a sine tone per character) and
//   "sample_rate" to the
//                                  next stage; each tensor is larger than an inline one
//   echo_sink    "audio" (f32 [n]) audio to the client
//
// Parameters of a request (header.extra), for tests of timing, cancelling and crashes:
//   echo_delay_ms  0..60000: sleep before each step
//   echo_repeat    1..1000000: family echo gives its whole input this many times
#pragma once

#include <memory>

#include "stage_proc/models/generation_model.h"

namespace omnistage::models {

constexpr uint32_t kEchoSampleRate = 24000;
constexpr int32_t kEchoPieceCharacters = 8;         // per step
constexpr int32_t kEchoSamplesPerCharacter = 1200;  // 50 ms, 4800 bytes
constexpr int32_t kEchoDelayMsMax = 60000;
constexpr int32_t kEchoRepeatMax = 1000000;

// INVALID for a family that is not in the table above.
Result<std::unique_ptr<GenerationModel>> make_echo_model(const GenerationModelOptions& options);

}  // namespace omnistage::models
