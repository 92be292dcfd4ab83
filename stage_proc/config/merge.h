// Inheritance: base_config files below, the platform section on top, both by the rules of the
// reference.
#pragma once

#include <string>

#include "stage_proc/config/value.h"

namespace omnistage::config {

// Follows `base_config` (relative to the file that names it, at most kBaseConfigDepthMax deep) and
// returns one document without that key. Rules, overlay over base: scalars, lists and `edges`
// replace; `connectors` merge recursively; `stages` merge by stage_id, key by key, where only env,
// default_sampling_params, engine_args and engine_extras merge inside; `platforms` merge by name,
// then like stages.
Result<Value> resolve_base_config(Value document);

// Lays platforms.<name>.stages over `stages` and removes `platforms`. Only stages that exist are
// touched; env, default_sampling_params and engine_extras merge one level deep, other keys replace.
Result<Value> apply_platform(Value document, const std::string& platform);

// Folds the nested spellings of one stage into flat keys: engine_args (maps recursively), then
// engine_extras, then runtime.{devices, num_replicas, env}; later ones win.
Result<Value> flatten_stage(Value stage);

}  // namespace omnistage::config
