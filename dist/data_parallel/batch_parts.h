#pragma once
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

/// Registers hooks on the module that set hero::batch_part() to this rank's part of the batch
/// during forward, unless an enclosing module has already set it. Forward passes that activation
/// checkpointing repeats have the same part as the first.
void set_batch_part_within(nn::Module& module, const Groups& groups);

}  // namespace hero::dist
