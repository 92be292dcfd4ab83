/* Layout of every public struct as released in 0.1. Never edited: a later release adds a file of
 * its own, and its structs only grow at the end. 64-bit platforms. */
#include <stddef.h>

#include "omnistage/omnistage.h"

#define SIZE(type, bytes) \
  _Static_assert(sizeof(type) >= (bytes), #type " became smaller than in 0.1")
#define FIELD(type, field, offset, bytes)                                                   \
  _Static_assert(offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (bytes), \
                 #type "." #field " moved since 0.1")

SIZE(oms_error, 256);
FIELD(oms_error, struct_size, 0, 4);
FIELD(oms_error, code, 4, 4);
FIELD(oms_error, sys_errno, 8, 4);
FIELD(oms_error, stage_index, 12, 4);
FIELD(oms_error, message, 16, 240);

SIZE(oms_pipeline_options, 48);
FIELD(oms_pipeline_options, struct_size, 0, 4);
FIELD(oms_pipeline_options, max_inflight, 4, 4);
FIELD(oms_pipeline_options, config_path, 8, 8);
FIELD(oms_pipeline_options, bin_dir, 16, 8);
FIELD(oms_pipeline_options, max_borrowed_bytes, 24, 8);
FIELD(oms_pipeline_options, connect_timeout_ns, 32, 8);
FIELD(oms_pipeline_options, close_timeout_ns, 40, 8);

SIZE(oms_stage_info, 344);
FIELD(oms_stage_info, struct_size, 0, 4);
FIELD(oms_stage_info, state, 4, 4);
FIELD(oms_stage_info, pid, 8, 4);
FIELD(oms_stage_info, epoch, 12, 4);
FIELD(oms_stage_info, restarts, 16, 4);
FIELD(oms_stage_info, entry, 20, 4);
FIELD(oms_stage_info, final_output, 24, 4);
FIELD(oms_stage_info, reserved0, 28, 4);
FIELD(oms_stage_info, name, 32, 72);
FIELD(oms_stage_info, message, 104, 240);

SIZE(oms_stats, 72);
FIELD(oms_stats, struct_size, 0, 4);
FIELD(oms_stats, inflight, 4, 4);
FIELD(oms_stats, submitted, 8, 8);
FIELD(oms_stats, finished, 16, 8);
FIELD(oms_stats, cancelled, 24, 8);
FIELD(oms_stats, failed, 32, 8);
FIELD(oms_stats, outputs, 40, 8);
FIELD(oms_stats, late_records, 48, 8);
FIELD(oms_stats, borrowed_bytes, 56, 8);
FIELD(oms_stats, copied_bytes, 64, 8);

SIZE(oms_queue_options, 8);
FIELD(oms_queue_options, struct_size, 0, 4);
FIELD(oms_queue_options, capacity, 4, 4);

SIZE(oms_input, 24);
FIELD(oms_input, struct_size, 0, 4);
FIELD(oms_input, kind, 4, 4);
FIELD(oms_input, data, 8, 8);
FIELD(oms_input, bytes, 16, 8);

SIZE(oms_param, 24);
FIELD(oms_param, struct_size, 0, 4);
FIELD(oms_param, reserved0, 4, 4);
FIELD(oms_param, key, 8, 8);
FIELD(oms_param, value, 16, 8);

SIZE(oms_sampling, 120);
FIELD(oms_sampling, struct_size, 0, 4);
FIELD(oms_sampling, reserved0, 4, 4);
FIELD(oms_sampling, given, 8, 8);
FIELD(oms_sampling, temperature, 16, 8);
FIELD(oms_sampling, top_p, 24, 8);
FIELD(oms_sampling, min_p, 32, 8);
FIELD(oms_sampling, repetition_penalty, 40, 8);
FIELD(oms_sampling, presence_penalty, 48, 8);
FIELD(oms_sampling, frequency_penalty, 56, 8);
FIELD(oms_sampling, seed, 64, 8);
FIELD(oms_sampling, top_k, 72, 4);
FIELD(oms_sampling, max_tokens, 76, 4);
FIELD(oms_sampling, min_tokens, 80, 4);
FIELD(oms_sampling, ignore_eos, 84, 4);
FIELD(oms_sampling, include_stop, 88, 4);
FIELD(oms_sampling, stop_count, 92, 4);
FIELD(oms_sampling, stop, 96, 8);
FIELD(oms_sampling, stop_token_ids, 104, 8);
FIELD(oms_sampling, stop_token_id_count, 112, 4);
FIELD(oms_sampling, reserved1, 116, 4);

SIZE(oms_request, 64);
FIELD(oms_request, struct_size, 0, 4);
FIELD(oms_request, outputs_wanted, 4, 4);
FIELD(oms_request, inputs, 8, 8);
FIELD(oms_request, params, 16, 8);
FIELD(oms_request, sampling, 24, 8);
FIELD(oms_request, input_count, 32, 4);
FIELD(oms_request, param_count, 36, 4);
FIELD(oms_request, deadline_ns, 40, 8);
FIELD(oms_request, user_data, 48, 8);
FIELD(oms_request, priority, 56, 4);
FIELD(oms_request, output_credit, 60, 4);

SIZE(oms_output_info, 104);
FIELD(oms_output_info, struct_size, 0, 4);
FIELD(oms_output_info, kind, 4, 4);
FIELD(oms_output_info, request, 8, 8);
FIELD(oms_output_info, user_data, 16, 8);
FIELD(oms_output_info, sequence, 24, 8);
FIELD(oms_output_info, position, 32, 8);
FIELD(oms_output_info, flags, 40, 4);
FIELD(oms_output_info, stage_index, 44, 4);
FIELD(oms_output_info, status, 48, 4);
FIELD(oms_output_info, finish_reason, 52, 4);
FIELD(oms_output_info, sample_rate, 56, 4);
FIELD(oms_output_info, tensor_count, 60, 4);
FIELD(oms_output_info, t_submit_ns, 64, 8);
FIELD(oms_output_info, t_ready_ns, 72, 8);
FIELD(oms_output_info, audio_samples, 80, 8);
FIELD(oms_output_info, prompt_tokens, 88, 4);
FIELD(oms_output_info, output_tokens, 92, 4);
FIELD(oms_output_info, seed, 96, 8);

SIZE(oms_tensor_view, 56);
FIELD(oms_tensor_view, struct_size, 0, 4);
FIELD(oms_tensor_view, device_type, 4, 4);
FIELD(oms_tensor_view, device_id, 8, 4);
FIELD(oms_tensor_view, dtype_code, 12, 1);
FIELD(oms_tensor_view, dtype_bits, 13, 1);
FIELD(oms_tensor_view, dtype_lanes, 14, 2);
FIELD(oms_tensor_view, ndim, 16, 4);
FIELD(oms_tensor_view, reserved0, 20, 4);
FIELD(oms_tensor_view, shape, 24, 8);
FIELD(oms_tensor_view, strides, 32, 8);
FIELD(oms_tensor_view, data, 40, 8);
FIELD(oms_tensor_view, bytes, 48, 8);

#define VALUE(name, number) _Static_assert((name) == (number), #name " was renumbered since 0.1")

VALUE(OMS_OK, 0);
VALUE(OMS_AGAIN, 1);
VALUE(OMS_TIMEOUT, 2);
VALUE(OMS_WOKEN, 3);
VALUE(OMS_E_INVALID, -1);
VALUE(OMS_E_NO_MEMORY, -2);
VALUE(OMS_E_NOT_FOUND, -3);
VALUE(OMS_E_BUSY, -4);
VALUE(OMS_E_FULL, -5);
VALUE(OMS_E_CLOSED, -6);
VALUE(OMS_E_CANCELLED, -7);
VALUE(OMS_E_DEADLINE, -8);
VALUE(OMS_E_STAGE_DIED, -9);
VALUE(OMS_E_PROTOCOL, -10);
VALUE(OMS_E_UNSUPPORTED, -11);
VALUE(OMS_E_SYSTEM, -12);
VALUE(OMS_E_FORKED, -13);
VALUE(OMS_E_INTERNAL, -14);
VALUE(OMS_WANT_TEXT, 1);
VALUE(OMS_WANT_AUDIO, 2);
VALUE(OMS_WANT_TENSOR, 4);
VALUE(OMS_INPUT_TEXT, 1);
VALUE(OMS_INPUT_SYSTEM_TEXT, 2);
VALUE(OMS_INPUT_TOKEN_IDS, 3);
VALUE(OMS_INPUT_AUDIO, 4);
VALUE(OMS_INPUT_IMAGE, 5);
VALUE(OMS_INPUT_TENSOR, 6);
VALUE(OMS_GIVEN_TEMPERATURE, 1);
VALUE(OMS_GIVEN_TOP_K, 2);
VALUE(OMS_GIVEN_TOP_P, 4);
VALUE(OMS_GIVEN_MIN_P, 8);
VALUE(OMS_GIVEN_REPETITION_PENALTY, 16);
VALUE(OMS_GIVEN_PRESENCE_PENALTY, 32);
VALUE(OMS_GIVEN_FREQUENCY_PENALTY, 64);
VALUE(OMS_GIVEN_SEED, 128);
VALUE(OMS_GIVEN_MAX_TOKENS, 256);
VALUE(OMS_GIVEN_MIN_TOKENS, 512);
VALUE(OMS_GIVEN_IGNORE_EOS, 1024);
VALUE(OMS_GIVEN_STOP, 2048);
VALUE(OMS_GIVEN_STOP_TOKEN_IDS, 4096);
VALUE(OMS_GIVEN_INCLUDE_STOP, 8192);
VALUE(OMS_KIND_TEXT, 0);
VALUE(OMS_KIND_AUDIO, 1);
VALUE(OMS_KIND_TENSOR, 2);
VALUE(OMS_KIND_EVENT, 3);
VALUE(OMS_OUTPUT_FINAL, 1);
VALUE(OMS_OUTPUT_FIRST, 2);
VALUE(OMS_OUTPUT_COPIED, 4);
VALUE(OMS_FINISH_NONE, 0);
VALUE(OMS_FINISH_STOP, 1);
VALUE(OMS_FINISH_LENGTH, 2);
VALUE(OMS_FINISH_ABORT, 3);
VALUE(OMS_FINISH_ERROR, 4);
VALUE(OMS_STAGE_STARTING, 0);
VALUE(OMS_STAGE_READY, 1);
VALUE(OMS_STAGE_DEAD, 2);
VALUE(OMS_STAGE_FAILED, 3);
VALUE(OMS_STAGE_STOPPED, 4);
VALUE(OMS_LOG_TRACE, 0);
VALUE(OMS_LOG_DEBUG, 1);
VALUE(OMS_LOG_INFO, 2);
VALUE(OMS_LOG_WARN, 3);
VALUE(OMS_LOG_ERROR, 4);
VALUE(OMS_LOG_OFF, 5);
VALUE(OMS_DEVICE_CPU, 1);
VALUE(OMS_DTYPE_INT, 0);
VALUE(OMS_DTYPE_UINT, 1);
VALUE(OMS_DTYPE_FLOAT, 2);
VALUE(OMS_DTYPE_BFLOAT, 4);
VALUE(OMS_DTYPE_BOOL, 6);

/* A C file needs something besides asserts. */
typedef int layout_v0_1_checked;
