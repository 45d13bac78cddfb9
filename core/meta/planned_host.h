#pragma once
// The backend of host memory beside a planned device.
#include <hero/core/device/backend.h>

namespace hero::core {

/// The meta backend for arrays on kPlannedHost. It is another object than meta_backend(), so that
/// the host's work can be distinguished from a device's.
Backend& planned_host_backend();

}  // namespace hero::core
