#pragma once
// How a module's parameters are divided into units.
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/wrap_policy.h>

namespace hero::dist {

/// Whether a name or path is below another path; every name but "" is below "".
bool is_below(const std::string& name, const std::string& path);

/// All parameters of a module, each once, with every slot that holds it; without those whose name
/// is in `ignored`, and without frozen ones unless wanted.
std::vector<UnitParameter> unit_parameters(nn::Module& module, const SlotNames& ignored,
                                           bool frozen_too);

/// Adds units (buckets) of the root module, in the order of `parameters`. A bucket is full when it
/// has at least `bytes` bytes (the first: `first_bytes`), so a large parameter makes a larger
/// bucket; each bucket has one dtype.
void add_buckets(ShardedModule& sharded, std::vector<UnitParameter> parameters, int64_t first_bytes,
                 int64_t bytes);

/// What to do with a tied parameter whose modules are in two units: an Error, or it is in the
/// root's unit.
enum class Tied : uint8_t { error, to_root };

/// Adds a unit for each module that the policy selects, with the parameters that are in no unit of
/// a module below it; all remaining parameters are in the root's unit.
void add_units(ShardedModule& sharded, std::vector<UnitParameter> parameters,
               const UnitPolicy& policy, Tied tied);

}  // namespace hero::dist
