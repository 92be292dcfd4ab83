// Round-trip time and throughput of a link (copied records up to 64 KiB, leased tensors above)
// beside a unix stream socket and memcpy, between two processes, 64 B to 1 MiB. Rounds are
// interleaved (link, socket, memcpy, link, ...), so that the load of the machine hits all alike;
// the table shows medians and the range of the ratios.
//
//   bench_shm [--pairs N (7)] [--ms N (60, per measurement)] [--json FILE]
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shm/base/clock.h"
#include "shm/link/link.h"
#include "shm/wait/wait_set.h"

namespace omnistage::shm {
namespace {

constexpr size_t kSizes[] = {64, 1024, 4096, 32 * 1024, 256 * 1024, 1024 * 1024};
constexpr size_t kCopyMax = 60 * 1024;  // larger payloads are leased
constexpr RecordKind kCopied = kFirstUserKind, kLeased = kFirstUserKind + 1;
constexpr size_t kTensorsInFlight = 8;

struct Options {
  int pairs = 7;
  int64_t measure_ns = 60 * kMillisecond;
  const char* json = nullptr;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_shm: %s\n", what.c_str());
  std::exit(1);
}

// What every benchmarked transport can do. A message is produced (filled) and consumed (summed) in
// both forms, because a hand-over that nobody writes or reads measures nothing.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(size_t size) = 0;
  virtual void receive(size_t size) = 0;
};

uint64_t sum(const std::byte* data, size_t size) {
  uint64_t total = 0, word;
  for (size_t i = 0; i + 8 <= size; i += 8) {
    std::memcpy(&word, data + i, 8);
    total += word;
  }
  return total;
}
volatile uint64_t sink;

class LinkTransport final : public Transport {
 public:
  LinkTransport(UniqueFd socket, uint32_t self, uint32_t peer) : waits_(WaitSet::create()) {
    auto id = [](uint32_t index) {
      return LinkIdentity{LinkIdentity::Role::kStage, index, 1, "bench"};
    };
    auto link = Link::create(std::move(socket), id(self), id(peer), {});
    if (!link.ok()) fail(link.status().to_string());
    link_ = std::move(*link);
    while (!link_->connected()) {
      pollfd fd{link_->socket_fd(), POLLIN, 0};
      poll(&fd, 1, 1000);
      if (Status status = link_->on_socket(); !status.ok()) fail(status.to_string());
    }
    link_->attach_pool(pool_);
    waits_->add(link_.get());
  }
  ~LinkTransport() override { waits_.reset(); }

  void send(size_t size) override {
    if (size <= kCopyMax) return send_copied(size);
    HostTensor tensor = block(size);
    std::memset(tensor.data.get(), ++fill_, size);
    auto ref = link_->lease(tensor.data.get(), size);
    if (!ref.ok()) fail(ref.status().to_string());
    while (link_->try_send(kLeased, std::as_bytes(std::span(&*ref, 1))) != SendResult::kOk) wait();
  }

  void receive(size_t size) override {
    while (!link_->poll(record_)) wait();
    if (record_.kind == kCopied) {
      sink = sum(record_.bytes.data(), record_.bytes.size());
      return;
    }
    TensorRef ref;
    std::memcpy(&ref, record_.bytes.data(), sizeof ref);
    auto view = link_->open_tensor(ref);
    if (!view.ok() || ref.bytes != size) fail("wrong tensor");
    sink = sum(view->get(), size);
    view->reset();
    link_->flush_returns();
  }

 private:
  void send_copied(size_t size) {
    SendResult result;
    std::span<std::byte> place;
    while (place = link_->try_reserve(size, result), result != SendResult::kOk) wait();
    std::memset(place.data(), ++fill_, size);
    link_->commit(kCopied, size);
  }
  HostTensor block(size_t size) {
    // Back-pressure for tensors is the number of leases out; the consumer's returns arrive in
    // poll().
    Record returns;
    while (pool_->stats().leases >= kTensorsInFlight) {
      if (!link_->poll(returns)) wait();
    }
    auto tensor = pool_->allocate(DType::kU8, {static_cast<int64_t>(size)});
    if (!tensor.ok()) fail(tensor.status().to_string());
    return std::move(*tensor);
  }
  void wait() {
    if (link_->peer_dead()) fail("the other process ended");
    (void)waits_->wait(monotonic_ns() + kSecond);
  }

