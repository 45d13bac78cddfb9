#pragma once
// Chapters 11 to 17: parameters in a flat parameter, in buckets and in shards, as pictures.
#include <string>
#include <vector>

#include "support/options/ranks.h"
#include "support/pictures/plot.h"

namespace tutorial {

/// A parameter's place in a flat parameter.
struct InFlatParameter {
  std::string name;
  int64_t begin, numel;
};

/// Draws a flat parameter: the parameters in it to scale, below it the shards of the ranks, the
/// r-th of counts[r] elements. Into folder/name.
void draw_flat_parameter(const std::string& title, const std::vector<InFlatParameter>& parameters,
                         const std::vector<int64_t>& counts, const std::string& folder,
                         const std::string& name);

/// Draws the flat parameter of each unit of the library, to scale, cut in the shards of `ranks`
/// ranks. Into folder/name.
void draw_units(const std::string& title, const std::vector<hero::dist::UnitInfo>& units, int ranks,
                const std::string& folder, const std::string& name);

/// Buckets of one choice of their sizes.
struct Buckets {
  std::string sizes;
  std::vector<hero::dist::UnitInfo> units;
};

/// Draws the layers of `net` from the left in the order in which backward completes their
/// gradients, all equally wide, and below them for each choice which of them travel together.
/// `ready`: the parameters in that order; a bucket ends with a layer. Into
/// folder/name.
void draw_buckets(const hero::nn::Module& net, const std::vector<std::string>& ready,
                  const std::vector<Buckets>& choices, const std::string& folder,
                  const std::string& name);

}  // namespace tutorial
