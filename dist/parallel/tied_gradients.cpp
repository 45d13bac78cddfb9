#include <map>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/error.h>
#include <hero/dist/parallel/tied_gradients.h>

namespace hero::dist {

std::vector<TiedGradient> tied_gradients(const std::vector<StageValue>& values,
                                         const Communicator& pipe) {
  std::map<std::vector<int>, Communicator> groups;
  std::vector<TiedGradient> tied;
  for (const StageValue& value : values) {
    if (!value.is_tied()) continue;
    const bool here = value.is_on(pipe.rank());
    if (groups.count(value.ranks) == 0) {
      const std::vector<int> members = here ? value.ranks : std::vector<int>();
      groups[value.ranks] = pipe.group(members, "tied");
    }
    if (here) tied.push_back({value.name, value.leaf(), groups[value.ranks]});
  }
  return tied;
}

TiedGradientScope::TiedGradientScope(const std::vector<TiedGradient>& tied) : tied_(tied) {
  for (const TiedGradient& each : tied_) {
    check(parameter_owner(each.leaf) == nullptr, "pipeline: '", each.name,
          "' is tied over stages and sharded, each stage's shards in places of their own; untie it "
          "(GPTConfig::tie_weights), or leave it out by ignored_parameters");
    former_.push_back(each.leaf.grad());
    each.leaf.set_grad({});
  }
}

TiedGradientScope::~TiedGradientScope() {
  for (size_t i = 0; i < tied_.size(); ++i) {
    const Tensor now = tied_[i].leaf.grad();
    if (!former_[i].defined()) continue;
    const NoGrad no_grad;
    tied_[i].leaf.set_grad(now.defined() ? former_[i] + now : former_[i]);
  }
}

void TiedGradientScope::add_up() const {
  const NoGrad no_grad;
  for (const TiedGradient& each : tied_) {
    if (!each.leaf.grad().defined()) each.leaf.set_grad(zeros_like(each.leaf));
    each.ranks.all_reduce(each.leaf.grad().array(), {.unit = each.name});
  }
}

void set_empty_gradients(const std::vector<StageValue>& values, int rank) {
  for (const StageValue& value : values) {
    const Tensor& leaf = value.leaf();
    if (value.is_on(rank) || !leaf.requires_grad() || leaf.grad().defined()) continue;
    leaf.set_grad(Tensor(Array::empty({0}, leaf.dtype(), leaf.device())));
  }
}

}  // namespace hero::dist