  std::unique_ptr<WaitSet> waits_;
  std::shared_ptr<TensorPool> pool_ = TensorPool::create(64u << 20);
  std::unique_ptr<Link> link_;
  Record record_;
  int fill_ = 0;
};

class SocketTransport final : public Transport {
 public:
  explicit SocketTransport(UniqueFd fd) : fd_(std::move(fd)), buffer_(kSizes[5]) {}
  void send(size_t size) override {
    std::memset(buffer_.data(), ++fill_, size);
    for (size_t done = 0; done < size;) {
      ssize_t n = write(fd_.get(), buffer_.data() + done, size - done);
      if (n <= 0) fail("socket write");
      done += static_cast<size_t>(n);
    }
  }
  void receive(size_t size) override {
    for (size_t done = 0; done < size;) {
      ssize_t n = read(fd_.get(), buffer_.data() + done, size - done);
      if (n <= 0) fail("socket read");
      done += static_cast<size_t>(n);
    }
    sink = sum(buffer_.data(), size);
  }

 private:
  UniqueFd fd_;
  std::vector<std::byte> buffer_;
  int fill_ = 0;
};

// What the two processes agree on before each measurement.
struct Command {
  uint32_t transport;  // 0 link, 1 socket, 2 end
  uint32_t stream;     // 0 round trips, 1 stream
  uint64_t size;
  uint64_t count;
};

void serve(int control, Transport& link, Transport& socket) {
  Command command;
  while (read(control, &command, sizeof command) == sizeof command && command.transport < 2) {
    Transport& transport = command.transport == 0 ? link : socket;
    for (uint64_t i = 0; i < command.count; ++i) {
      transport.receive(command.size);
      if (!command.stream) transport.send(command.size);
    }
    if (command.stream) transport.send(64);
  }
}

// Seconds for `count` messages.
double run(int control, Transport& transport, Command command) {
  if (write(control, &command, sizeof command) != sizeof command) fail("control socket");
  const int64_t start = monotonic_ns();
  for (uint64_t i = 0; i < command.count; ++i) {
    transport.send(command.size);
    if (!command.stream) transport.receive(command.size);
  }
  if (command.stream) transport.receive(64);
  return static_cast<double>(monotonic_ns() - start) * 1e-9;
}

double run_memcpy(size_t size, uint64_t count) {
  static std::vector<std::byte> from(kSizes[5]), to(kSizes[5]);
  const int64_t start = monotonic_ns();
  for (uint64_t i = 0; i < count; ++i) {
    std::memset(from.data(), static_cast<int>(i), size);
    std::memcpy(to.data(), from.data(), size);
    sink = sum(to.data(), size);
  }
  return static_cast<double>(monotonic_ns() - start) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  size_t size = 0;
  std::vector<double> link_rtt, socket_rtt, link_rate, socket_rate, memcpy_rate;  // s; messages/s
};

Row measure(int control, Transport& link, Transport& socket, size_t size, const Options& options) {
  Row row{size};
  auto count_for = [&](Transport& transport, uint32_t which, uint32_t stream) {
    const double once = run(control, transport, {which, stream, size, 20}) / 20;
    return std::clamp<uint64_t>(
        static_cast<uint64_t>(static_cast<double>(options.measure_ns) * 1e-9 / once), 10,
        1'000'000);
  };
  const uint64_t n[4] = {count_for(link, 0, 0), count_for(socket, 1, 0), count_for(link, 0, 1),
                         count_for(socket, 1, 1)};
  for (int i = 0; i < options.pairs; ++i) {
    auto count = [&](int k) { return static_cast<double>(n[k]); };
    row.link_rtt.push_back(run(control, link, {0, 0, size, n[0]}) / count(0));
    row.socket_rtt.push_back(run(control, socket, {1, 0, size, n[1]}) / count(1));
    row.link_rate.push_back(count(2) / run(control, link, {0, 1, size, n[2]}));
    row.socket_rate.push_back(count(3) / run(control, socket, {1, 1, size, n[3]}));
    row.memcpy_rate.push_back(count(2) / run_memcpy(size, n[2]));
  }
  return row;
}

struct Ratio {
  double median, least, most;
};
Ratio ratio(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> values;
  for (size_t i = 0; i < above.size(); ++i) values.push_back(above[i] / below[i]);
  return {median(values), *std::min_element(values.begin(), values.end()),
          *std::max_element(values.begin(), values.end())};
}

void print(const std::vector<Row>& rows) {
  std::printf("%9s | %12s %12s %22s | %11s %11s %11s %22s %22s\n", "bytes", "link RTT us",
              "uds RTT us", "uds/link (range)", "link MB/s", "uds MB/s", "memcpy MB/s",
              "link/uds (range)", "link/memcpy (range)");
  for (const Row& r : rows) {
    const double mb = static_cast<double>(r.size) / 1e6;
    const Ratio rtt = ratio(r.socket_rtt, r.link_rtt), rate = ratio(r.link_rate, r.socket_rate),
                copy = ratio(r.link_rate, r.memcpy_rate);
    std::printf(
        "%9zu | %12.2f %12.2f %8.2f (%5.2f-%5.2f) | %11.0f %11.0f %11.0f %8.2f (%5.2f-%5.2f) %8.2f "
        "(%5.2f-%5.2f)\n",
        r.size, median(r.link_rtt) * 1e6, median(r.socket_rtt) * 1e6, rtt.median, rtt.least,
        rtt.most, median(r.link_rate) * mb, median(r.socket_rate) * mb, median(r.memcpy_rate) * mb,
        rate.median, rate.least, rate.most, copy.median, copy.least, copy.most);
  }
}

void write_list(FILE* file, const char* name, const std::vector<double>& values, const char* end) {
  std::fprintf(file, "\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i)
    std::fprintf(file, "%s%.9g", i == 0 ? "" : ", ", values[i]);
  std::fprintf(file, "]%s", end);
}

void write_json(const char* path, const std::vector<Row>& rows) {
  FILE* file = std::fopen(path, "we");
  if (file == nullptr) fail(std::string("cannot write ") + path);
  std::fprintf(file, "[\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::fprintf(file, "  {\"bytes\": %zu, ", rows[i].size);
    write_list(file, "link_rtt_s", rows[i].link_rtt, ", ");
    write_list(file, "socket_rtt_s", rows[i].socket_rtt, ", ");
    write_list(file, "link_messages_per_s", rows[i].link_rate, ", ");
    write_list(file, "socket_messages_per_s", rows[i].socket_rate, ", ");
    write_list(file, "memcpy_messages_per_s", rows[i].memcpy_rate,
               i + 1 == rows.size() ? "}\n" : "},\n");
  }
  std::fprintf(file, "]\n");
  std::fclose(file);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || i + 1 >= argc) {
      std::printf("usage: bench_shm [--pairs N] [--ms N] [--json FILE]\n");
      std::exit(name == "--help" ? 0 : 2);
    }
    const char* value = argv[++i];
    if (name == "--pairs")
      options.pairs = std::clamp(std::atoi(value), 1, 1000);
    else if (name == "--ms")
      options.measure_ns = std::clamp(std::atoi(value), 1, 60000) * kMillisecond;
    else if (name == "--json")
      options.json = value;
    else
      fail("unknown option " + name);
  }
  return options;
}

