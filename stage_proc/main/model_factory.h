// Makes the engine core of a stage from its configuration: loads the model and chooses the engine.
// Families without torch are linked in; the others come from
// lib/omnistage/libomnistage_model_<group>.so beside this program's folder.
#pragma once

#include <memory>

#include "shm/base/host_tensor.h"
#include "stage_proc/config/deploy_config.h"
#include "stage_proc/engine/stage_core.h"

namespace omnistage {

// Takes as long as loading takes. `allocator` must outlive the core. Errors name file, family or
// field.
Result<std::unique_ptr<engine::StageCore>> make_core(const config::DeployConfig& config,
                                                     const config::StageConfig& stage,
                                                     TensorAllocator& allocator);

// One short request through a fresh core of an entry stage with a language model, so that the first
// user does not pay for cold caches and page faults. Other stages need nothing here.
Status warm_up(const config::StageConfig& stage, engine::StageCore& core);

}  // namespace omnistage
