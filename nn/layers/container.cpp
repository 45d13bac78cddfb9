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

}  // namespace hero::nn