UniqueFd stream_pair(UniqueFd& other) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) fail("socketpair");
  other.reset(fds[1]);
  return UniqueFd(fds[0]);
}

int main_program(int argc, char** argv) {
  const Options options = parse(argc, argv);
  UniqueFd link_a, link_b, data_b, control_b;
  if (!make_socketpair(link_a, link_b).ok()) fail("socketpair");
  UniqueFd data_a = stream_pair(data_b), control_a = stream_pair(control_b);
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    link_a.reset(), data_a.reset(), control_a.reset();
    LinkTransport link(std::move(link_b), 2, 1);
    SocketTransport socket(std::move(data_b));
    serve(control_b.get(), link, socket);
    std::exit(0);
  }
  link_b.reset(), data_b.reset(), control_b.reset();
  std::vector<Row> rows;
  {
    LinkTransport link(std::move(link_a), 1, 2);
    SocketTransport socket(std::move(data_a));
    for (size_t size : kSizes)
      rows.push_back(measure(control_a.get(), link, socket, size, options));
    control_a.reset();
    waitpid(child, nullptr, 0);
  }
  print(rows);
  if (options.json != nullptr) write_json(options.json, rows);
  return 0;
}

}  // namespace
}  // namespace omnistage::shm

int main(int argc, char** argv) {
  return omnistage::shm::main_program(argc, argv);
}
