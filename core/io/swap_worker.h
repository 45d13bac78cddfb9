#pragma once
// The open file of a SwapFile and the threads that read and write it.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <hero/core/io/swap_slots.h>
#include <hero/core/swap_file.h>

namespace hero::core {

/// A copy of bytes into a slot or out of it, in pieces of kPiece bytes.
struct SwapJob {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t first = 0;  // where the slot begins in the file
  bool writing = false;
  std::vector<uint32_t> sums = {};  // CRC-32C of each piece, set when it is written
  // The worker's lock guards the following.
  int64_t left = 0;        // pieces that are not done
  std::string error = {};  // the error of the first piece that failed
};

class SwapWorker {
 public:
  static constexpr int64_t kPiece = int64_t{4} << 20;

  SwapWorker(const std::string& folder, const SwapOptions& options);
  ~SwapWorker();
  SwapWorker(const SwapWorker&) = delete;
  SwapWorker& operator=(const SwapWorker&) = delete;

  /// Allocates a slot of `bytes` and returns where it begins; throws an Error if there is not
  /// enough space.
  int64_t take(int64_t bytes);
  void give_back(int64_t first, int64_t bytes);
  int64_t used() const;

  /// Begins the job; the job and its memory must stay until wait().
  void begin(SwapJob& job);
  /// Waits until the job has ended. Returns the error, or "".
  std::string wait(SwapJob& job);
  /// Counts bytes that a plan writes or reads.
  void count(bool writing, int64_t bytes) { (writing ? written_bytes_ : read_bytes_) += bytes; }
  bool planned() const { return fd_ < 0; }

  const std::string& folder() const { return folder_; }
  int64_t bytes() const { return bytes_; }
  bool direct() const { return direct_; }
  int descriptor() const { return fd_; }
  int64_t read_bytes() const { return read_bytes_; }
  int64_t written_bytes() const { return written_bytes_; }

 private:
  struct Piece {
    SwapJob* job;
    int64_t begin;  // in the job's bytes
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte, Free>;  // kPiece bytes that begin at a block

  void open_file();
  void go_past_the_cache();
  void start(int threads);
  void stop();
  void run(std::byte* buffer);
  std::string move(const Piece& piece, std::byte* buffer);
  std::string move_bytes(bool writing, std::byte* data, int64_t bytes, int64_t first);

  std::string folder_;
  int64_t bytes_;
  int fd_ = -1;
  bool direct_ = false;
  std::atomic<int64_t> read_bytes_ = 0, written_bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  SwapSlots slots_;
  std::deque<Piece> pieces_;
  bool ending_ = false;
  std::vector<Buffer> buffers_;
  std::vector<std::thread> threads_;
};

/// Bytes rounded up to whole blocks.
inline int64_t whole_blocks(int64_t bytes) {
  return (bytes + SwapFile::kBlock - 1) / SwapFile::kBlock * SwapFile::kBlock;
}

}  // namespace hero::core
