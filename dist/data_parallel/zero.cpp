#include <hero/dist/data_parallel/strategies.h>
#include <hero/dist/zero.h>

namespace hero::dist {
namespace {

// ZeRO-1: each rank steps its part of every bucket; ZeRO-2: it also keeps only the gradients of
// that part; ZeRO-3: it also keeps only the parameters of that part.
std::shared_ptr<ShardedModule> make_zero(nn::Module& module, const Communicator& comm,
                                         const ZeROOptions& options) {
  check(options.stage >= 1 && options.stage <= 3, "zero: stage must be 1, 2 or 3: ", options.stage);
  check_divisor("zero", options.divide_by);
  check(options.stage == 3 || !options.offload.parameters, "zero: stage ", options.stage,
        " keeps whole parameters on the device; offload the optimizer, or use stage 3");
  check(options.stage == 3 || !options.quantize.any(), "zero: quantize needs stage 3; stage ",
        options.stage, " gathers and reduces in the parameters' dtype");
  check(options.stage == 3 || !options.unit, "zero: unit needs stage 3; stage ", options.stage,
        " averages in buckets of bucket_bytes, whatever the modules are");
  check(options.bucket_bytes > 0, "zero: bucket_bytes must be positive: ", options.bucket_bytes);
  const Groups groups = {comm, {}};
  if (options.stage == 3) {
    return shard_modules({&module}, groups,
                         {.unit = options.unit ? options.unit : each_with_parameters(),
                          .reshard_after_forward = options.reshard_after_forward,
                          .prefetch = options.prefetch,
                          .ignored_modules = options.ignored_modules,
                          .sync_module_states = options.broadcast_parameters,
                          .broadcast_buffers = options.broadcast_buffers,
                          .order = options.order,
                          .divide_by = options.divide_by,
                          .offload = options.offload,
                          .quantize = options.quantize},
                         Tied::to_root);
  }
  const SlotNames alone = left_alone("zero", module, {}, options.ignored_modules, {});
  check_same_module(module, groups, alone,
                    options_text(options.stage == 1 ? "zero 1" : "zero 2", options.offload));
  if (options.broadcast_parameters) broadcast_state(module, groups, alone);
  ShardedModuleOptions kept;
  kept.units.stage = options.stage == 1 ? Stage::optimizer : Stage::gradients;
  kept.units.order = options.order;
  kept.units.divide_by = options.divide_by;
  kept.units.offload = options.offload;
  kept.unused = unused_policy(options.find_unused_parameters);
  kept.reshard_after_forward = false;
  kept.broadcast_buffers = options.broadcast_buffers;
  kept.alone = alone;
  kept.alone_modules = ModulePaths(options.ignored_modules);
  auto sharded = std::make_shared<ShardedModule>(module, groups, kept);
  add_buckets(*sharded, reversed(unit_parameters(module, alone, false)), options.bucket_bytes,
              options.bucket_bytes);
  sharded->install();
  materialize_rest(module, groups);
  return sharded;
}

}  // namespace

ZeRO::ZeRO(nn::Module& module, const Communicator& comm, const ZeROOptions& options)
    : DataParallel(make_zero(module, comm, options)) {}

}  // namespace hero::dist
