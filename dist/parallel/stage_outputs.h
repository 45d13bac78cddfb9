#pragma once
// The shapes and dtypes of the messages between pipeline stages, which receivers must know in
// advance.
#include <optional>
#include <vector>

#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// The shape and dtype of a stage's output for one micro-batch.
struct StageOutput {
  Shape shape;
  DType dtype = kFloat32;
};

/// The dtypes of a module under fully_shard(); absent: its own.
struct StageDTypes {
  std::optional<DType> parameters = {}, output = {};
};

/// Entry s is the output of stage s if the first stage gets a tensor like `x`. It is found by
/// running the layers on meta, without memory or communication; the module's slots hold other
/// tensors meanwhile. Throws an Error if an output has a dtype without gradients.
std::vector<StageOutput> stage_outputs(nn::PipelineModel& model, const std::vector<size_t>& begins,
                                       const std::vector<StageValue>& values, const Tensor& x,
                                       const StageDTypes& dtypes);

}  // namespace hero::dist
