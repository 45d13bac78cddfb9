// Which rank has which elements: where the parameters of a unit lie in its flat parameter, and how
// that is cut into shards, one for each rank of the group.
#include <algorithm>
#include <numeric>

#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {
namespace {

int64_t up_to_multiple(int64_t n, int64_t of) { return (n + of - 1) / of * of; }

}  // namespace

// [note: places in a flat parameter] Kernels read 16 bytes at a time where an array begins at a
// multiple of that, in each dtype to which the unit may be converted: so parameters that are cut
// begin at multiples of 8 elements. Those whose sizes are such multiples come first, in their
// order, and leave no gaps. The flat parameter ends at a multiple of 8 elements a rank, so that all
// ranks' parts are equal and begin at 16 bytes, and so are the parts of a part among replicas: NCCL
// gathers and reduces equal parts in one call of its own. Gaps and what is added at the end hold
// zeros; no leaf has them. Parameters that stay whole, DDP's, keep the order of their gradients.
int64_t Unit::place_parameters() {
  constexpr int64_t kAlign = 8;
  const bool cuts = options_.stage != Stage::none;
  int64_t total = 0;
  if (cuts) {
    std::stable_partition(parameters_.begin(), parameters_.end(),
                          [](const UnitParameter& m) { return m.leaf.numel() % kAlign == 0; });
  }
  for (UnitParameter& parameter : parameters_) {
    if (cuts) total = up_to_multiple(total, kAlign);
    parameter.place = {total, parameter.leaf.numel()};
    total += parameter.place.count;
  }
  return cuts ? up_to_multiple(total, kAlign * options_.groups.ranks()) : total;
}

int64_t Unit::numel() const {
  return std::accumulate(
      parameters_.begin(), parameters_.end(), int64_t{0},
      [](int64_t n, const UnitParameter& parameter) { return n + parameter.place.count; });
}

std::vector<int> Groups::holders(int i) const {
  if (!replicas.defined()) return {shard.world_ranks()[static_cast<size_t>(i)]};
  std::vector<int> ranks;
  const auto group = static_cast<size_t>(shard.size());
  const std::span<const int> numbers = all.world_ranks();
  for (size_t at = static_cast<size_t>(i); at < numbers.size(); at += group) {
    ranks.push_back(numbers[at]);
  }
  return ranks;
}

std::vector<HeldPart> Unit::parts_of(const UnitParameter& parameter) const {
  std::vector<HeldPart> parts;
  const int64_t end = parameter.place.begin + parameter.place.count;
  for (int64_t at = parameter.place.begin; at < end;) {
    const int rank = flat_.counts.chunk_of(at);
    const Chunk whole = flat_.counts.chunk(rank);
    const int64_t next = std::min(end, whole.begin + whole.count);
    parts.push_back({{at - parameter.place.begin, next - at}, options_.groups.holders(rank)});
    at = next;
  }
  return parts;
}

Unit::ShardPart Unit::shard_of(const UnitParameter& parameter) const {
  const Chunk &own = flat_.own, &place = parameter.place;
  const int64_t begin = std::max(own.begin, place.begin);
  const int64_t count = std::min(own.begin + own.count, place.begin + place.count) - begin;
  if (count <= 0) return {};
  return {begin - place.begin, {begin - own.begin, count}};
}

}  // namespace hero::dist
