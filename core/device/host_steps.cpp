#include <hero/core/device/host_steps.h>

namespace hero::core {

HostSteps*& HostSteps::current() {
  thread_local HostSteps* steps = nullptr;
  return steps;
}

}  // namespace hero::core
