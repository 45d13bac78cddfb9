#include <memory>
#include <utility>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/core/error.h>
#include <hero/dist/parallel/random_draws.h>
#include <hero/nn/hooks.h>

namespace hero::dist {
namespace {

bool looked_at() { return !recomputing() && !nn::WithoutHooks::active(); }

}  // namespace

void RandomDraws::declare_drawn() {
  const Generator::State now = default_generator().state();
  if (std::exchange(known_, now) == now || group_.backend_kind() == BackendKind::simulated) return;
  group_.declare("draw up to random number " + std::to_string(now.offset) + " of seed " +
                 std::to_string(now.seed) +
                 " in a module that tensor_parallel cut, for which ranks need one seed along its "
                 "axis: manual_seed(1 + mesh.coordinate(\"data\"))");
}

void RandomDraws::check_divided(const std::string& path) const {
  if (slice_count_ == 1 || !divided_ || divided_->state == default_generator().state()) return;
  const std::string& since = divided_->since;
  fail("tensor_parallel: random numbers are drawn ",
       since == path ? "within '" + path : "between '" + since + "' and '" + path,
       "', where each rank has a part of the values: a mask of dropout, for one, would not be that "
       "part of the whole's mask. Train with dropout 0 there, or draw where ranks have the whole");
}

void RandomDraws::begin_forward() {
  if (!looked_at()) return;
  known_ = default_generator().state();
  divided_.reset();
}

void RandomDraws::end_forward() {
  if (looked_at() && known_) declare_drawn();
  known_.reset();
}

void RandomDraws::begin_region(const std::string& path) {
  if (!looked_at()) return;
  check_divided(path);
  if (known_) declare_drawn();
  divided_ = {path, default_generator().state()};
}

void RandomDraws::end_region(const std::string& path, bool divided) {
  if (!looked_at()) return;
  check_divided(path);
  divided_.reset();
  if (divided) divided_ = {path, default_generator().state()};
}

void refuse_draws(nn::Module& module) {
  const auto before = std::make_shared<Generator::State>();
  module.register_forward_pre_hook(
      [before](nn::Module&, const nn::Tensors&) { *before = default_generator().state(); },
      {.for_parameters = true});
  module.register_forward_hook(
      [before](nn::Module& called, const nn::Tensors&, const nn::Tensors&) {
        if (!looked_at() || !called.training()) return;
        check(
            *before == default_generator().state(), "context_parallel: the forward of ",
            called.type_name(),
            " draws random numbers, such as masks of dropout, for this rank's positions: they "
            "would not be that part of the whole's. Train with dropout 0, or draw before forward");
      },
      {.for_parameters = true});
}

}  // namespace hero::dist
