#pragma once
// RankTree: the tree along which ranks send to rank 0, and rank 0 to all, without a connection
// between every two ranks.
#include <vector>

namespace hero::dist {

/// Rank 0 is the root, and every rank has at most log2 N + 1 children and as many ranks above it.
/// Its edges join ranks that exchange summaries anyway (agreement.h): with P the largest power of
/// two up to N, the parent of a rank below P is that rank without its lowest set bit, and the
/// parent of rank P + i is rank i.
class RankTree {
 public:
  RankTree(int rank, int size);

  /// The rank above `rank`; -1 for rank 0.
  int parent(int rank) const;
  /// The ranks right below this one.
  const std::vector<int>& children() const { return children_; }
  /// The number of ranks in the subtree of this rank.
  int part() const { return part_; }

 private:
  int power_ = 1;  // P
  int part_ = 1;
  std::vector<int> children_;
};

/// Ascending ranks with a constant step. A list of ranks is compressed to a few runs: a regular
/// group, such as those of a mesh, is one run of any size.
struct RankRun {
  int first = 0, step = 1, count = 0;
};
std::vector<RankRun> runs_of(const std::vector<int>& ranks);
std::vector<int> ranks_of(const std::vector<RankRun>& runs);

/// Adds the ranks of one ascending list to another.
void add_ranks(std::vector<int>& to, const std::vector<int>& more);

}  // namespace hero::dist
