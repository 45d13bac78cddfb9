#pragma once
// How a module's parameters are divided into units.
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/wrap_policy.h>

namespace hero::dist {

/// Whether a name or path lies below another path; everything but "" lies below "".
bool is_below(const std::string& name, const std::string& path);

/// All parameters of a module, each once, with every slot that holds it; without those whose name
/// is in `ignored`, and without frozen ones unless wanted.
std::vector<UnitParameter> unit_parameters(nn::Module& module,
                                           const std::vector<std::string>& ignored,
                                           bool frozen_too);

/// Units of up to `bytes` (the first: `first_bytes`) at the root, in the order of `parameters`. A
/// bucket is full when it has that many, so a large parameter makes a larger one; each has one
/// dtype.
void add_buckets(ShardedModule& sharded, std::vector<UnitParameter> parameters, int64_t first_bytes,
                 int64_t bytes);

/// What to do with a parameter that is tied over two units.
enum class Tied : uint8_t { error, to_root };

/// One unit for each module that the policy takes, with the parameters that no module below it
/// took; the rest is the root's.
void add_units(ShardedModule& sharded, std::vector<UnitParameter> parameters,
               const UnitPolicy& policy, Tied tied);

}  // namespace hero::dist
