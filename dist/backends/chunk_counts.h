#pragma once
// ChunkCounts: how a packed buffer is cut among ranks, one slice a rank, one behind the other.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/dist/backends/digest.h>

namespace hero::dist {

/// A chunk of a packed buffer, in elements.
struct Chunk {
  int64_t begin = 0;
  int64_t count = 0;
};

/// The elements of each rank's chunk of a buffer. It is cheap to copy, and every question about one
/// chunk takes the same time for any number of chunks: chunks as balanced() cuts them are known by
/// two numbers, others share one array of where each begins. Two are equal when their numbers are,
/// however they were made. A default-made one is empty: it cuts nothing.
class ChunkCounts {
 public:
  ChunkCounts() = default;
  /// Chunks of these counts. A negative count, or counts that add up to more than 2^63 - 1, are
  /// kept so that the operation that is given them can say so; see fault().
  ChunkCounts(std::vector<int64_t> counts);
  ChunkCounts(std::initializer_list<int64_t> counts);
  /// `total` elements cut for `chunks` ranks as evenly as they go: the first total % chunks chunks
  /// are one element longer than the others. An Error where `total` is negative or there are no
  /// chunks.
  static ChunkCounts balanced(int64_t total, int chunks);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Elements of all chunks together.
  int64_t total() const { return total_; }
  /// Elements of chunk `i`, where it begins, and both; `i` must be from 0 to size() - 1.
  int64_t count(int i) const { return chunk(i).count; }
  int64_t first(int i) const { return chunk(i).begin; }
  Chunk chunk(int i) const;
  /// The chunk in which element `at` lies; `at` must be from 0 to total() - 1.
  int chunk_of(int64_t at) const;

  /// True when there are chunks and all have the same count.
  bool all_equal() const { return size_ > 0 && is_balanced() && total_ % size_ == 0; }
  /// True when the chunks are those that balanced() makes, whoever made them.
  bool is_balanced() const { return begins_ == nullptr; }
  /// True when it was made of a list: ranks that give one and ranks that do not make different
  /// calls, also where the numbers are the same.
  bool is_list() const { return is_list_; }
  /// The same chunks, made of a list.
  ChunkCounts as_list() const;
  /// What is wrong with the counts, for an error: "a negative count", "counts of more than 2^63 - 1
  /// elements"; null when nothing is.
  const char* fault() const { return fault_; }
  std::vector<int64_t> to_vector() const;
  /// Equal chunks have equal digests; known beforehand.
  Digest digest() const;

  friend bool operator==(const ChunkCounts& a, const ChunkCounts& b);

 private:
  void take(std::span<const int64_t> counts);

  struct Begins {
    std::vector<int64_t> at;  // of each chunk, and behind the last
    Digest digest;
  };
  int size_ = 0;
  bool is_list_ = false;
  int64_t total_ = 0;
  const char* fault_ = nullptr;
  std::shared_ptr<const Begins> begins_;  // null: balanced
};

/// "[5, 0, 2]", or "even parts" for what was not made of a list.
std::string to_string(const ChunkCounts& counts);

}  // namespace hero::dist
