#include <omnistage/omnistage.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  oms_error err = {.struct_size = sizeof err};
  oms_pipeline_options options;
  oms_pipeline_options_init(&options, sizeof options);
  options.config_path = argc > 1 ? argv[1] : "deploy/speak.yaml";
  const char* text = argc > 2 ? argv[2] : "Why is the sky blue?";
  oms_input input = {sizeof input, OMS_INPUT_TEXT, text, strlen(text)};
  oms_request request;
  oms_request_init(&request, sizeof request);
  request.inputs = &input, request.input_count = 1;
  oms_pipeline* pipeline = NULL;
  oms_queue* queue = NULL;
  oms_request_id id;
  if (oms_pipeline_launch(&options, &pipeline, &err) ||
      oms_pipeline_wait_ready(pipeline, -1, &err) ||
      oms_queue_create(pipeline, NULL, &queue, &err) || oms_submit(queue, &request, &id, &err))
    return fprintf(stderr, "%s\n", err.message), 1;
  oms_output_info info = {.struct_size = sizeof info};
  oms_output* output;
  uint32_t count;
  const char* piece;
  size_t length;
  while (!(info.flags & OMS_OUTPUT_FINAL) && !oms_queue_wait(queue, &output, 1, &count, -1)) {
    if (!oms_output_info_get(output, &info) && !oms_output_text(output, &piece, &length))
      fwrite(piece, 1, length, stdout);
    oms_output_release(output);
  }
  oms_queue_destroy(queue), oms_pipeline_close(pipeline);
  return info.status != OMS_OK;
}
