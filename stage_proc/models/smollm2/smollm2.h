// SmolLM2 (llama architecture, Q4_1 layers, Q8_0 embedding) from a GGUF file, as an ArModel.
#pragma once

#include <memory>

#include "stage_proc/models/ar_model.h"

namespace omnistage::models::smollm2 {

// `options.model_dir` holds exactly one .gguf file, which is only needed during the call. Errors
// name the file and the key or tensor; kUnsupported for a forced kernel this CPU cannot run.
Result<std::unique_ptr<ArModel>> make_smollm2(const ArModelOptions& options);

}  // namespace omnistage::models::smollm2
