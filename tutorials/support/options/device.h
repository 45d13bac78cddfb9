#pragma once
// Where the calling thread's tensors lie, for the option --device.
#include <hero/core/device.h>
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

}  // namespace tutorial
