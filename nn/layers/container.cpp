#include <algorithm>

#include <hero/core/io/name_list.h>
#include <hero/nn/container.h>

namespace hero::nn {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (size_t i = 0; i < size(); ++i) y = child_at(i)(y);
  return y;
}

Module& Sequential::operator[](size_t i) {
  check(i < size(), "Sequential: no module ", i, " of ", size());
  return child_at(i);
}

Module& ModuleDict::operator[](const std::string& name) {
  if (Module* const module = own_child(name)) return *module;
  core::NameList known;
  for (const auto& [key, module] : named_children()) known.add(key);
  fail("ModuleDict: no module '", name, "'; there are: ", known.text());
}

bool ModuleDict::contains(const std::string& name) const { return own_child(name) != nullptr; }

Tensor& ParameterList::append(const Tensor& value) {
  list_.push_back(&parameter(std::to_string(list_.size()), value));
  return *list_.back();
}
Tensor& ParameterList::operator[](size_t i) {
  check(i < size(), "ParameterList: no parameter ", i, " of ", list_.size());
  return *list_[i];
}

Tensor& ParameterDict::insert(const std::string& name, const Tensor& value) {
  Tensor& added = parameter(name, value);
  ++size_;
  return added;
}
Tensor& ParameterDict::operator[](const std::string& name) {
  Slot* const slot = own_slot(name);
  check(slot != nullptr, "ParameterDict: no parameter '", name, "'");
  return slot->tensor;
}
bool ParameterDict::contains(const std::string& name) const { return own_slot(name) != nullptr; }

}  // namespace hero::nn
