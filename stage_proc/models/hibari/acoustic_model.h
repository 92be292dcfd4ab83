// AcousticModel: phoneme ids -> spectral frames, in fp32. The part with global attention (two text
// encoders and the durations) runs once a sentence; everything behind it is convolution and streams
// exactly, see SentenceStream. The header is free of tensor-library types.
//
// Threads: the model is immutable after load and may be shared; a SentenceStream belongs to one
// thread at a time. Results do not depend on how a sentence is cut into chunks beyond rounding
// (1e-4).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/frame_format.h"

namespace omnistage::hibari {

// One sentence on its way to frames. Keeps the model alive.
class SentenceStream {
 public:
  virtual ~SentenceStream() = default;
  // Frames of the whole sentence, known from the start.
  virtual int64_t frames() const = 0;
  // Frames given out so far.
  virtual int64_t position() const = 0;
  // Per id, in units of two frames (25 ms).
  virtual std::span<const int64_t> durations() const = 0;
  // Writes the next `count` frames as dense rows of kFrameValues floats (layout in frame_format.h).
  // INVALID when count is not in 1..frames() - position(); INTERNAL when the tensor library fails.
  virtual Status next(int64_t count, float* rows) = 0;
};

class AcousticModel {
 public:
  static constexpr size_t kIdsMax = 1024;  // the text front end cuts sentences at 400 phonemes
  static constexpr int64_t kUnitsPerIdMax = 400;  // 10 s; only a broken network asks for more
  static constexpr double kSpeedMin = 0.5, kSpeedMax = 2.0;

  virtual ~AcousticModel() = default;

  // Reads <model_dir>/hibari.safetensors. NOT_FOUND or INVALID with file and tensor name.
  static Result<std::shared_ptr<const AcousticModel>> load(const std::string& model_dir);

  // Encodes a sentence. `ids` carry the pad id 0 at both ends; INVALID for an id outside the symbol
  // table, a length outside 1..kIdsMax or a speed outside its range.
  virtual Result<std::unique_ptr<SentenceStream>> start(std::span<const int64_t> ids,
                                                        double speed) const = 0;
};

}  // namespace omnistage::hibari
