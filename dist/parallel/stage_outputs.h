#pragma once
// What travels between the stages of a pipeline: shapes and dtypes, which receivers must know
// before anything comes.
#include <optional>
#include <vector>

#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// What one stage hands to the next for one micro-batch.
struct StageOutput {
  Shape shape;
  DType dtype = kFloat32;
};

/// The dtypes of a module under fully_shard(); absent: its own.
struct StageDTypes {
  std::optional<DType> parameters = {}, output = {};
};

/// Entry s is what stage s hands to stage s + 1 where the first one gets a tensor like `x`: found
/// by running the layers on meta, which costs no bytes and asks no other rank. The module's slots
/// hold other tensors meanwhile. An Error for an output of a dtype that has no gradients.
std::vector<StageOutput> stage_outputs(nn::Chain& chain, const std::vector<size_t>& begins,
                                       const std::vector<StageValue>& values, const Tensor& x,
                                       const StageDTypes& dtypes);

}  // namespace hero::dist
