#pragma once
// What a program may ask of the GPUs. Tensors get there with x.to({DeviceType::cuda, 0}) or with
// `.device` in their options; nothing here is needed for that. In a build without CUDA all of this
// exists, and there are no devices.
#include <string>

#include <hero/core/device.h>

namespace hero::cuda {

/// Whether this build has the CUDA backend.
bool is_built();

/// GPUs that can be used now; 0 without a driver, and in a build without CUDA.
int device_count();

/// Whether there is at least one.
inline bool is_available() { return device_count() > 0; }

/// Why there is none, in one line; "" where there is one.
std::string reason();

/// Waits until the GPU has done everything it was asked for by this thread; throws what went wrong
/// meanwhile.
void synchronize(Device device = {DeviceType::cuda, 0});

}  // namespace hero::cuda
