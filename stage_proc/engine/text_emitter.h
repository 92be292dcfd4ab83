// TextEmitter: the way from sampled tokens to what leaves an AR stage: text pieces to the client
// and clauses to the next stage. It sees tokens only, never the model. One per request.
//
// Pieces never end inside a character. A piece carries the tokens sampled since the piece before;
// tokens whose text is still held back travel with the piece that shows it, or with the last one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stage_proc/engine/request.h"
#include "stage_proc/engine/stage_core.h"
#include "stage_proc/sampling/stop_checker.h"
#include "stage_proc/tokenizer/tokenizer.h"
#include "stage_proc/transfer/chunk_adapter.h"
#include "stage_proc/transfer/chunk_builder.h"

namespace omnistage::engine {

// Does a request with these modalities need the stages behind this one?
inline bool wants_downstream(uint32_t modalities) {
  return (modalities & ~uint32_t{kModalityText}) != 0;
}

class TextEmitter {
 public:
  // `downstream`: null when the request has no next stage.
  TextEmitter(const RequestHeader& header, std::span<const int32_t> eos_token_ids,
              int32_t max_tokens, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
              std::unique_ptr<transfer::ChunkBuilder> downstream);

  // One sampled token. Anything but kNone: the request is done and its last piece and terminal
  // chunk are out.
  FinishReason push(int32_t token, StageSink& sink);
  int32_t tokens() const { return stop_.tokens(); }

 private:
  void emit_output(std::string text, bool last, StageSink& sink);
  void emit_chunks(const std::string& text, bool last, StageSink& sink);

  RequestKey key_;
  bool wants_text_;
  tokenizer::Detokenizer detokenizer_;
  sampling::StopChecker stop_;
  std::unique_ptr<transfer::ChunkBuilder> builder_;
  std::optional<transfer::ChunkSender> sender_;
  std::vector<int32_t> unsent_ids_;
  uint64_t sent_ids_ = 0;
};

}  // namespace omnistage::engine
