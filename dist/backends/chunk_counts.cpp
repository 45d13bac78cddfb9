#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/chunk_counts.h>

namespace hero::dist {
namespace {

size_t place_of(int i) { return static_cast<size_t>(i); }

Chunk balanced_chunk(int64_t total, int chunks, int i) {
  const int64_t share = total / chunks, longer = total % chunks;
  return {share * i + std::min<int64_t>(i, longer), share + (i < longer ? 1 : 0)};
}

}  // namespace

ChunkCounts::ChunkCounts(std::vector<int64_t> counts) { take(counts); }
ChunkCounts::ChunkCounts(std::initializer_list<int64_t> counts) {
  take(std::span(counts.begin(), counts.size()));
}

void ChunkCounts::take(std::span<const int64_t> counts) {
  if (counts.empty()) return;
  size_ = static_cast<int>(counts.size());
  is_list_ = true;
  auto begins = std::make_shared<Begins>();
  begins->at.push_back(0);
  begins->digest.put(counts.size());
  uint64_t end = 0;  // wraps where the counts are at fault
  for (const int64_t count : counts) {
    if (count < 0) fault_ = "a negative count";
    end += static_cast<uint64_t>(count);
    const auto at = static_cast<int64_t>(end);
    if (at < 0 && fault_ == nullptr) fault_ = "counts of more than 2^63 - 1 elements";
    begins->at.push_back(at);
    begins->digest.put(static_cast<uint64_t>(count));
  }
  total_ = begins->at.back();
  bool even = fault_ == nullptr;
  for (int i = 0; even && i < size_; ++i) {
    even = balanced_chunk(total_, size_, i).count == counts[place_of(i)];
  }
  if (!even) begins_ = std::move(begins);
}

ChunkCounts ChunkCounts::balanced(int64_t total, int chunks) {
  check(total >= 0 && chunks > 0, "chunk counts: ", total, " elements for ", chunks,
        " chunks; there must be chunks, and no fewer than 0 elements");
  ChunkCounts counts;
  counts.size_ = chunks;
  counts.total_ = total;
  return counts;
}

Chunk ChunkCounts::chunk(int i) const {
  if (is_balanced()) return balanced_chunk(total_, size_, i);
  const int64_t begin = begins_->at[place_of(i)];
  return {begin, static_cast<int64_t>(static_cast<uint64_t>(begins_->at[place_of(i) + 1]) -
                                      static_cast<uint64_t>(begin))};
}

int ChunkCounts::chunk_of(int64_t at) const {
  if (!is_balanced()) {  // empty chunks end where they begin
    const auto& begins = begins_->at;
    return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), at) - begins.begin()) -
           1;
  }
  const int64_t share = total_ / size_, longer = total_ % size_;
  const int64_t in_longer = longer * share + longer;
  return static_cast<int>(at < in_longer ? at / (share + 1) : longer + (at - in_longer) / share);
}

ChunkCounts ChunkCounts::as_list() const {
  ChunkCounts list = *this;
  list.is_list_ = size_ > 0;
  return list;
}

std::vector<int64_t> ChunkCounts::to_vector() const {
  std::vector<int64_t> counts;
  counts.reserve(place_of(size_));
  for (int i = 0; i < size_; ++i) counts.push_back(count(i));
  return counts;
}

Digest ChunkCounts::digest() const {
  if (!is_balanced()) return begins_->digest;
  return Digest().put(static_cast<uint64_t>(size_)).put(static_cast<uint64_t>(total_));
}

bool operator==(const ChunkCounts& a, const ChunkCounts& b) {
  if (a.size_ != b.size_ || a.total_ != b.total_ || a.is_balanced() != b.is_balanced()) {
    return false;
  }
  if (a.begins_ == b.begins_) return true;
  return a.begins_->digest == b.begins_->digest && a.begins_->at == b.begins_->at;
}

std::string to_string(const ChunkCounts& counts) {
  if (!counts.is_list()) return "even parts";
  std::string text = "[";
  for (int i = 0; i < counts.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(counts.count(i));
  }
  return text + "]";
}

}  // namespace hero::dist
