#pragma once
// What DDP, ZeRO and fully_shard() do alike with a module before its parameters are kept in units.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>
#include <hero/dist/fsdp.h>

namespace hero::dist {

/// Names of parameters, or paths of modules.
using SlotNames = std::vector<std::string>;
using Nested = ShardedModule::Nested;  // a module below that was sharded before

DataParallel make_data_parallel(std::shared_ptr<ShardedModule> sharded);

/// fully_shard() of these modules as one; ZeRO-3 is that, too.
std::shared_ptr<ShardedModule> shard_modules(const std::vector<nn::Module*>& modules,
                                             const Groups& groups, const FSDPOptions& options,
                                             Tied tied);

/// Options by which ranks that differ would make the same calls, and take the bytes of each other
/// for what they are not: two codecs, say, whose parts are equally long.
std::string options_text(const char* strategy, const Offload& offload,
                         const Quantize& quantize = {}, const std::optional<DType>& output = {});

/// Ranks must have made the same module: where they did not, some sum of a later step would fail,
/// or be one of things that do not belong together. `options`: options_text().
void check_same_module(nn::Module& module, const Groups& groups, const SlotNames& alone,
                       const std::string& options);

/// Rank 0's values: first to those that hold the same shard as it, then within each group of
/// shards.
void broadcast_state(nn::Module& module, const Groups& groups, const SlotNames& alone);

/// What was made on meta and is cut into no unit (buffers, and parameters that are frozen or
/// ignored) is this rank's as it stands: planned on simulated ranks, or with its first values.
void materialize_rest(nn::Module& module, const Groups& groups, Device device = kCpu);

/// The names of parameters that stay as they are: those that are named, those of modules that are,
/// and those that a module below has sharded already.
SlotNames left_alone(const char* what, nn::Module& module, const SlotNames& parameters,
                     const SlotNames& paths, const std::vector<Nested>& nested);

void check_divisor(const char* what, double divide_by);

inline Unused unused_policy(bool find) { return find ? Unused::agree : Unused::error; }

inline std::vector<UnitParameter> reversed(std::vector<UnitParameter> parameters) {
  std::reverse(parameters.begin(), parameters.end());
  return parameters;
}

}  // namespace hero::dist
