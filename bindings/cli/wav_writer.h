// WavWriter: a mono 16-bit WAV file that grows while audio arrives and is valid after every append,
// so that also a killed program leaves something playable. Owns the file. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace omnistage_cli {

class WavWriter {
 public:
  WavWriter() = default;
  ~WavWriter();
  WavWriter(const WavWriter&) = delete;
  WavWriter& operator=(const WavWriter&) = delete;

  // Checks that the file can be written; an older file keeps its content until the first append().
  bool open(const std::string& path);
  // Samples in -1..1; values beyond are clipped. The rate is that of the first call.
  bool append(const float* samples, size_t count, uint32_t sample_rate);
  // Closes. A file this writer made and never filled is removed. False: the file system reported an
  // error late.
  bool close();

  uint64_t samples() const { return samples_; }
  // After a false: one line, "answer.wav: No space left on device".
  const std::string& error() const { return error_; }

 private:
  bool fail(int error);
  bool write_all(const void* data, size_t bytes);
  bool write_header();

  std::string path_;
  std::string error_;
  int fd_ = -1;
  bool created_ = false;
  uint32_t sample_rate_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace omnistage_cli
