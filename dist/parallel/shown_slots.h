#pragma once
// ShownSlots: parameters of modules that show other tensors for a while, for dist's own files.
#include <utility>
#include <vector>

#include <hero/nn/module.h>

namespace hero::dist {

/// Slots that show other tensors while it lives, such as the copies that one slice computes with.
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
