#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/crc32c.h>
#include <hero/core/io/file.h>
#include <hero/core/io/no_signals.h>
#include <hero/core/io/swap_worker.h>

namespace hero::core {

namespace {

constexpr int kMostThreads = 64;
constexpr int64_t kMostBytes = int64_t{1} << 60;

std::string system_text(int error) { return std::generic_category().message(error); }

}  // namespace

void SwapWorker::Free::operator()(std::byte* memory) const { std::free(memory); }

SwapWorker::SwapWorker(const std::string& folder, const SwapOptions& options)
    : folder_(folder), bytes_(0), slots_(0) {
  check(options.bytes > 0 && options.bytes <= kMostBytes,
        "swap file: its size is 1 byte to 2^60: ", options.bytes);
  check(options.threads >= 1 && options.threads <= kMostThreads,
        "swap file: it has 1 to 64 threads: ", options.threads);
  bytes_ = whole_blocks(options.bytes);
  slots_ = SwapSlots(bytes_);
  if (options.planned) return;
  try {
    open_file();
    if (options.direct) go_past_the_cache();
    start(options.threads);
  } catch (...) {
    stop();
    throw;
  }
}

SwapWorker::~SwapWorker() { stop(); }

void SwapWorker::open_file() {
  std::string name = folder_ + "/.hero-swap-XXXXXX";
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  check(fd_ >= 0, "swap file: cannot make a file in ", folder_, ": ", system_text(errno));
  ::unlink(name.c_str());
  struct statvfs disk {};
  const bool known = ::statvfs(folder_.c_str(), &disk) == 0;
  const auto free = known ? static_cast<int64_t>(disk.f_bavail * disk.f_frsize) : int64_t{0};
  // asked first, as some file systems find out by writing
  const int error = known && free < bytes_ ? ENOSPC : ::posix_fallocate(fd_, 0, bytes_);
  if (error == 0) return;
  fail("swap file: the disk of ", folder_, " does not give ", bytes_text(bytes_), ": ",
       system_text(error), known ? ", " + bytes_text(free) + " are free" : "");
}

// Some file systems refuse the flag, others the transfers.
void SwapWorker::go_past_the_cache() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return;
  const Buffer block(
      static_cast<std::byte*>(std::aligned_alloc(SwapFile::kBlock, SwapFile::kBlock)));
  check(block != nullptr, "swap file: out of memory");
  std::memset(block.get(), 0, SwapFile::kBlock);
  direct_ =
      retried([&] { return ::pwrite(fd_, block.get(), SwapFile::kBlock, 0); }) == SwapFile::kBlock;
  if (!direct_) ::fcntl(fd_, F_SETFL, flags);
}

void SwapWorker::start(int threads) {
  const NoSignals no_signals;
  for (int i = 0; i < threads; ++i) {
    buffers_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(SwapFile::kBlock, kPiece)));
    check(buffers_.back() != nullptr, "swap file: out of memory");
    try {
      threads_.emplace_back([this, buffer = buffers_.back().get()] { run(buffer); });
    } catch (const std::system_error& error) {
      fail("swap file: no thread can be started: ", error.what());
    }
  }
}

void SwapWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (fd_ >= 0) ::close(fd_);
}

int64_t SwapWorker::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto first = slots_.take(bytes);
  check(first.has_value(), "swap file in ", folder_, ": there is no room for ", bytes_text(bytes),
        ": ", bytes_text(slots_.used()), " of ", bytes_text(bytes_),
        " are in use and the largest free part has ", bytes_text(slots_.largest()),
        "; make it with more .bytes");
  return *first;
}

void SwapWorker::give_back(int64_t first, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  slots_.give_back(first, bytes);
}

int64_t SwapWorker::used() const {
  const std::lock_guard lock(mutex_);
  return slots_.used();
}

void SwapWorker::begin(SwapJob& job) {
  const int64_t pieces = (job.bytes + kPiece - 1) / kPiece;
  job.sums.resize(static_cast<size_t>(pieces));
  {
    const std::lock_guard lock(mutex_);
    job.error.clear();
    job.left = pieces;
    for (int64_t i = 0; i < pieces; ++i) pieces_.push_back({&job, i * kPiece});
  }
  work_.notify_all();
}

std::string SwapWorker::wait(SwapJob& job) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return job.left == 0; });
  return job.error;
}

void SwapWorker::run(std::byte* buffer) {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return ending_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    const Piece piece = pieces_.front();
    pieces_.pop_front();
    lock.unlock();
    std::string error = move(piece, buffer);
    lock.lock();
    if (piece.job->error.empty()) piece.job->error = std::move(error);
    if (--piece.job->left == 0) done_.notify_all();
  }
}

// Whole blocks are moved; where the memory does not begin at a block or does not end at one, by
// way of the buffer.
std::string SwapWorker::move(const Piece& piece, std::byte* buffer) {
  SwapJob& job = *piece.job;
  const int64_t bytes = std::min(kPiece, job.bytes - piece.begin);
  const int64_t blocks = whole_blocks(bytes);
  const auto size = static_cast<size_t>(bytes);
  std::byte* const memory = job.data + piece.begin;
  const bool aligned = reinterpret_cast<uintptr_t>(memory) % SwapFile::kBlock == 0;
  const bool in_place = bytes == blocks && (aligned || !direct_);
  std::byte* const data = in_place ? memory : buffer;
  uint32_t& sum = job.sums[static_cast<size_t>(piece.begin / kPiece)];
  if (job.writing) {
    if (!in_place) {
      std::memcpy(buffer, memory, size);
      std::memset(buffer + bytes, 0, static_cast<size_t>(blocks - bytes));
    }
    sum = crc32c({data, size});
    return move_bytes(true, data, blocks, job.first + piece.begin);
  }
  std::string error = move_bytes(false, data, blocks, job.first + piece.begin);
  if (!error.empty()) return error;
  if (crc32c({data, size}) != sum) {
    std::string line;
    hero::detail::append(line, "other bytes than were written came back: ");
    hero::detail::append(line, bytes);
    hero::detail::append(line, " at ");
    hero::detail::append(line, job.first + piece.begin);
    return line;
  }
  if (!in_place) std::memcpy(memory, buffer, size);
  return {};
}

std::string SwapWorker::move_bytes(bool writing, std::byte* data, int64_t bytes, int64_t first) {
  int64_t moved = 0;
  while (moved < bytes) {
    const auto size = static_cast<size_t>(bytes - moved);
    const auto at = static_cast<off_t>(first + moved);
    const ssize_t now = retried([&] {
      return writing ? ::pwrite(fd_, data + moved, size, at) : ::pread(fd_, data + moved, size, at);
    });
    if (now <= 0) {
      std::string line = writing ? "writing " : "reading ";
      hero::detail::append(line, bytes);
      hero::detail::append(line, " bytes at ");
      hero::detail::append(line, first);
      return line + ": " + (now < 0 ? system_text(errno) : "the file ends before");
    }
    moved += now;
    (writing ? written_bytes_ : read_bytes_) += now;
  }
  return {};
}

}  // namespace hero::core
