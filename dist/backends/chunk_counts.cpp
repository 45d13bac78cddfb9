#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/chunk_counts.h>

namespace hero::dist {
namespace {

size_t place_of(int i) { return static_cast<size_t>(i); }

Part balanced_part(int64_t total, int parts, int i) {
  const int64_t share = total / parts, longer = total % parts;
  return {share * i + std::min<int64_t>(i, longer), share + (i < longer ? 1 : 0)};
}

}  // namespace

PartCounts::PartCounts(std::vector<int64_t> counts) { take(counts); }
PartCounts::PartCounts(std::initializer_list<int64_t> counts) {
  take(std::span(counts.begin(), counts.size()));
}

void PartCounts::take(std::span<const int64_t> counts) {
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
    even = balanced_part(total_, size_, i).count == counts[place_of(i)];
  }
  if (!even) begins_ = std::move(begins);
}

PartCounts PartCounts::balanced(int64_t total, int parts) {
  check(total >= 0 && parts > 0, "part counts: ", total, " elements for ", parts,
        " parts; there must be parts, and no fewer than 0 elements");
  PartCounts counts;
  counts.size_ = parts;
  counts.total_ = total;
  return counts;
}

Part PartCounts::part(int i) const {
  if (is_balanced()) return balanced_part(total_, size_, i);
  const int64_t begin = begins_->at[place_of(i)];
  return {begin, static_cast<int64_t>(static_cast<uint64_t>(begins_->at[place_of(i) + 1]) -
                                      static_cast<uint64_t>(begin))};
}

int PartCounts::part_of(int64_t at) const {
  if (!is_balanced()) {  // empty parts end where they begin
    const auto& begins = begins_->at;
    return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), at) - begins.begin()) -
           1;
  }
  const int64_t share = total_ / size_, longer = total_ % size_;
  const int64_t in_longer = longer * share + longer;
  return static_cast<int>(at < in_longer ? at / (share + 1) : longer + (at - in_longer) / share);
}

PartCounts PartCounts::as_list() const {
  PartCounts list = *this;
  list.is_list_ = size_ > 0;
  return list;
}

std::vector<int64_t> PartCounts::to_vector() const {
  std::vector<int64_t> counts;
  counts.reserve(place_of(size_));
  for (int i = 0; i < size_; ++i) counts.push_back(count(i));
  return counts;
}

Digest PartCounts::digest() const {
  if (!is_balanced()) return begins_->digest;
  return Digest().put(static_cast<uint64_t>(size_)).put(static_cast<uint64_t>(total_));
}

bool operator==(const PartCounts& a, const PartCounts& b) {
  if (a.size_ != b.size_ || a.total_ != b.total_ || a.is_balanced() != b.is_balanced()) {
    return false;
  }
  if (a.begins_ == b.begins_) return true;
  return a.begins_->digest == b.begins_->digest && a.begins_->at == b.begins_->at;
}

std::string to_string(const PartCounts& counts) {
  if (!counts.is_list()) return "even parts";
  std::string text = "[";
  for (int i = 0; i < counts.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(counts.count(i));
  }
  return text + "]";
}

}  // namespace hero::dist
