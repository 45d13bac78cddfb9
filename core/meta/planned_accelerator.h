#pragma once
// The accelerator of meta if meta is planned for a GPU.
#include <hero/core/accelerator.h>

namespace hero::core {

/// Its device is kMeta, and its page-locked memory kPlannedHost. Copies move nothing: the thread's
/// TransferMeter, if there is one, is told when a copy begins and when the thread waits for it.
Accelerator& planned_accelerator();

}  // namespace hero::core
