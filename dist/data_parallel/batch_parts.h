#pragma once
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

/// From now on the module's forward computes with this rank's part of a batch (hero::batch_part()),
/// where no module around it says which part that is. A second run of a checkpoint finds the part
/// of the first.
void set_batch_part_within(nn::Module& module, const Groups& groups);

}  // namespace hero::dist
