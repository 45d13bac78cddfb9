#include <optional>
#include <utility>

#include <hero/core/random.h>
#include <hero/dist/data_parallel/batch_parts.h>

namespace hero::dist {
namespace {

// This rank's part among all ranks that have examples of their own, ordered replica after replica.
BatchPart part_of(const Groups& groups) {
  const int before = groups.replicas.defined() ? groups.replicas.rank() * groups.shard.size() : 0;
  return {before + groups.shard.rank(), groups.ranks()};
}

}  // namespace

void set_batch_part_within(nn::Module& module, const Groups& groups) {
  const BatchPart part = part_of(groups);
  if (part.ranks == 1) return;
  // What was set before the forward that runs. A pre-hook that throws leaves it here, and no hook
  // behind forward is called then: the next forward finds it.
  const auto before = std::make_shared<std::optional<BatchPart>>();
  module.register_forward_pre_hook(
      [part, before](nn::Module&, const nn::Tensors&) {
        if (!*before) *before = batch_part();
        if ((*before)->ranks == 1) batch_part() = part;
        return nn::Tensors();
      },
      {.for_parameters = true});
  module.register_forward_hook(
      [before](nn::Module&, const nn::Tensors&, const nn::Tensors&) {
        if (*before) batch_part() = *std::exchange(*before, std::nullopt);
        return nn::Tensors();
      },
      {.always_call = true, .for_parameters = true});
}

}  // namespace hero::dist
