#pragma once
// Chapter 10: what a collective makes of the numbers of all ranks, as a picture.
#include <string>
#include <vector>

namespace tutorial {

/// One collective: each rank's numbers before and after, as cells() writes them.
struct Exchange {
  std::string name;
  std::vector<std::string> before, after;
};

/// Draws them in two columns, a row of boxes for each rank, coloured by the rank that a number
/// comes from; sums are grey. Into folder/10_collectives.
void draw_exchanges(const std::vector<Exchange>& exchanges, const std::string& folder);

/// Draws the tree in which the numbers of six ranks are added up. A colour stands for a host of two
/// ranks. Into folder/10_tree.
void draw_tree(const std::string& folder);

/// Draws what four ranks hold before the rounds of an all_reduce in a ring and after each: of how
/// many ranks each part is the sum. Into folder/10_ring.
void draw_ring(const std::string& folder);

}  // namespace tutorial
