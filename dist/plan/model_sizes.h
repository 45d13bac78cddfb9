#pragma once
// What planning must know of a model: its parameters and its work, layer by layer, as the model
// itself shows them on meta.
#include <array>
#include <cstdint>
#include <vector>

#include <hero/core/profile/work.h>
#include <hero/dist/plan.h>

namespace hero::dist {

/// Sizes of a PlanModel.
struct PlanModelSizes {
  struct Layer {
    double cut = 0.0;    ///< elements of parameters that tensor ranks divide
    double whole = 0.0;  ///< elements of the others
    bool trains = true;  ///< whether all parameters have gradients
    /// Flops of a forward of one sample, by WorkKind; of the last layer with its loss.
    std::array<double, core::kWorkKindCount> flops = {};
    double all_flops() const;
  };
  Layer first, block, last;  ///< all blocks are alike
  int64_t blocks = 0;
  bool ties = false;         ///< whether a parameter is in several layers
  bool checkpoints = false;  ///< whether blocks can be checkpointed
  int64_t sample_bytes = 0;  ///< of one sample and its target
};

/// Whether the model can be cut into so many slices.
bool can_cut(const PlanModel& model, int slices);

/// The blocks of the model of a request.
int64_t blocks_of(const PlanRequest& request);
/// Bytes of a sample and its target, as a step holds them.
int64_t sample_bytes(const PlanRequest& request);

}  // namespace hero::dist
