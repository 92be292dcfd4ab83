#include "wav_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

namespace omnistage_cli {
namespace {

constexpr size_t kHeaderBytes = 44;
constexpr uint64_t kDataBytesMax = 0xFFFFFFFFull - kHeaderBytes;  // RIFF sizes are 32 bits

void put(unsigned char* to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(value >> (8 * i));
}

}  // namespace

WavWriter::~WavWriter() {
  close();
}

bool WavWriter::fail(int error) {
  error_ = path_ + ": " + std::strerror(error);
  return false;
}

bool WavWriter::open(const std::string& path) {
  path_ = path;
  created_ = ::access(path.c_str(), F_OK) != 0;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  return fd_ >= 0 || fail(errno);
}

bool WavWriter::write_all(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(fd_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail(done == 0 ? ENOSPC : errno);
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool WavWriter::write_header() {
  unsigned char header[kHeaderBytes];
  const auto data_bytes = static_cast<uint32_t>(samples_ * 2);
  std::memcpy(header, "RIFF", 4);
  put(header + 4, data_bytes + kHeaderBytes - 8, 4);
  std::memcpy(header + 8, "WAVEfmt ", 8);
  put(header + 16, 16, 4);
  put(header + 20, 1, 2);  // PCM
  put(header + 22, 1, 2);  // channels
  put(header + 24, sample_rate_, 4);
  put(header + 28, sample_rate_ * 2, 4);
  put(header + 32, 2, 2);
  put(header + 34, 16, 2);
  std::memcpy(header + 36, "data", 4);
  put(header + 40, data_bytes, 4);
  // Pipes and character devices cannot seek; they get the header once.
  if (::pwrite(fd_, header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header))) return true;
  if (errno != ESPIPE) return fail(errno);
  return samples_ != 0 || write_all(header, sizeof(header));
}

bool WavWriter::append(const float* samples, size_t count, uint32_t sample_rate) {
  if (fd_ < 0) return fail(EBADF);
  if (sample_rate_ == 0) {
    sample_rate_ = sample_rate;
    (void)!::ftruncate(fd_, 0);  // fails on what has no length, e.g. a pipe
    if (!write_header()) return false;
    (void)::lseek(fd_, kHeaderBytes, SEEK_SET);
  }
  if ((samples_ + count) * 2 > kDataBytesMax) return fail(EFBIG);
  std::vector<unsigned char> bytes(count * 2);
  for (size_t i = 0; i < count; ++i) {
    const float clipped = std::isnan(samples[i]) ? 0.0f : std::clamp(samples[i], -1.0f, 1.0f);
    put(&bytes[2 * i], static_cast<uint32_t>(std::lround(clipped * 32767.0f)), 2);
  }
  if (!write_all(bytes.data(), bytes.size())) return false;
  samples_ += count;
  return write_header();
}

bool WavWriter::close() {
  if (fd_ < 0) return true;
  const bool fine = ::close(fd_) == 0 || fail(errno);
  fd_ = -1;
  if (samples_ == 0 && created_) ::unlink(path_.c_str());
  return fine;
}

}  // namespace omnistage_cli
