#pragma once
// The accelerator that meta stands for where it is planned for a GPU.
#include <hero/core/accelerator.h>

namespace hero::core {

/// Its device is kMeta, its page-locked memory kPlannedHost. Copies move nothing: the thread's
/// TransferMeter, where there is one, hears of them and of those that the thread waits for.
Accelerator& planned_accelerator();

}  // namespace hero::core
