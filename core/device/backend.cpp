#include <hero/core/accelerator.h>
#include <hero/core/backend.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/device/asking_backend.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/planned_device.h>
#include <hero/core/profile/metered_backend.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

void Backend::log_likelihood_in_place(const Array& g, const Array& x, const Array& classes,
                                      const Array& out, const Array& log_sum) {
  log_likelihood(x, classes, out, log_sum);
  log_likelihood_backward(g, x, classes, log_sum, x);
}

Backend& cpu_backend() {
  static Backend& chosen = cpu::kernels().backend;
  return chosen;
}

namespace {

Backend& plain_backend(Device device) {
  if (device.type == DeviceType::cpu) return cpu_backend();
  if (device == kPlannedHost) return planned_host_backend();
  if (device.type == DeviceType::meta) return meta_backend();
  return accelerator("backend", device).backend(device.index);
}

// see [note: forks]
[[maybe_unused]] const bool kCpuBackendAtFork = at_fork([] {
  try {
    cpu_backend();
  } catch (const std::exception&) {  // the first kernel will say it again, to somebody who listens
  }
});

}  // namespace

Backend& backend(Device device) {
  Backend* found = &plain_backend(device);
  if (has_fetchers() && device.type != DeviceType::meta) found = &asking(*found);
  if (!work_meter) return *found;
  return metered(*found, device == kPlannedHost ? WorkPlace::host : WorkPlace::device);
}

}  // namespace hero::core
