#include <hero/core/threads/thread_state.h>
#include <hero/nn/module.h>

namespace hero::nn {

namespace {
thread_local Device current_device = kCpu;
[[maybe_unused]] const core::ThreadSlot<Device> kDeviceSlot([] { return current_device; },
                                                            [](Device device) {
                                                              current_device = device;
                                                            });
}  // namespace

DeviceScope::DeviceScope(Device device) : previous_(current_device) { current_device = device; }
DeviceScope::~DeviceScope() { current_device = previous_; }
Device DeviceScope::current() { return current_device; }

}  // namespace hero::nn
