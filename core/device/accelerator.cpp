#include <atomic>

#include <hero/core/accelerator.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/exchange.h>
#include <hero/core/meta/planned_accelerator.h>

namespace hero::core {

namespace {
std::atomic<Accelerator*> registered = nullptr;
}  // namespace

void set_accelerator(Accelerator* accelerator) { registered = accelerator; }

Accelerator& accelerator(const char* op, Device device) {
  if (device == kMeta && kernels_of(kMeta) == DeviceType::cuda) return planned_accelerator();
  Accelerator* const found = registered;
  check(found != nullptr, op, ": device ", device,
        " is not available: this program was linked without the CUDA backend; link hero::hero, or "
        "use cpu or meta");
  const int count = found->device_count();
  check(count > 0, op, ": device ", device,
        " is not available: ", count > 0 ? std::string() : found->reason());
  check(device.index >= 0 && device.index < count, op, ": device ", device,
        " is not available: there ", count == 1 ? "is " : "are ", count,
        count == 1 ? " device" : " devices", ", numbered from 0");
  return *found;
}

std::vector<std::shared_ptr<DeviceEvent>> events_of_thread() {
  Accelerator* const found = registered;
  return found != nullptr ? found->record_events() : std::vector<std::shared_ptr<DeviceEvent>>();
}

void join_all(std::span<const std::shared_ptr<DeviceEvent>> events) {
  for (const auto& event : events) event->join();
}

void join_all_before_use(std::span<const std::shared_ptr<DeviceEvent>> events) {
  for (const auto& event : events) event->join_before_use();
}

}  // namespace hero::core
