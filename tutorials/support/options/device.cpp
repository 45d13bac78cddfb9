#include "support/options/device.h"

#include <hero/core/accelerator.h>
#include <hero/core/error.h>

namespace tutorial {

using hero::Device, hero::DeviceType, hero::dist::EngineKind;

namespace {
thread_local Device current = hero::kCpu;
}  // namespace

Device device() { return current; }

OnDevice::OnDevice(Device device) : previous_(current), modules_(device) {
  if (device.type == DeviceType::cuda) hero::core::accelerator("--device", device);
  current = device;
}
OnDevice::~OnDevice() { current = previous_; }

Device device_of(const hero::dist::Communicator& rank, Device wanted) {
  if (wanted.type != DeviceType::cuda) return wanted;
  hero::check(rank.engine_kind() != EngineKind::mpi,
              "--device: the mpi engine moves arrays of the ",
              "host alone; give every process a GPU with --engine nccl");
  if (rank.engine_kind() != EngineKind::nccl) return wanted;
  hero::check(wanted.index == 0,
              "--device: with --engine nccl every rank has a GPU of its own, not ", wanted,
              "; use cuda");
  return rank.device();
}

}  // namespace tutorial
