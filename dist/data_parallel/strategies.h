#pragma once
// The common first steps of DDP, ZeRO and fully_shard(), before a module's parameters are divided
// into units.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>
#include <hero/dist/fsdp.h>

namespace hero::dist {

using Nested = ShardedModule::Nested;  // a module below, which is sharded already

DataParallel make_data_parallel(std::shared_ptr<ShardedModule> sharded);

/// Shards these modules as one, for fully_shard() and ZeRO-3.
std::shared_ptr<ShardedModule> shard_modules(const std::vector<nn::Module*>& modules,
                                             const Groups& groups, const FSDPOptions& options,
                                             Tied tied);

/// The options that ranks must compare because a difference changes no call's size, so that ranks
/// would misread each other's bytes, such as two codecs whose encoded parts are equally long.
std::string options_text(const char* strategy, const Offload& offload,
                         const Quantize& quantize = {}, const std::optional<DType>& output = {});

/// Throws an Error unless all ranks have the same module and options; otherwise a collective of a
/// later step would fail, or add up gradients of different parameters. `options`: options_text().
void check_same_module(nn::Module& module, const Groups& groups, const SlotNames& alone,
                       const std::string& options);

/// Broadcasts rank 0's parameters and buffers: first over the replicas, then within each shard
/// group.
void broadcast_state(nn::Module& module, const Groups& groups, const SlotNames& alone);

/// Materializes on `device` what was made on meta and belongs to no unit (buffers, and parameters
/// that are frozen or ignored), with its initial values; on simulated ranks it stays on meta.
void materialize_rest(nn::Module& module, const Groups& groups, Device device = kCpu);

/// The names of parameters that are left alone: `parameters`, those of the modules at `paths`, and
/// those that a nested module has sharded already.
SlotNames left_alone(const char* what, nn::Module& module,
                     const std::vector<std::string>& parameters,
                     const std::vector<std::string>& paths, const std::vector<Nested>& nested);

void check_divisor(const char* what, double divide_by);

inline Unused unused_policy(bool find) { return find ? Unused::agree : Unused::error; }

inline std::vector<UnitParameter> reversed(std::vector<UnitParameter> parameters) {
  std::reverse(parameters.begin(), parameters.end());
  return parameters;
}

}  // namespace hero::dist
