/* omnistage.h - the C interface of Omnistage: start or join a pipeline, submit requests, take
 * streamed outputs. C11 and C++11 or later; needs no other header. Link with -lomnistage.
 *
 *   pipeline  a connection to one running pipeline (launched or attached)
 *   queue     where the outputs of the requests submitted on it arrive; has an event fd
 *   request   a number, never freed. oms_submit returning OMS_OK promises exactly one output with
 *             OMS_OUTPUT_FINAL, whatever happens to stages, supervisor, deadline or pipeline
 *   output    one piece of text, audio or the FINAL; yours until oms_output_release
 *
 * Rules for every function
 *   Status   0 = OK, above 0 = not an error, below 0 = error. `err` may be NULL; it is filled only
 *            on an error, and the caller sets err->struct_size before. Nothing has to be freed, and
 *            no state is kept per thread.
 *   Structs  begin with `struct_size`, set by the caller (or the _init function) to the sizeof it
 *            was compiled with. A library that knows more takes the missing tail as zero, which
 *            means the default. A caller that knows more must leave the unknown tail zero, else
 *            OMS_E_UNSUPPORTED. Reserved fields are zero.
 *   Strings  UTF-8. Pointers given to the library are only read during the call.
 *   Threads  any function from any thread, with two exceptions: one queue is polled or waited on by
 *            one thread at a time (a second one gets OMS_E_BUSY), and a handle must not be in use
 *            while it is closed or destroyed. A pipeline has two threads of its own; they block
 *            every signal.
 *   Process  no signal handlers, no SIGCHLD; all descriptors are close-on-exec. After fork() each
 *            call in the child gives OMS_E_FORKED, and closing or destroying does nothing there.
 *   Times    durations in nanoseconds; absolute times are CLOCK_MONOTONIC nanoseconds.
 *   Enums    values are never renumbered; new ones may appear, so treat unknown ones as "unknown".
 */
