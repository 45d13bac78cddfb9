#include <algorithm>

#include <hero/core/io/name_list.h>
#include <hero/nn/container.h>

namespace hero::nn {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module* module : children()) y = (*module)(y);
  return y;
}

Module& Sequential::operator[](size_t i) {
  check(i < size(), "Sequential: no module ", i, " of ", size());
  return *children()[i];
}

Module& ModuleDict::operator[](const std::string& name) {
  core::NameList known;
  for (const auto& [key, module] : named_children()) {
    if (key == name) return *module;
    known.add(key);
  }
  fail("ModuleDict: no module '", name, "'; there are: ", known.text());
}

bool ModuleDict::contains(const std::string& name) const {
  for (const auto& [key, module] : named_children()) {
    if (key == name) return true;
  }
  return false;
}

Tensor& ParameterList::append(const Tensor& value) {
  list_.push_back(&parameter(std::to_string(list_.size()), value));
  return *list_.back();
}
Tensor& ParameterList::operator[](size_t i) {
  check(i < size(), "ParameterList: no parameter ", i, " of ", list_.size());
  return *list_[i];
}

Tensor& ParameterDict::insert(const std::string& name, const Tensor& value) {
  list_.emplace_back(name, &parameter(name, value));
  return *list_.back().second;
}
Tensor& ParameterDict::operator[](const std::string& name) {
  check_not_moved();
  for (const auto& [each, at] : list_) {
    if (each == name) return *at;
  }
  fail("ParameterDict: no parameter '", name, "'");
}
bool ParameterDict::contains(const std::string& name) const {
  check_not_moved();
  return std::any_of(list_.begin(), list_.end(),
                     [&](const auto& each) { return each.first == name; });
}

}  // namespace hero::nn
