#pragma once
// ChunkCounts: how a packed buffer is divided among ranks, one contiguous chunk for each rank, in
// the order of ranks.
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
/// chunk takes the same time for any number of chunks: balanced() chunks are stored as two numbers,
/// others as a shared array of their first elements. Two objects are equal if their counts are,
/// however they were made. A default-constructed object has no chunks.
class ChunkCounts {
 public:
  ChunkCounts() = default;
  /// Chunks of these counts. A negative count, or counts that add up to more than 2^63 - 1, are not
  /// an Error here, but in the operation that gets them; see fault().
  ChunkCounts(std::vector<int64_t> counts);
  ChunkCounts(std::initializer_list<int64_t> counts);
  /// `total` elements divided among `chunks` ranks as evenly as possible: the first total % chunks
  /// chunks are one element longer than the others. Throws an Error if `total` is negative or
  /// `chunks` is not positive.
  static ChunkCounts balanced(int64_t total, int chunks);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Elements of all chunks together.
  int64_t total() const { return total_; }
  /// The number of elements of chunk `i`, its first element, and both; `i` must be from 0 to size()
  /// - 1.
  int64_t count(int i) const { return chunk(i).count; }
  int64_t first(int i) const { return chunk(i).begin; }
  Chunk chunk(int i) const;
  /// The chunk in which element `at` lies; `at` must be from 0 to total() - 1.
  int chunk_of(int64_t at) const;

  /// True when there are chunks and all have the same count.
  bool all_equal() const { return size_ > 0 && is_balanced() && total_ % size_ == 0; }
  /// True if the chunks are those that balanced() makes, however they were made.
  bool is_balanced() const { return begins_ == nullptr; }
  /// True if it was made from a list of counts. A rank that gives a list and a rank that gives none
  /// make different calls, even if the counts are the same.
  bool is_list() const { return is_list_; }
  /// The same chunks, made of a list.
  ChunkCounts as_list() const;
  /// What is wrong with the counts, for an error: "a negative count", "counts of more than 2^63 - 1
  /// elements"; null if nothing is wrong.
  const char* fault() const { return fault_; }
  std::vector<int64_t> to_vector() const;
  /// A digest of the counts, in constant time; equal chunks have equal digests.
  Digest digest() const;

  friend bool operator==(const ChunkCounts& a, const ChunkCounts& b);

 private:
  void take(std::span<const int64_t> counts);

  struct Begins {
    std::vector<int64_t> at;  // the first element of each chunk, and the total
    Digest digest;
  };
  int size_ = 0;
  bool is_list_ = false;
  int64_t total_ = 0;
  const char* fault_ = nullptr;
  std::shared_ptr<const Begins> begins_;  // null: balanced
};

/// "[5, 0, 2]", or "even parts" if they were not made from a list.
std::string to_string(const ChunkCounts& counts);

}  // namespace hero::dist