#ifndef OMNISTAGE_OMNISTAGE_H
#define OMNISTAGE_OMNISTAGE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OMS_API __attribute__((visibility("default")))
#define OMS_MUST_CHECK __attribute__((warn_unused_result))
#else
#define OMS_API
#define OMS_MUST_CHECK
#endif
#ifdef __cplusplus
#define OMS_NOEXCEPT noexcept
extern "C" {
#else
#define OMS_NOEXCEPT
#endif

/* Version of this header. oms_abi_version() tells the library's. */
#define OMS_ABI_MAJOR 0
#define OMS_ABI_MINOR 1
#define OMS_ABI_VERSION (((uint32_t)OMS_ABI_MAJOR << 16) | (uint32_t)OMS_ABI_MINOR)

/* ---- status codes ---- */

typedef int32_t oms_status;

/* X(name, number, text). The one list behind the constants, oms_status_name and oms_status_text. */
#define OMS_STATUS_LIST(X)                                                          \
  X(OMS_OK, 0, "success")                                                           \
  X(OMS_AGAIN, 1, "nothing available now")                                          \
  X(OMS_TIMEOUT, 2, "the time given for waiting is over")                           \
  X(OMS_WOKEN, 3, "woken by oms_queue_wake")                                        \
  X(OMS_E_INVALID, -1, "an argument is invalid")                                    \
  X(OMS_E_NO_MEMORY, -2, "out of memory, or a memory limit would be exceeded")      \
  X(OMS_E_NOT_FOUND, -3, "no such thing: file, stage, tensor or request")           \
  X(OMS_E_BUSY, -4, "in use, or not ready yet; trying again later can help")        \
  X(OMS_E_FULL, -5, "a limit on things in flight is reached; take outputs first")   \
  X(OMS_E_CLOSED, -6, "the pipeline or queue is closed, or its supervisor is gone") \
  X(OMS_E_CANCELLED, -7, "the request was cancelled")                               \
  X(OMS_E_DEADLINE, -8, "the request's deadline passed")                            \
  X(OMS_E_STAGE_DIED, -9, "a stage process died")                                   \
  X(OMS_E_PROTOCOL, -10, "a peer broke the protocol")                               \
  X(OMS_E_UNSUPPORTED, -11, "not supported by this library or this pipeline")       \
  X(OMS_E_SYSTEM, -12, "a system call failed")                                      \
  X(OMS_E_FORKED, -13, "the handle belongs to the parent process")                  \
  X(OMS_E_INTERNAL, -14, "internal error")

#define OMS_STATUS_CONSTANT_(name, number, text) name = (number),
enum { OMS_STATUS_LIST(OMS_STATUS_CONSTANT_) OMS_STATUS_FORCE_INT_ = 0x7fffffff };
#undef OMS_STATUS_CONSTANT_

/* What went wrong, in memory of the caller. `message` is one line, NUL-terminated, cut at a
 * character border. */
typedef struct oms_error {
  uint32_t struct_size;
  oms_status code;
  int32_t sys_errno;   /* errno of the failed system call, or 0 */
  int32_t stage_index; /* the stage it is about, or -1 */
  char message[240];
} oms_error;

/* ---- handles ---- */

typedef struct oms_pipeline oms_pipeline;
typedef struct oms_queue oms_queue;
typedef struct oms_output oms_output;
/* Unique within its pipeline, never 0, never reused. */
typedef uint64_t oms_request_id;

/* ---- constants ---- */

/* What a request can produce: bits of oms_request.outputs_wanted and oms_stage_info.final_output.
 */
enum { OMS_WANT_TEXT = 1, OMS_WANT_AUDIO = 2, OMS_WANT_TENSOR = 4 };

/* oms_input.kind. Kinds that the entry stage of a pipeline cannot take are refused with
 * OMS_E_UNSUPPORTED. */
enum {
  OMS_INPUT_TEXT = 1,        /* the user's text; UTF-8 */
  OMS_INPUT_SYSTEM_TEXT = 2, /* instructions in front of it; UTF-8 */
  OMS_INPUT_TOKEN_IDS = 3,   /* raw prompt: int32_t token ids, no chat template is applied */
  OMS_INPUT_AUDIO = 4,       /* no pipeline of this release takes it */
  OMS_INPUT_IMAGE = 5,       /* no pipeline of this release takes it */
  OMS_INPUT_TENSOR = 6       /* no pipeline of this release takes it */
};

/* Bits of oms_sampling.given: which fields the caller set. The others get the stage's configured
 * defaults. */
enum {
  OMS_GIVEN_TEMPERATURE = 1 << 0,
  OMS_GIVEN_TOP_K = 1 << 1,
  OMS_GIVEN_TOP_P = 1 << 2,
  OMS_GIVEN_MIN_P = 1 << 3,
  OMS_GIVEN_REPETITION_PENALTY = 1 << 4,
  OMS_GIVEN_PRESENCE_PENALTY = 1 << 5,
  OMS_GIVEN_FREQUENCY_PENALTY = 1 << 6,
  OMS_GIVEN_SEED = 1 << 7,
  OMS_GIVEN_MAX_TOKENS = 1 << 8,
  OMS_GIVEN_MIN_TOKENS = 1 << 9,
  OMS_GIVEN_IGNORE_EOS = 1 << 10,
  OMS_GIVEN_STOP = 1 << 11,
  OMS_GIVEN_STOP_TOKEN_IDS = 1 << 12,
  OMS_GIVEN_INCLUDE_STOP = 1 << 13
};

/* oms_output_info.kind */
enum { OMS_KIND_TEXT = 0, OMS_KIND_AUDIO = 1, OMS_KIND_TENSOR = 2, OMS_KIND_EVENT = 3 };

/* oms_output_info.flags */
enum {
  /* kind EVENT: the request is over, nothing follows; status says how it went */
  OMS_OUTPUT_FINAL = 1,
  OMS_OUTPUT_FIRST = 2, /* the first output of its kind */
  OMS_OUTPUT_COPIED = 4 /* its tensor was copied out because max_borrowed_bytes was reached */
};

/* oms_output_info.finish_reason, meaningful on the FINAL */
enum {
  OMS_FINISH_NONE = 0,
  OMS_FINISH_STOP = 1,
  OMS_FINISH_LENGTH = 2,
  OMS_FINISH_ABORT = 3,
  OMS_FINISH_ERROR = 4
};

/* oms_stage_info.state */
enum {
  OMS_STAGE_STARTING = 0,
  OMS_STAGE_READY = 1,
  OMS_STAGE_DEAD = 2,   /* died; will be started again */
  OMS_STAGE_FAILED = 3, /* will not be started again */
  OMS_STAGE_STOPPED = 4
};

/* Levels of the log callback. */
enum {
  OMS_LOG_TRACE = 0,
  OMS_LOG_DEBUG = 1,
  OMS_LOG_INFO = 2,
  OMS_LOG_WARN = 3,
  OMS_LOG_ERROR = 4,
  OMS_LOG_OFF = 5
};

/* DLPack numbers used in oms_tensor_view. */
enum { OMS_DEVICE_CPU = 1 };
enum {
  OMS_DTYPE_INT = 0,
  OMS_DTYPE_UINT = 1,
  OMS_DTYPE_FLOAT = 2,
  OMS_DTYPE_BFLOAT = 4,
  OMS_DTYPE_BOOL = 6
};

/* ---- structs ---- */

typedef struct oms_pipeline_options {
  uint32_t struct_size;
  /* requests without FINAL; 0 = 256, at most 1024; above: OMS_E_FULL at submit */
  uint32_t max_inflight;
  const char* config_path; /* launch: the deploy file; required there, ignored by attach */
  /* launch: folder of omnistage-supervisor; NULL = search, see oms_pipeline_launch */
  const char* bin_dir;
  /* pool memory lent to outputs at a time, beyond it they are copies; 0 = 64 MiB */
  uint64_t max_borrowed_bytes;
  int64_t connect_timeout_ns; /* for the supervisor's answer; 0 = 30 s */
  int64_t close_timeout_ns;   /* launch: for an orderly end before SIGKILL; 0 = 15 s */
} oms_pipeline_options;

typedef struct oms_stage_info {
  uint32_t struct_size;
  uint32_t state;        /* OMS_STAGE_* */
  int32_t pid;           /* 0 = no process now */
  uint32_t epoch;        /* counts incarnations */
  uint32_t restarts;     /* since the pipeline was started */
  uint32_t entry;        /* 1 = takes requests */
  uint32_t final_output; /* OMS_WANT_* bits this stage sends to clients; 0 = none */
  uint32_t reserved0;
  char name[72];
  char message[240]; /* why it died or failed, else empty */
} oms_stage_info;

typedef struct oms_stats {
  uint32_t struct_size;
  uint32_t inflight; /* requests without FINAL now */
  uint64_t submitted;
  uint64_t finished;       /* FINALs with OMS_OK */
  uint64_t cancelled;      /* FINALs with OMS_E_CANCELLED */
  uint64_t failed;         /* FINALs with any other status */
  uint64_t outputs;        /* delivered to queues, FINALs included */
  uint64_t late_records;   /* came after the FINAL of their request; dropped */
  uint64_t borrowed_bytes; /* pool memory lent to outputs now */
  uint64_t copied_bytes;   /* copied out because of max_borrowed_bytes, in total */
} oms_stats;

typedef struct oms_queue_options {
  uint32_t struct_size;
  /* requests whose FINAL was not taken yet; 0 = 256, at most 1024; above: OMS_E_FULL at submit */
  uint32_t capacity;
} oms_queue_options;

/* One typed input. In an array every element has the same struct_size, which is the distance
 * between them. */
typedef struct oms_input {
  uint32_t struct_size;
  uint32_t kind; /* OMS_INPUT_* */
  const void* data;
  uint64_t bytes; /* all inputs of a request together: at most 48 KiB */
} oms_input;

/* A parameter of some stage by name ("voice", "speed"); the stage that knows it checks it. */
typedef struct oms_param {
  uint32_t struct_size;
  uint32_t reserved0;
  const char* key;   /* NUL-terminated, 1..64 bytes */
  const char* value; /* NUL-terminated, at most 1024 bytes */
} oms_param;

/* Sampling of the text-generating stage. A field counts only if its bit in `given` is set. The
 * stage checks the ranges: a value outside gives a FINAL with OMS_E_INVALID that names the field.
 */
typedef struct oms_sampling {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t given;            /* OMS_GIVEN_* */
  double temperature;        /* 0..2; 0 = always the most likely token */
  double top_p;              /* above 0, at most 1 */
  double min_p;              /* 0..1 */
  double repetition_penalty; /* above 0 */
  double presence_penalty;   /* -2..2 */
  double frequency_penalty;  /* -2..2 */
  uint64_t seed;             /* not given: drawn at submit */
  int32_t top_k;             /* 0 or -1 = off */
  int32_t max_tokens;        /* at least 1 */
  int32_t min_tokens;        /* 0..max_tokens */
  int32_t ignore_eos;        /* 0 or 1 */
  int32_t include_stop;      /* 0 or 1: the stop string stays in the text */
  uint32_t stop_count;       /* at most 16 */
  const char* const* stop;   /* NUL-terminated, 1..256 bytes each */
  const int32_t* stop_token_ids;
  uint32_t stop_token_id_count; /* at most 64 */
  uint32_t reserved1;
} oms_sampling;

typedef struct oms_request {
  uint32_t struct_size;
  uint32_t outputs_wanted; /* OMS_WANT_* bits; 0 = all that the pipeline can make */
  const oms_input* inputs;
  const oms_param* params;
  const oms_sampling* sampling; /* NULL = defaults of the stage, seed drawn at submit */
  uint32_t input_count;         /* 1..16 */
  uint32_t param_count;         /* at most 32 */
  int64_t deadline_ns;          /* from submit on; 0 = none. Past it the FINAL has OMS_E_DEADLINE */
  uint64_t user_data;           /* comes back in each output */
  int32_t priority;             /* smaller is sooner; 0 = normal */
  uint32_t output_credit; /* outputs per kind that may wait for oms_queue_poll; 0 = 8, at most 64 */
} oms_request;

typedef struct oms_output_info {
  uint32_t struct_size;
  uint32_t kind; /* OMS_KIND_* */
  oms_request_id request;
  uint64_t user_data;
  uint64_t sequence;      /* 0, 1, 2, ... within the request; order per kind is the stage's order */
  uint64_t position;      /* text: tokens, audio: samples that came before this piece */
  uint32_t flags;         /* OMS_OUTPUT_* */
  int32_t stage_index;    /* the stage it comes from; on a FINAL the stage to blame, or -1 */
  oms_status status;      /* FINAL: how the request ended; else OMS_OK */
  uint32_t finish_reason; /* OMS_FINISH_* */
  uint32_t sample_rate;   /* audio: samples per second */
  uint32_t tensor_count;
  int64_t t_submit_ns;
  int64_t t_ready_ns;     /* when the library had it */
  uint64_t audio_samples; /* FINAL: usage, as far as the stages told it */
  uint32_t prompt_tokens;
  uint32_t output_tokens;
  uint64_t seed; /* the seed in use, given or drawn */
} oms_output_info;

/* Dense row-major tensor, read-only. Pointers live as long as the output. Numbers are DLPack's. */
typedef struct oms_tensor_view {
  uint32_t struct_size;
  int32_t device_type; /* OMS_DEVICE_CPU */
  int32_t device_id;
  uint8_t dtype_code; /* OMS_DTYPE_* */
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  int32_t ndim;
  int32_t reserved0;
  const int64_t* shape;
  const int64_t* strides; /* in elements */
  const void* data;
  uint64_t bytes;
} oms_tensor_view;

/* ---- library ---- */

/* major << 16 | minor of the loaded library. */
OMS_API uint32_t oms_abi_version(void) OMS_NOEXCEPT;
/* "0.1.0"; static. */
OMS_API const char* oms_version_string(void) OMS_NOEXCEPT;
/* "OMS_E_FULL" and a sentence about it; static, never NULL, also for unknown numbers. */
OMS_API const char* oms_status_name(oms_status status) OMS_NOEXCEPT;
OMS_API const char* oms_status_text(oms_status status) OMS_NOEXCEPT;

/* The message is not NUL-terminated. May run on library threads; must not block and must not call
 * oms_*. */
typedef void (*oms_log_fn)(void* user, int32_t level, const char* component, const char* message,
                           size_t message_len);
/* Process-wide. fn NULL: lines of level WARN and above go to stderr again. When this returns, the
 * old callback is not running and will not run. */
OMS_API void oms_set_log_callback(oms_log_fn fn, void* user, int32_t level_min) OMS_NOEXCEPT;

/* ---- pipeline ---- */

/* Fills the first `struct_size` bytes with defaults and sets struct_size. */
OMS_API void oms_pipeline_options_init(oms_pipeline_options* options,
                                       uint32_t struct_size) OMS_NOEXCEPT;
/* Starts a private supervisor, which starts the stages of options->config_path. Returns when the
 * supervisor has read the file and answered; the stages may still be loading
 * (oms_pipeline_wait_ready). omnistage-supervisor is looked for in options->bin_dir, else in
 * $OMNISTAGE_BIN_DIR, else in the folder of the library, its "bin" and "../bin"; the error lists
 * what was tried. On an error nothing is left running. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_launch(const oms_pipeline_options* options,
                                                      oms_pipeline** out,
                                                      oms_error* err) OMS_NOEXCEPT;
/* Joins the pipeline whose supervisor serves run_dir/omnistage.sock. options may be NULL. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_attach(const char* run_dir,
                                                      const oms_pipeline_options* options,
                                                      oms_pipeline** out,
                                                      oms_error* err) OMS_NOEXCEPT;
/* OMS_OK when all stages take requests. OMS_TIMEOUT after timeout_ns (-1 = for ever, 0 = just
 * look). OMS_E_STAGE_DIED when a stage failed for good (err names it), OMS_E_CLOSED when the
 * supervisor is gone. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_wait_ready(oms_pipeline* pipeline,
                                                          int64_t timeout_ns,
                                                          oms_error* err) OMS_NOEXCEPT;
/* JSON text about stages and limits, NUL-terminated. *needed gets the bytes with the NUL; if
 * capacity is smaller, nothing is written and OMS_E_FULL returned. buffer may be NULL with capacity
 * 0. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_describe(oms_pipeline* pipeline, char* buffer,
                                                        size_t capacity,
                                                        size_t* needed) OMS_NOEXCEPT;
/* 0 for a bad handle. */
OMS_API uint32_t oms_pipeline_stage_count(oms_pipeline* pipeline) OMS_NOEXCEPT;
/* The caller sets info->struct_size. OMS_E_NOT_FOUND: index too large. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_stage_info(oms_pipeline* pipeline, uint32_t index,
                                                          oms_stage_info* info) OMS_NOEXCEPT;
/* The caller sets stats->struct_size. */
OMS_API OMS_MUST_CHECK oms_status oms_pipeline_stats(oms_pipeline* pipeline,
                                                     oms_stats* stats) OMS_NOEXCEPT;
/* Ends what is in flight (FINAL with OMS_E_CANCELLED in its queue), detaches and, after a launch,
 * ends supervisor and stages and waits for them at most close_timeout_ns before they are killed.
 * Queues stay valid: take what is left in them, then destroy them. Outputs stay readable until
 * released. NULL is fine. */
OMS_API void oms_pipeline_close(oms_pipeline* pipeline) OMS_NOEXCEPT;

/* ---- queue ---- */

OMS_API void oms_queue_options_init(oms_queue_options* options, uint32_t struct_size) OMS_NOEXCEPT;
/* options may be NULL. At most 1024 queues a pipeline. */
OMS_API OMS_MUST_CHECK oms_status oms_queue_create(oms_pipeline* pipeline,
                                                   const oms_queue_options* options,
                                                   oms_queue** out, oms_error* err) OMS_NOEXCEPT;
/* Cancels its requests; outputs that were not taken are gone. Before or after oms_pipeline_close.
 * NULL is fine. */
OMS_API void oms_queue_destroy(oms_queue* queue) OMS_NOEXCEPT;
/* An eventfd (close-on-exec, non-blocking), readable whenever an output waits or a wake is pending;
 * it may rarely be readable once too often. With edge-triggered epoll poll until OMS_AGAIN. Do not
 * read, write or close it. -1 on a bad handle. */
OMS_API int32_t oms_queue_event_fd(oms_queue* queue) OMS_NOEXCEPT;
/* Takes up to `capacity` outputs, never blocks. *count > 0 only with OMS_OK. OMS_AGAIN: none there.
 * OMS_WOKEN: none there, and oms_queue_wake was called. OMS_E_CLOSED: none there and none will
 * come. */
OMS_API OMS_MUST_CHECK oms_status oms_queue_poll(oms_queue* queue, oms_output** outs,
                                                 uint32_t capacity, uint32_t* count) OMS_NOEXCEPT;
/* The same, but waits for the first one: -1 = for ever, 0 = oms_queue_poll. OMS_TIMEOUT when the
 * time is over. */
OMS_API OMS_MUST_CHECK oms_status oms_queue_wait(oms_queue* queue, oms_output** outs,
                                                 uint32_t capacity, uint32_t* count,
                                                 int64_t timeout_ns) OMS_NOEXCEPT;
/* Makes one poll or wait that finds nothing return OMS_WOKEN. Also allowed in a signal handler. */
OMS_API void oms_queue_wake(oms_queue* queue) OMS_NOEXCEPT;

/* ---- requests ---- */

OMS_API void oms_sampling_init(oms_sampling* sampling, uint32_t struct_size) OMS_NOEXCEPT;
OMS_API void oms_request_init(oms_request* request, uint32_t struct_size) OMS_NOEXCEPT;
/* Copies the request and returns at once. After an error nothing was submitted: OMS_E_BUSY = a
 * stage it needs is not ready (err names it), OMS_E_FULL = max_inflight or the queue's capacity
 * reached, OMS_E_CLOSED, OMS_E_INVALID and OMS_E_UNSUPPORTED (err names the field). */
OMS_API OMS_MUST_CHECK oms_status oms_submit(oms_queue* queue, const oms_request* request,
                                             oms_request_id* id, oms_error* err) OMS_NOEXCEPT;
/* Ends a request: its FINAL has OMS_E_CANCELLED, or what it already had. Calling it again does no
 * harm. OMS_E_NOT_FOUND: unknown here or already over. */
OMS_API oms_status oms_cancel(oms_queue* queue, oms_request_id id) OMS_NOEXCEPT;

/* ---- outputs ---- */

/* The caller sets info->struct_size. */
OMS_API OMS_MUST_CHECK oms_status oms_output_info_get(const oms_output* output,
                                                      oms_output_info* info) OMS_NOEXCEPT;
/* The error of a FINAL (code OMS_OK and an empty message if it went well). The caller sets
 * error->struct_size. */
OMS_API OMS_MUST_CHECK oms_status oms_output_error(const oms_output* output,
                                                   oms_error* error) OMS_NOEXCEPT;
/* UTF-8, not NUL-terminated, complete characters; empty for other kinds. */
OMS_API OMS_MUST_CHECK oms_status oms_output_text(const oms_output* output, const char** text,
                                                  size_t* len) OMS_NOEXCEPT;
/* The tokens a text piece was made from; may be empty. */
OMS_API OMS_MUST_CHECK oms_status oms_output_token_ids(const oms_output* output,
                                                       const int32_t** ids,
                                                       size_t* count) OMS_NOEXCEPT;
OMS_API uint32_t oms_output_tensor_count(const oms_output* output) OMS_NOEXCEPT;
/* A view, no copy: tensors above 4 KiB stay in shared memory. Audio: float32 [samples], mono,
 * -1..1. The caller sets view->struct_size. OMS_E_NOT_FOUND: index too large. */
OMS_API OMS_MUST_CHECK oms_status oms_output_tensor(const oms_output* output, uint32_t index,
                                                    oms_tensor_view* view) OMS_NOEXCEPT;
/* Copies the bytes of a tensor. *bytes gets its size; OMS_E_FULL and no copy if capacity is
 * smaller. */
OMS_API OMS_MUST_CHECK oms_status oms_output_copy(const oms_output* output, uint32_t index,
                                                  void* dst, uint64_t capacity,
                                                  uint64_t* bytes) OMS_NOEXCEPT;
/* References are counted; poll gives you one. Any thread, also after close and destroy. NULL is
 * fine. */
OMS_API void oms_output_retain(oms_output* output) OMS_NOEXCEPT;
OMS_API void oms_output_release(oms_output* output) OMS_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* OMNISTAGE_OMNISTAGE_H */
