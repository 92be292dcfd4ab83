// The acoustic model for tests, and a sentence for it.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "stage_proc/models/hibari/acoustic_model.h"
#include "stage_proc/models/hibari/vocoder.h"
#include "tests/unit/hibari/hibari_dir.h"

namespace omnistage::hibari::testing {

// As in a stage; and spinning OpenMP threads would make a loaded machine very slow.
inline const bool kOneThread = (at::set_num_threads(1), true);

// Loaded once per test program. A test that gets null fails with the reason in `error`.
inline std::shared_ptr<const AcousticModel> acoustic_model(std::string* error) {
  static const auto loaded = AcousticModel::load(model_dir());
  if (loaded.ok()) return loaded.value();
  *error = loaded.status().to_string() + " (run scripts/setup to fetch the voice)";
  return nullptr;
}

// "Hello there, how are you today?" as the package spells it.
inline std::vector<int64_t> sample_ids() {
  return {0,  50, 83, 54,  156, 31, 16, 81, 156, 86, 123, 3,   16, 50, 157,
          39, 16, 69, 123, 16,  52, 63, 16, 62,  83, 46,  156, 24, 6,  0};
}

// Runs a sentence through the model in chunks of the given sizes, repeated until it ends.
inline std::vector<float> all_frames(const AcousticModel& model, const std::vector<int64_t>& ids,
                                     double speed, const std::vector<int64_t>& chunks,
                                     Status* status) {
  auto sentence = model.start(ids, speed);
  if (!sentence.ok()) {
    *status = sentence.status();
    return {};
  }
  SentenceStream& stream = **sentence;
  std::vector<float> rows(static_cast<size_t>(stream.frames() * kFrameValues));
  for (size_t i = 0; stream.position() < stream.frames(); ++i) {
    const int64_t left = stream.frames() - stream.position();
    const int64_t count = std::min(left, chunks[i % chunks.size()]);
    *status = stream.next(count, rows.data() + stream.position() * kFrameValues);
    if (!status->ok()) return {};
  }
  return rows;
}

}  // namespace omnistage::hibari::testing
