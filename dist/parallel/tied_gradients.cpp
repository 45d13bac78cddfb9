#include <map>
#include <memory>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/core/error.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/parallel/tied_gradients.h>

namespace hero::dist {
namespace {

// Whether what averages the leaf's gradients over ranks, such as DDP, does so now.
bool averages_now(const Tensor& leaf) {
  const auto replica = std::dynamic_pointer_cast<ShardedModule>(gradient_reducer(leaf));
  return !replica || replica->sync() || replica->groups().ranks() == 1;
}

}  // namespace

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

TiedGradientScope::TiedGradientScope(std::vector<TiedGradient>& tied)
    : tied_(tied), steps_(tied.size()) {
  for (const TiedGradient& each : tied_) {
    check(!each.leaf.requires_grad() || parameter_owner(each.leaf) == nullptr, "pipeline: '",
          each.name,
          "' is tied over stages and sharded, each stage's shards in places of their own; untie it "
          "(GPTConfig::tie_weights), or leave it out by ignored_parameters");
  }
  for (size_t i = 0; i < tied_.size(); ++i) {
    const TiedGradient& each = tied_[i];
    Step& step = steps_[i];
    step.trained = each.leaf.requires_grad();
    step.averages = averages_now(each.leaf);
    const bool goes_on = each.unaveraged && step.averages;
    if (!step.trained || (goes_on && each.ranks.rank() == 0)) continue;
    step.former_counts = goes_on;
    step.former = each.leaf.grad();
    each.leaf.set_grad({});
  }
}

TiedGradientScope::~TiedGradientScope() {
  for (size_t i = 0; i < tied_.size(); ++i) {
    const Tensor& former = steps_[i].former;
    if (!former.defined()) continue;
    const Tensor now = tied_[i].leaf.grad();
    const NoGrad no_grad;
    tied_[i].leaf.set_grad(now.defined() ? former + now : former);
  }
}

void TiedGradientScope::add_up() {
  const NoGrad no_grad;
  for (size_t i = 0; i < tied_.size(); ++i) {
    TiedGradient& each = tied_[i];
    Step& step = steps_[i];
    each.ranks.declare((step.trained ? "train '" : "freeze '") + each.name + "', tied over stages" +
                       (step.averages ? "" : ", without averaging"));
    if (!step.trained) {
      each.ranks.barrier({.unit = each.name});
      continue;
    }
    if (!each.leaf.grad().defined()) each.leaf.set_grad(zeros_like(each.leaf));
    each.ranks.all_reduce(each.leaf.grad().array(), {.unit = each.name});
    if (step.former_counts) step.former = {};
    each.unaveraged = !step.averages;
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
