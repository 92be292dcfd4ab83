#include "omnistage/omnistage.hpp"

// Uses every class once, so that templates and overloads are really compiled.
oms_status compile_only(const char* config);
oms_status compile_only(const char* config) {
  omnistage::Pipeline pipeline = omnistage::Pipeline::launch(config);
  pipeline.wait_ready(0);
  omnistage::Queue queue(pipeline, 4);
  omnistage::Request request;
  request.text("a").system("b").param("voice", "c").stop("d").deadline_ns(1).user_data(2);
  const oms_request_id id = queue.submit(request);
  omnistage::Output output;
  oms_status status = queue.wait(output, 0);
  omnistage::Output copy(output);
  output = copy;
  queue.cancel(id);
  return output && output.final() ? output.error().code : status;
}
