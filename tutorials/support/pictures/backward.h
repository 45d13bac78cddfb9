#pragma once
// The pictures of chapter 6a.
#include <array>
#include <string>
#include <vector>

#include "support/pictures/plot.h"

namespace tutorial {

/// A node of the chapter's graph: how it is computed, and its place: the column from the left and
/// the row from the top.
struct GraphPlace {
  std::string name;
  double column, row;
};
/// The neuron's eleven nodes, in the order of their computation.
extern const std::array<GraphPlace, 11> kNeuron;

struct GraphNode {
  double value, gradient;
};
/// Draws the neuron with what its nodes hold, one for each of kNeuron, into
/// folder/06a_backward_graph.
void draw_graph(const std::vector<GraphNode>& nodes, const std::string& folder);

/// Errors of two kinds of finite differences over the step, on logarithmic axes; errors of 0 are
/// left out. Into folder/06a_backward_differences.
void draw_differences(const Values& steps, const Values& forward, const Values& central,
                      const std::string& folder);

}  // namespace tutorial
