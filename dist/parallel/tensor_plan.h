#pragma once
// Makes the regions of a plan of tensor_parallel().
#include <vector>

#include <hero/dist/parallel/tensor_regions.h>
#include <hero/dist/tensor_parallel.h>

namespace hero::dist {

/// The regions of a plan, with all parameters that they cut, in the order of modules. Throws an
/// Error for a path without a module, a module or parameter that is cut twice or cannot be cut that
/// way, and sizes that `slice_count` does not divide.
std::vector<Region> regions_of(nn::Module& module, const TensorPlan& plan, int slice_count);

/// Changes the regions so that, between the cut modules of the blocks of each stack, a rank has
/// only its positions of the sequence. Throws an Error for a module without a stack, and for a
/// block with parameters that are neither cut nor used position by position.
void cut_sequence(nn::Module& module, std::vector<Region>& regions);
/// Tells each stack that its blocks have one of `ranks` parts of the positions each.
void tell_sequence(nn::Module& module, int ranks);

/// Tells each attention layer that the plan cuts by heads how often it gets each head of keys and
/// values.
void tell_heads(nn::Module& module, const TensorPlan& plan, int slice_count);

/// The text that must be the same on all ranks, a line for each region.
std::string text_of(const std::vector<Region>& regions, int slice_count);

}  // namespace hero::dist
