#include "stage_proc/engine/text_emitter.h"

#include <utility>

namespace omnistage::engine {

TextEmitter::TextEmitter(const RequestHeader& header, std::span<const int32_t> eos_token_ids,
                         int32_t max_tokens, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                         std::unique_ptr<transfer::ChunkBuilder> downstream)
    : key_(header.key),
      wants_text_((header.modalities & kModalityText) != 0),
      detokenizer_(std::move(tokenizer)),
      stop_(header.sampling, eos_token_ids, max_tokens),
      builder_(std::move(downstream)) {
  if (builder_) sender_.emplace(header);
}

FinishReason TextEmitter::push(int32_t token, StageSink& sink) {
  unsent_ids_.push_back(token);
  std::string text = stop_.hides(token) ? std::string() : detokenizer_.push(token);
  sampling::StopDecision decision =
      stop_.push(token, text, [this] { return detokenizer_.finish(); });
  const bool last = decision.reason != FinishReason::kNone;
  if (builder_) emit_chunks(decision.text, last, sink);
  emit_output(std::move(decision.text), last, sink);
  return decision.reason;
}

void TextEmitter::emit_output(std::string text, bool last, StageSink& sink) {
  if (text.empty() && !last) return;
  StageOutput output;
  output.key = key_;
  output.kind = OutputKind::kText;
  output.position = sent_ids_;
  output.text = std::move(text);
  output.token_ids = std::exchange(unsent_ids_, {});
  sent_ids_ += output.token_ids.size();
  if (wants_text_) sink.output(std::move(output));
}

void TextEmitter::emit_chunks(const std::string& text, bool last, StageSink& sink) {
  for (Payload& payload : builder_->push(text))
    sink.chunk(sender_->make(std::move(payload), false));
  if (!last) return;
  sink.chunk(sender_->make(builder_->finish().value_or(Payload()), true));
}

}  // namespace omnistage::engine
