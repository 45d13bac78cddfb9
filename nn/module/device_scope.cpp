#include <hero/nn/module.h>

namespace hero::nn {

namespace {
thread_local Device current_device = kCpu;
}  // namespace

DeviceScope::DeviceScope(Device device) : previous_(current_device) { current_device = device; }
DeviceScope::~DeviceScope() { current_device = previous_; }
Device DeviceScope::current() { return current_device; }

}  // namespace hero::nn
