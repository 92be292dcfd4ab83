// What talker and code2wav agree on: one frame is 12.5 ms of speech, a row of 3006 floats
// [lh 601 | theta 601 | ln 601 | lr 601 | phi 601 | f0], and the payload keys that carry rows.
#pragma once

#include <cstdint>

namespace omnistage::hibari {

constexpr int64_t kBins = 601;
constexpr int64_t kSpectrumValues = 5 * kBins;         // 3005
constexpr int64_t kFrameValues = kSpectrumValues + 1;  // + F0 in Hz
constexpr int64_t kHop = 300;                          // samples of one frame
constexpr int64_t kWindow = 1200;                      // samples of one spectrum
constexpr uint32_t kSampleRate = 24000;

// One payload never holds more frames; the talker refuses larger chunk sizes, code2wav larger
// payloads.
constexpr int64_t kChunkFramesMax = 1024;

constexpr const char* kKeyText = "text";                                // string, into the talker
constexpr const char* kKeyFrames = "acoustic.frames";                   // f32 [F, 3006]
constexpr const char* kKeySentence = "meta.sentence";                   // int64, counts from 0
constexpr const char* kKeySentenceFinished = "meta.sentence_finished";  // int64, 0 or 1
constexpr const char* kKeyFrameOffset =
    "meta.frame_offset";  // int64, frames of the sentence before

}  // namespace omnistage::hibari
