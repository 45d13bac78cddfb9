#pragma once
// Which modules are units of fully_shard().
#include <functional>
#include <string>
#include <vector>

#include <hero/nn/module.h>

namespace hero::dist {

/// A module that could be a unit.
struct Candidate {
  nn::Module& module;
  const std::string& path;  ///< below the sharded module; "" is that module itself
  int64_t numel;            ///< elements of its parameters that no module below it has taken
};

/// True for modules that become units; asked for children before their parents, and last for the
/// sharded module itself, where the answer does not count: what is left is its unit.
using UnitPolicy = std::function<bool(const Candidate&)>;

/// Each module of type M: each<nn::Block>().
template <class M>
UnitPolicy each() {
  return [](const Candidate& c) { return dynamic_cast<M*>(&c.module) != nullptr; };
}
/// The modules at these paths; a path that leads nowhere is an Error.
UnitPolicy each_of(std::vector<std::string> paths);
/// Each module with at least `numel` elements that no module below it has taken.
UnitPolicy at_least(int64_t numel);
/// Each module that has parameters of its own.
UnitPolicy each_with_parameters();
/// Each direct child.
UnitPolicy each_child();

}  // namespace hero::dist
