// GenerationModel: what the generation engine needs of a non-autoregressive stage (text to frames,
// frames to audio). A stream is the per-request state; it keeps its slot until the request ends.
// One thread at a time.
//
// Plug-in form: a model family that links libtorch lives in
// lib/omnistage/libomnistage_model_<group>.so (hibari_* -> libomnistage_model_hibari.so) and
// exports the function described at kModelPluginSymbol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shm/base/host_tensor.h"
#include "shm/base/status.h"
#include "stage_proc/engine/request.h"

namespace omnistage::models {

// What one step of a stream produced.
struct StreamStep {
  std::vector<engine::Payload> chunks;  // for the downstream stage, in order
  std::vector<engine::StageOutput>
      outputs;        // for the client; key and position are filled in by the engine
  bool more = false;  // work remains that needs no further input
};

class GenerationStream {
 public:
  virtual ~GenerationStream() = default;
  // Takes one upstream payload; `last` marks the end of input (the payload may then be empty).
  // Cheap: work happens in step(). An error ends the request with that status.
  virtual Status push(const engine::Payload& payload, bool last) = 0;
  // One bounded piece of work (about one chunk of output). Results are allocated from `allocator`.
  // After `last` was pushed and step() returned more == false the stream is finished.
  virtual Result<StreamStep> step(TensorAllocator& allocator) = 0;
};

struct GenerationModelInfo {
  std::string family;
  uint32_t sample_rate = 0;  // audio producers
};

class GenerationModel {
 public:
  virtual ~GenerationModel() = default;
  virtual const GenerationModelInfo& info() const = 0;
  // Checks the parameters it reads from the header (error names field and limit) and makes the
  // request's state.
  virtual Result<std::unique_ptr<GenerationStream>> open(const engine::RequestHeader& header) = 0;
};

struct GenerationModelOptions {
  std::string family;     // "hibari_talker", "hibari_code2wav", "echo"
  std::string model_dir;  // folder with the weights
  int32_t threads = 1;
  int32_t chunk_frames = 64;          // steady chunk size, frames
  int32_t initial_chunk_frames = 32;  // first chunk of a request
};

// A plug-in exports one function of this type under this name. The host and its plug-ins are built
// together; `abi` guards against a stale file: the plug-in refuses a number other than its own.
constexpr uint32_t kModelPluginAbi = 1;
constexpr const char* kModelPluginSymbol = "omnistage_make_generation_model";
using MakeGenerationModel = Result<std::unique_ptr<GenerationModel>> (*)(
    uint32_t abi, const GenerationModelOptions& options);

}  // namespace omnistage::models
