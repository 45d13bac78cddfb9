#pragma once
// The option --device, and where the calling rank's tensors lie.
#include <hero/core/device.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace tutorial {

/// Where the calling thread's tensors lie: the cpu unless an OnDevice is open.
hero::Device device();

/// While it lives, device() is that one on this thread, and modules made here lie there. An Error
/// where there is no such device.
class OnDevice {
 public:
  explicit OnDevice(hero::Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  hero::Device previous_;
  hero::nn::DeviceScope modules_;
};

/// The device of a rank where --device said `wanted`: ranks that are threads share that one; with
/// --engine nccl each has a GPU of its own. An Error where the engine moves no arrays of a GPU.
hero::Device device_of(const hero::dist::Communicator& rank, hero::Device wanted);

}  // namespace tutorial
