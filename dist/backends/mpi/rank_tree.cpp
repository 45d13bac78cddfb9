#include <algorithm>
#include <iterator>

#include <hero/dist/backends/mpi/rank_tree.h>

namespace hero::dist {

RankTree::RankTree(int rank, int size) {
  while (2 * power_ <= size) power_ *= 2;
  if (rank >= power_) return;
  int below = 1;  // this part's ranks up to P are `rank` and those behind it
  for (; below < power_ && (rank & below) == 0; below *= 2) children_.push_back(rank | below);
  if (rank + power_ < size) children_.push_back(rank + power_);
  part_ = below + std::clamp(size - power_ - rank, 0, below);
}

int RankTree::parent(int rank) const {
  if (rank == 0) return -1;
  return rank >= power_ ? rank - power_ : rank & (rank - 1);
}

std::vector<RankRun> runs_of(const std::vector<int>& ranks) {
  std::vector<RankRun> runs;
  for (size_t i = 0; i < ranks.size();) {
    RankRun run{ranks[i], 1, 1};
    if (i + 1 < ranks.size()) run.step = ranks[i + 1] - ranks[i];
    for (++i; i < ranks.size() && ranks[i] == ranks[i - 1] + run.step; ++i) ++run.count;
    runs.push_back(run);
  }
  return runs;
}

std::vector<int> ranks_of(const std::vector<RankRun>& runs) {
  std::vector<int> ranks;
  for (const RankRun& run : runs) {
    for (int i = 0; i < run.count; ++i) ranks.push_back(run.first + i * run.step);
  }
  return ranks;
}

void add_ranks(std::vector<int>& to, const std::vector<int>& more) {
  std::vector<int> all;
  std::set_union(to.begin(), to.end(), more.begin(), more.end(), std::back_inserter(all));
  to.swap(all);
}

}  // namespace hero::dist
