#pragma once
// The host beside a device that is only planned.
#include <hero/core/device/backend.h>

namespace hero::core {

/// What meta_backend() is, for arrays on kPlannedHost; another object, so that work done there can
/// be told from a device's.
Backend& planned_host_backend();

}  // namespace hero::core
