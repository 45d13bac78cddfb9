#include <hero/dist/data_parallel/strategies.h>
#include <hero/dist/ddp.h>

namespace hero::dist {
namespace {

// DDP: nothing is sharded; buckets of gradients are averaged.
std::shared_ptr<ShardedModule> replicate(nn::Module& module, const Communicator& comm,
                                         const DDPOptions& options) {
  check(options.bucket_bytes > 0 && options.first_bucket_bytes > 0,
        "ddp: bucket sizes must be positive: ", options.first_bucket_bytes, ", ",
        options.bucket_bytes);
  check_divisor("ddp", options.divide_by);
  const Groups groups = {comm, {}};
  const SlotNames alone = left_alone("ddp", module, {}, options.ignored_modules, {});
  check_same_module(module, groups, alone, options_text("ddp", {}));
  materialize_rest(module, groups);  // all of it
  if (options.broadcast_parameters) broadcast_state(module, groups, alone);
  ShardedModuleOptions kept;
  kept.units.stage = Stage::none;
  kept.units.order = options.order;
  kept.units.divide_by = options.divide_by;
  kept.unused = unused_policy(options.find_unused_parameters);
  kept.broadcast_buffers = options.broadcast_buffers;
  kept.rebuild_bytes = options.bucket_bytes;
  kept.rebuild_first_bytes = options.first_bucket_bytes;
  kept.alone = alone;
  kept.alone_modules = ModulePaths(options.ignored_modules);
  auto sharded = std::make_shared<ShardedModule>(module, groups, kept);
  add_buckets(*sharded, reversed(unit_parameters(module, alone, false)), options.first_bucket_bytes,
              options.bucket_bytes);
  sharded->install();
  return sharded;
}

}  // namespace

DDP::DDP(nn::Module& module, const Communicator& comm, const DDPOptions& options)
    : DataParallel(replicate(module, comm, options)) {}

void DDP::register_comm_hook(CommHook hook) const { sharded_->set_hook(std::move(hook)); }

}  // namespace hero::dist
