#pragma once
// Policies: which modules are units of fully_shard().
#include <functional>
#include <string>
#include <vector>

#include <hero/nn/module.h>

namespace hero::dist {

/// A module that can become a unit.
struct Candidate {
  nn::Module& module;       ///< the module
  const std::string& path;  ///< below the sharded module; "" is that module itself
  int64_t numel;            ///< elements of its parameters that no module below it has taken
};

/// Returns true for modules that become units. It is called for children before their parents, and
/// last for the sharded module itself, where the result does not matter: all remaining parameters
/// are its unit.
using UnitPolicy = std::function<bool(const Candidate&)>;

/// Every module of type M is a unit: each<nn::Block>().
template <class M>
UnitPolicy each() {
  return [](const Candidate& c) { return dynamic_cast<M*>(&c.module) != nullptr; };
}
/// The modules at these paths are units; throws an Error for a path without a module.
UnitPolicy each_of(std::vector<std::string> paths);
/// Every module is a unit that has at least `numel` elements which no module below it has taken.
UnitPolicy at_least(int64_t numel);
/// Every module is a unit that has parameters of its own.
UnitPolicy each_with_parameters();
/// Every direct child is a unit.
UnitPolicy each_child();

}  // namespace hero::dist
