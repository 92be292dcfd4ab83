// DeployConfig: what a deploy YAML means after defaults, inheritance and checks. Plain values
// without pointers into the parser, so any thread may read a const DeployConfig. Loading reads
// files and the environment, makes no process and needs no torch; it may be called from any thread.
//
//   Result<DeployConfig> deploy = config::load_deploy("deploy/speak.yaml");
//   if (!deploy.ok()) ...  // "deploy/speak.yaml:12: stages[1].max_num_seqs: must be 1..256, got 0"
//
// The vocabulary is that of vLLM-Omni's deploy files: see docs/deploy.md for every key, its default
// and bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/limits.h"
#include "shm/base/status.h"

namespace omnistage::config {

// Bounds of the numeric keys; every one is named in the message when it is exceeded.
constexpr int kMaxNumSeqsMax = 256;
constexpr int kMaxBatchedTokensMax = 131072;
constexpr int kMaxModelLenMax = 131072;
constexpr int kThreadsMax = 64;
constexpr int kChunkFramesMax = 4096;
constexpr int kTimeoutSecondsMax = 86400;
constexpr int kRestartsMax = 1000;
constexpr size_t kDeployBytesMax = 1u << 20;  // one YAML file
constexpr int kBaseConfigDepthMax = 8;        // base_config of base_config of ...

enum class ExecutionType : uint8_t { kLlmAr, kLlmGeneration };

// "llm_ar" / "llm_generation".
const char* to_string(ExecutionType type);

// Sampling parameters that a request of this stage gets where it does not set them itself. Unset =
// the sampler's own default. Ranges are checked at load: temperature 0..2, top_k -1 or >= 0, top_p
// (0,1], ...
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int64_t> seed;
  std::optional<int> min_tokens;
  std::optional<int> max_tokens;
  std::optional<bool> ignore_eos;
  std::optional<bool> include_stop_str_in_output;
  std::vector<std::string> stop;
  std::vector<int> stop_token_ids;

  friend bool operator==(const SamplingDefaults&, const SamplingDefaults&) = default;
};

// How often a dead stage is started again: at most `max_restarts` within `window_s` seconds, the
// n-th try after backoff_ms * 2^(n-1) milliseconds (at most 30 s). max_restarts 0 = never.
struct RestartBudget {
  int max_restarts = 3;
  int window_s = 60;
  int backoff_ms = 200;

  friend bool operator==(const RestartBudget&, const RestartBudget&) = default;
};

// A named connector of `connectors:`. The only kind of this release is "SharedMemoryConnector"; the
// chunk sizes are in frames of the producing stage (hibari: 12.5 ms a frame).
struct ConnectorConfig {
  std::string name;             // key under `connectors:`, "auto" for the one made automatically
  std::string kind;             // "SharedMemoryConnector"
  int codec_chunk_frames = 25;  // steady chunk
  int initial_codec_chunk_frames = 0;  // first chunk; 0 = the steady size from the start
  int codec_left_context_frames = 0;   // already sent frames repeated for a stateless decoder
  std::vector<int> codec_chunk_ramp;   // size by chunk number, the last one stays; empty = no ramp
  uint64_t ring_bytes = 1u << 20;      // bytes of the record ring, a power of two

  friend bool operator==(const ConnectorConfig&, const ConnectorConfig&) = default;
};

struct EdgeConfig {
  int from = 0;  // stage_id
  int to = 0;    // stage_id
  ConnectorConfig connector;

  friend bool operator==(const EdgeConfig&, const EdgeConfig&) = default;
};

struct StageConfig {
  int stage_id = 0;
  std::string name;    // model_stage: "thinker", "talker", "code2wav"; unique within the pipeline
  std::string family;  // a name of topology.cc: "smollm2", "hibari_talker", ...
  std::string model;  // as written: a folder name in the model cache, an absolute path, or relative
                      // to the YAML
  std::string model_path;  // resolved: absolute file or folder that existed at load; empty if the
                           // family has none
  ExecutionType execution_type = ExecutionType::kLlmAr;
  std::vector<int> input_sources;  // stage_ids; empty = fed by the client
  bool final_output = false;       // its outputs go to the client
  std::string final_output_type;   // "text" or "audio"; empty without final_output
  bool async_chunk =
      true;  // takes its input chunk by chunk (false: whole, when the sources are done)

  int max_num_seqs = 8;                    // requests computed together
  int max_num_batched_tokens = 2048;       // token budget of one step
  int max_model_len = 2048;                // prompt + output of one request
  int num_replicas = 1;                    // more is refused in this release
  int threads = 0;                         // compute threads, 0 = all allowed cores
  std::map<std::string, std::string> env;  // added to the environment of the stage process
  SamplingDefaults default_sampling_params;
  RestartBudget restart;

  friend bool operator==(const StageConfig&, const StageConfig&) = default;
};

struct DeployConfig {
  std::string path;      // of the YAML file, as given
  std::string pipeline;  // registry name: "speak", "tts", "echo"
  bool async_chunk = true;
  int stage_init_timeout_s = 300;  // from spawn to ready, each stage
  int shutdown_timeout_s = 10;     // from "stop" to SIGKILL
  int input_wait_timeout_s =
      600;  // longest silence of a source before a request of the consumer fails; 0 = none
  std::vector<StageConfig> stages;  // ascending stage_id, at least one, a graph without cycles
  std::vector<EdgeConfig> edges;    // one per input source, in order of `to`, then of input_sources

  // nullptr if there is no such stage.
  const StageConfig* stage(int stage_id) const;
  const EdgeConfig* edge(int from, int to) const;
  // Stages that have `stage_id` among their sources, ascending.
  std::vector<int> consumers_of(int stage_id) const;
  // Entry stages: no sources, ascending.
  std::vector<int> entry_stages() const;

  friend bool operator==(const DeployConfig&, const DeployConfig&) = default;
};

struct LoadOptions {
  // Folder below which model names are looked up; empty = <cache>/models of default_cache_dir().
  std::string models_dir;
  // false: a missing model is not an error and model_path is what it would be (for tools that only
  // look).
  bool require_models = true;
  // Name of the section under `platforms:` that is laid over the stages; the CPU build says "cpu".
  std::string platform = "cpu";
};

// $OMNISTAGE_CACHE, else $XDG_CACHE_HOME/omnistage, else $HOME/.cache/omnistage.
std::string default_cache_dir();

// Reads, merges and checks. Errors are kInvalid (content; message starts with "file:line: key.path:
// "), kNotFound (the file or a model is missing; the message says what to do) or kUnsupported (a
// key that this release refuses by name). The first problem in file order is reported.
Result<DeployConfig> load_deploy(const std::string& path, const LoadOptions& options = {});

// The same from text; `path` is used for messages and relative names.
Result<DeployConfig> parse_deploy(const std::string& yaml, const std::string& path,
                                  const LoadOptions& options = {});

// The effective configuration as YAML with every default written out. parse_deploy(to_yaml(c))
// gives c again (model names resolved, base_config and platforms folded in).
std::string to_yaml(const DeployConfig& config);

// Names of the pipelines whose topology is built in, sorted.
std::vector<std::string> known_pipelines();

}  // namespace omnistage::config
