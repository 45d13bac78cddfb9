#pragma once
// ShownSlots: slots of modules that hold other tensors for a while; internal to dist.
#include <utility>
#include <vector>

#include <hero/nn/module.h>

namespace hero::dist {

/// While it lives, slots hold other tensors, such as the copies with which one slice is computed.
class ShownSlots {
 public:
  ShownSlots() = default;
  ShownSlots(const ShownSlots&) = delete;
  ShownSlots& operator=(const ShownSlots&) = delete;
  ~ShownSlots() {
    for (auto& [slot, tensor] : before_) slot->tensor = tensor;
  }
  void show(nn::Slot* slot, const Tensor& tensor) {
    before_.emplace_back(slot, slot->tensor);
    slot->tensor = tensor;
  }

 private:
  std::vector<std::pair<nn::Slot*, Tensor>> before_;
};

}  // namespace hero::dist
