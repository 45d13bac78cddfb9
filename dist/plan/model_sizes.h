#pragma once
// The parameters and the work of a model's layers, which planning needs; measured by running the
// model on meta.
#include <array>
#include <cstdint>
#include <vector>

#include <hero/core/profile/kernel_cost.h>
#include <hero/dist/plan.h>

namespace hero::dist {

/// Sizes of a PlanModel.
struct PlanModelSizes {
  struct Layer {
    double cut = 0.0;    ///< elements of parameters that tensor parallelism cuts
    double whole = 0.0;  ///< elements of the others
    bool trains = true;  ///< whether all parameters have gradients
    /// Flops of a forward of one sample, by KernelKind; of the last layer with its loss.
    std::array<double, core::kKernelKindCount> flops = {};
    double all_flops() const;
  };
  Layer first, block, last;  ///< all blocks are alike
  int64_t blocks = 0;
  bool ties = false;         ///< whether a parameter is in several layers
  bool checkpoints = false;  ///< whether blocks can be checkpointed
  int64_t sample_bytes = 0;  ///< bytes of one sample and its target
};

/// Whether tensor parallelism can cut the model into this number of slices.
bool can_cut(const PlanModel& model, int slices);

/// The number of blocks of the model of a request.
int64_t blocks_of(const PlanRequest& request);
/// Bytes of a sample and its target, as a step holds them.
int64_t sample_bytes(const PlanRequest& request);

}  // namespace hero::dist
