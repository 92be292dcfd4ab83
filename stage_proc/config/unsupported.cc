#include "stage_proc/config/unsupported.h"

#include <array>

namespace omnistage::config {
namespace {

constexpr uint8_t kTop = 1u << static_cast<int>(Scope::kTop);
constexpr uint8_t kStage = 1u << static_cast<int>(Scope::kStage);
constexpr uint8_t kSampling = 1u << static_cast<int>(Scope::kSampling);
constexpr uint8_t kExtra = 1u << static_cast<int>(Scope::kConnectorExtra);

struct Refused {
  std::string_view key;
  uint8_t scopes;
  std::string_view off;  // "|"-separated scalars that mean "not used"
  std::string_view reason;
};

constexpr std::string_view kParallel =
    "a stage is one process without tensor or pipeline parallelism";
constexpr std::string_view kLora = "LoRA adapters are not part of this release";
constexpr std::string_view kDiffusion = "diffusion stages are not part of this release";
constexpr std::string_view kDevice = "stages of this release compute on the CPU";
constexpr std::string_view kLoading = "the model family decides how its files are loaded";
constexpr std::string_view kDuplex = "full-duplex sessions are not part of this release";
constexpr std::string_view kSampler = "this sampling parameter is not part of this release";
constexpr std::string_view kPolling = "nothing waits by polling, so the key would have no effect";
constexpr std::string_view kChunking = "this rule for chunk sizes is not part of this release";

constexpr auto kRefused = std::to_array<Refused>({
    {"stage_args", kTop, "", "this is the old schema, write the keys into `stages`"},
    {"session_mode", kTop | kStage, "turn", kDuplex},
    {"duplex_session", kTop, "", kDuplex},
    {"model_runner", kTop, "v1", "there is one model runner"},
    {"active_stream_window", kTop | kStage, "0", "use max_num_seqs of the stage"},
    {"trust_remote_code", kTop | kStage, "false", "no code is ever loaded from a model folder"},
    {"distributed_executor_backend", kTop | kStage, "", kParallel},
    {"dtype", kTop | kStage, "auto", kLoading},
    {"quantization", kTop | kStage, "", kLoading},
    {"enable_prefix_caching", kTop | kStage, "false",
     "the prefix cache is not part of this release"},
    {"enable_chunked_prefill", kTop | kStage, "true", "long prompts are always computed in pieces"},
    {"data_parallel_size", kTop | kStage, "1", kParallel},
    {"pipeline_parallel_size", kTop | kStage, "1", kParallel},
    {"custom_voice_dir", kTop | kStage, "", "own voices are not part of this release"},
    {"devices", kStage, "cpu", kDevice},
    {"tensor_parallel_size", kStage, "1", kParallel},
    {"enable_expert_parallel", kStage, "false", kParallel},
    {"gpu_memory_utilization", kStage, "", kDevice},
    {"enforce_eager", kStage, "true|false", kDevice},
    {"async_scheduling", kStage, "false", "the scheduler of this release is synchronous"},
    {"disable_hybrid_kv_cache_manager", kStage, "true|false", kDevice},
    {"mm_processor_cache_gb", kStage, "0", "media inputs are not part of this release"},
    {"mamba_ssm_cache_dtype", kStage, "auto", kLoading},
    {"compilation_config", kStage, "", kDevice},
    {"profiler_config", kStage, "", "use the stage's own counters"},
    {"skip_mm_profiling", kStage, "true|false", "there is no profiling run"},
    {"enable_flashinfer_autotune", kStage, "false", kDevice},
    {"config_format", kStage, "auto", kLoading},
    {"load_format", kStage, "auto", kLoading},
    {"tokenizer_mode", kStage, "auto", kLoading},
    {"default_pooling_params", kStage, "", "pooling is not part of this release"},
    {"subtalker_sampling_params", kStage, "", "no model family here has a code predictor"},
    {"silence_ban_frames", kStage, "0", "no model family here has codec tokens"},
    {"tts_max_instructions_length", kStage, "", "instructions are not part of this release"},
    {"lora_path", kStage, "", kLora},
    {"lora_backend", kStage, "", kLora},
    {"lora_scale", kStage, "", kLora},
    {"ulysses_degree", kStage, "1", kDiffusion},
    {"ulysses_mode", kStage, "", kDiffusion},
    {"ulysses_a2a_permute", kStage, "", kDiffusion},
    {"ring_degree", kStage, "1", kDiffusion},
    {"allgather_degree", kStage, "1", kDiffusion},
    {"sequence_parallel_size", kStage, "1", kDiffusion},
    {"cfg_parallel_size", kStage, "1", kDiffusion},
    {"vae_patch_parallel_size", kStage, "1", kDiffusion},
    {"vae_parallel_mode", kStage, "", kDiffusion},
    {"text_encoder_tp_size", kStage, "1", kDiffusion},
    {"use_hsdp", kStage, "false", kDiffusion},
    {"hsdp_shard_size", kStage, "", kDiffusion},
    {"hsdp_replicate_size", kStage, "", kDiffusion},
    {"model_class_name", kStage, "", kDiffusion},
    {"diffusion_load_format", kStage, "", kDiffusion},
    {"diffusers_load_kwargs", kStage, "", kDiffusion},
    {"diffusers_call_kwargs", kStage, "", kDiffusion},
    {"diffusion_quantization_config", kStage, "", kDiffusion},
    {"diffusion_attention_backend", kStage, "", kDiffusion},
    {"fastvideo_vsa_topk", kStage, "", kDiffusion},
    {"diffusion_attention_config", kStage, "", kDiffusion},
    {"diffusion_compile_granularity", kStage, "", kDiffusion},
    {"diffusion_compile_dynamic", kStage, "", kDiffusion},
    {"fa_deterministic", kStage, "", kDiffusion},
    {"cache_backend", kStage, "", kDiffusion},
    {"cache_config", kStage, "", kDiffusion},
    {"video_output_transport", kStage, "", kDiffusion},
    {"enable_cache_dit_summary", kStage, "", kDiffusion},
    {"step_execution", kStage, "", kDiffusion},
    {"vae_use_slicing", kStage, "", kDiffusion},
    {"vae_use_tiling", kStage, "", kDiffusion},
    {"vae_fast_path", kStage, "", kDiffusion},
    {"boundary_ratio", kStage, "", kDiffusion},
    {"flow_shift", kStage, "", kDiffusion},
    {"diffusion_kv_cache_dtype", kStage, "", kDiffusion},
    {"diffusion_kv_cache_skip_steps", kStage, "", kDiffusion},
    {"diffusion_kv_cache_skip_layers", kStage, "", kDiffusion},
    {"auxiliary_text_encoder", kStage, "", kDiffusion},
    {"enable_multithread_weight_load", kStage, "false", kLoading},
    {"enable_broadcast_weight_load", kStage, "false", kLoading},
    {"num_weight_load_threads", kStage, "", kLoading},
    {"diffusion_offload_config", kStage, "", kDiffusion},
    {"enable_cpu_offload", kStage, "false", kDevice},
    {"enable_layerwise_offload", kStage, "false", kDevice},
    {"enable_distributed_layerwise_offload", kStage, "false", kDevice},
    {"dlo_use_allgather", kStage, "", kDevice},
    {"dlo_resident_layers", kStage, "", kDevice},
    {"host_weight_runtime_mode", kStage, "", kDevice},
    {"host_weight_runtime_root", kStage, "", kDevice},
    {"dlo_host_registration_limit_gib", kStage, "", kDevice},
    {"enable_diffusion_pipeline_profiler", kStage, "false", kDiffusion},
    {"max_generated_image_size", kStage, "", kDiffusion},
    {"n", kSampling, "1", "submit one request for each answer"},
    {"logit_bias", kSampling, "", kSampler},
    {"allowed_token_ids", kSampling, "", kSampler},
    {"bad_words", kSampling, "", kSampler},
    {"logprobs", kSampling, "", kSampler},
    {"prompt_logprobs", kSampling, "", kSampler},
    {"structured_outputs", kSampling, "", kSampler},
    {"guided_decoding", kSampling, "", kSampler},
    {"detokenize", kSampling, "true", kSampler},
    {"skip_special_tokens", kSampling, "true", kSampler},
    {"spaces_between_special_tokens", kSampling, "true", kSampler},
    {"output_kind", kSampling, "", "outputs are always sent as they are made"},
    {"extra_args", kSampling, "", kSampler},
    {"codec_streaming", kExtra, "true|false", kPolling},
    {"connector_get_sleep_s", kExtra, "", kPolling},
    {"connector_get_max_wait", kExtra, "", kPolling},
    {"connector_get_max_wait_first_chunk", kExtra, "", kPolling},
    {"shm_threshold_bytes", kExtra, "", kPolling},
    {"ref_code_context_frames", kExtra, "0", kChunking},
    {"codec_chunk_adaptive", kExtra, "false", kChunking},
    {"codec_chunk_min_frames", kExtra, "", kChunking},
    {"codec_chunk_safety_margin_ms", kExtra, "", kChunking},
    {"codec_chunk_ramp_divisor", kExtra, "", kChunking},
    {"codec_chunk_ramp_delta_min", kExtra, "", kChunking},
    {"codec_vocab_size", kExtra, "", kChunking},
    {"codec_pre_lookahead_frames", kExtra, "", kChunking},
    {"codec_max_chunk_frames", kExtra, "", kChunking},
    {"codec_stream_scale_factor", kExtra, "", kChunking},
    {"decode_batch_max_size", kExtra, "0", kChunking},
    {"decode_cudagraph_batch_sizes", kExtra, "", kDevice},
    {"decode_cudagraph_capture_sizes", kExtra, "", kDevice},
    {"decode_chunk_frames", kExtra, "", kChunking},
    {"decode_left_context_frames", kExtra, "", kChunking},
    {"zmq_port", kExtra, "", "there are no network connectors in this release"},
    {"host", kExtra, "", "there are no network connectors in this release"},
    {"sender_host", kExtra, "", "there are no network connectors in this release"},
    {"sender_zmq_port", kExtra, "", "there are no network connectors in this release"},
});

bool means_off(const Value& value, std::string_view off) {
  if (!value.is_scalar()) return false;
  std::string text = value.scalar;
  for (char& c : text) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
  while (!off.empty()) {
    const size_t bar = off.find('|');
    if (text == off.substr(0, bar)) return true;
    off = bar == std::string_view::npos ? std::string_view() : off.substr(bar + 1);
  }
  return false;
}

}  // namespace

void refuse_unsupported(Scope scope, Fields* fields) {
  const uint8_t bit = static_cast<uint8_t>(1u << static_cast<int>(scope));
  for (const Refused& item : kRefused) {
    if ((item.scopes & bit) == 0) continue;
    if (fields->value().find(item.key) == nullptr) continue;
    const Value* found = fields->get(item.key);
    if (found == nullptr || means_off(*found, item.off)) continue;
    fields->problems().add(*found,
                           describe(*found) + " is not supported: " + std::string(item.reason),
                           StatusCode::kUnsupported);
  }
}

}  // namespace omnistage::config
