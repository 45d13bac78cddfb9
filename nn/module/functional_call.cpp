#include <algorithm>

#include <hero/core/io/name_list.h>
#include <hero/nn/functional_call.h>

namespace hero::nn::detail {

void TensorsInPlace::put(const Named<Slot*>& slots, const Tensor& in_place_of,
                         const Tensor& tensor) {
  // What a tied parameter is given under another of its names comes last and stays.
  for (auto& [slot, before] : before_) {
    if (is_same(before, in_place_of)) slot->tensor = tensor;
  }
  for (const auto& [name, slot] : slots) {
    if (!is_same(slot->tensor, in_place_of)) continue;
    before_.emplace_back(slot, in_place_of);
    slot->tensor = tensor;
  }
}

TensorsInPlace::TensorsInPlace(Module& module, const Named<Tensor>& tensors) {
  const Named<Slot*> slots = module.slots();
  std::vector<Tensor> wanted;
  core::NameList unknown;
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::find_if(slots.begin(), slots.end(),
                                    [&, n = name](const auto& slot) { return slot.first == n; });
    if (found == slots.end()) {
      unknown.add(name);
      continue;
    }
    check(tensor.defined(), "functional_call: the tensor for ", name, " is undefined");
    wanted.push_back(found->second->tensor);
  }
  check(unknown.empty(), "functional_call: ", module.type_name(),
        " has no parameter or buffer named ", unknown.text());
  for (size_t i = 0; i < tensors.size(); ++i) put(slots, wanted[i], tensors[i].second);
}

TensorsInPlace::TensorsInPlace(Module& module, const std::vector<Tensor>& parameters) {
  const Named<Slot*> slots = module.slots();
  const std::vector<Tensor> own = module.parameters();
  check(own.size() == parameters.size(), "functional_call: ", module.type_name(), " has ",
        own.size(), " parameters, and ", parameters.size(), " tensors were given");
  for (size_t i = 0; i < own.size(); ++i) {
    check(parameters[i].defined(), "functional_call: tensor ", i, " is undefined");
  }
  for (size_t i = 0; i < own.size(); ++i) put(slots, own[i], parameters[i]);
}

TensorsInPlace::~TensorsInPlace() {
  for (auto& [slot, before] : before_) slot->tensor = before;
}

}  // namespace hero::nn::detail
