#include <unordered_map>

#include <hero/core/io/name_list.h>
#include <hero/nn/functional_call.h>

namespace hero::nn::detail {

void TensorsInPlace::put(const Named<Slot*>& slots, const std::vector<Tensor>& in_place_of,
                         const std::vector<Tensor>& tensors) {
  // What a tied parameter is given under another of its names comes last and stays.
  std::unordered_map<const hero::detail::TensorImpl*, const Tensor*> given;
  for (size_t i = 0; i < tensors.size(); ++i) given[in_place_of[i].impl()] = &tensors[i];
  for (const auto& [name, slot] : slots) {
    const auto found = given.find(slot->tensor.impl());
    if (found == given.end()) continue;
    before_.emplace_back(slot, slot->tensor);
    slot->tensor = *found->second;
  }
}

TensorsInPlace::TensorsInPlace(Module& module, const Named<Tensor>& tensors) {
  const Named<Slot*> slots = module.slots();
  std::unordered_map<std::string_view, const Slot*> by_name;
  for (const auto& [name, slot] : slots) by_name.emplace(name, slot);
  std::vector<Tensor> wanted, given;
  core::NameList unknown;
  for (const auto& [name, tensor] : tensors) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      unknown.add(name);
      continue;
    }
    check(tensor.defined(), "functional_call: the tensor for ", name, " is undefined");
    wanted.push_back(found->second->tensor);
    given.push_back(tensor);
  }
  check(unknown.empty(), "functional_call: ", module.type_name(),
        " has no parameter or buffer named ", unknown.text());
  put(slots, wanted, given);
}

TensorsInPlace::TensorsInPlace(Module& module, const std::vector<Tensor>& parameters) {
  const Named<Slot*> slots = module.slots();
  const std::vector<Tensor> own = module.parameters();
  check(own.size() == parameters.size(), "functional_call: ", module.type_name(), " has ",
        own.size(), " parameters, and ", parameters.size(), " tensors were given");
  for (size_t i = 0; i < own.size(); ++i) {
    check(parameters[i].defined(), "functional_call: tensor ", i, " is undefined");
  }
  put(slots, own, parameters);
}

TensorsInPlace::~TensorsInPlace() {
  for (auto& [slot, before] : before_) slot->tensor = before;
}

}  // namespace hero::nn::detail
