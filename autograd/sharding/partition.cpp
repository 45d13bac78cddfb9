#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/autograd/sharding/unreduced_gradients.h>
#include <hero/core/threads/at_fork.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

struct Refills {
  std::mutex mutex;
  std::unordered_map<const core::Storage*, std::function<void()>> of;
};

// Never destroyed: modules that are statics may go later.
Refills& refills() {
  static auto* all = new Refills;
  return *all;
}
[[maybe_unused]] const bool kRefillsAtFork =
    core::at_fork([] { refills().mutex.lock(); }, [] { refills().mutex.unlock(); },
                  [] { refills().mutex.unlock(); });  // see [note: forks]

[[noreturn]] void no_single_group(const char* op) {
  fail(op, ": the parameter belongs to nested groups, no single group of ranks");
}

}  // namespace

int RankGroup::rank() const { no_single_group("rank"); }
int RankGroup::size() const { no_single_group("size"); }
void RankGroup::all_reduce(const Array&, const char* op) { no_single_group(op); }
void RankGroup::all_gather(const Array&, const Array&, const char* op) { no_single_group(op); }
void RankGroup::reduce_scatter(const Array&, const Array&, const char* op) { no_single_group(op); }

const Partition* partition(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const detail::Hooks* hooks = tensor.impl()->hooks.load(std::memory_order_acquire);
  return hooks ? hooks->partition.get() : nullptr;
}

const Shape& whole_shape(const Tensor& tensor) {
  const Partition* part = partition(tensor);
  return part != nullptr ? part->whole : tensor.shape();
}

std::string describe_part(const Tensor& leaf) {
  const Partition* part = partition(leaf);
  if (part == nullptr) return "a parameter of shape " + to_string(leaf.shape());
  const std::string whole = " of a parameter of shape " + to_string(part->whole);
  if (leaf.numel() == 0) return "no element" + whole;
  const std::string boxes = part->boxes.empty() ? "" : " of " + layout::text(part->boxes);
  return "elements " + std::to_string(part->first) + " to " +
         std::to_string(part->first + leaf.numel() - 1) + boxes + whole;
}

namespace {

void check_boxes(const Partition& place, int64_t count) {
  if (place.boxes.empty()) return;
  layout::check_boxes("set_part", place.whole, place.boxes);
  const int64_t all = layout::numel(place.whole, place.boxes);
  check(place.first >= 0 && place.first <= all - count, "set_part: ", count, " elements from ",
        place.first, " on lie outside of the ", all, " elements of ", layout::text(place.boxes),
        " of a parameter of shape ", place.whole);
}

}  // namespace

void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition) {
  check(leaf.defined() && leaf.is_leaf() && part.defined(), "set_part: needs a leaf and an array");
  check(!leaf.requires_grad() || is_floating(part.dtype()), "set_part: values are ", part.dtype(),
        " but the tensor requires grad; only floating dtypes have gradients");
  if (partition) check_boxes(*partition, part.numel());
  detail::TensorImpl& impl = *leaf.impl();
  impl.grad = {};
  impl.data = part;
  impl.base = {};
  impl.history = part.storage().history();
  AccumulateGrad::leave(impl);
  impl.make_hooks().partition = std::move(partition);
}

std::shared_ptr<ParameterOwner> parameter_owner(const Tensor& leaf) {
  if (!leaf.defined()) return nullptr;
  const detail::Hooks* hooks = leaf.impl()->hooks.load(std::memory_order_acquire);
  return hooks ? hooks->parameter_owner.lock() : nullptr;
}

std::vector<Tensor> optimizer_leaves(std::vector<Tensor> parameters) {
  for (Tensor& parameter : parameters) {
    if (const auto kept = parameter_owner(parameter)) parameter = kept->optimizer_leaf(parameter);
  }
  return parameters;
}

void check_averaged(const std::vector<Tensor>& leaves, const char* op) {
  for (const Tensor& leaf : leaves) {
    if (const auto keeps =
            std::dynamic_pointer_cast<HoldsUnreducedGradients>(parameter_owner(leaf))) {
      keeps->check_averaged(leaf, op);
    } else if (const auto averages = gradient_reducer(leaf)) {
      averages->check_averaged(leaf, op);
    }
  }
}

void declare_gradients(const std::vector<Tensor>& leaves, const char* op) {
  std::vector<const void*> told;
  const auto tell = [&](const auto& whom) {
    if (std::count(told.begin(), told.end(), whom.get()) > 0) return;
    told.push_back(whom.get());
    whom->declare_gradients(op);
  };
  for (const Tensor& leaf : leaves) {
    if (const auto keeps =
            std::dynamic_pointer_cast<HoldsUnreducedGradients>(parameter_owner(leaf))) {
      tell(keeps);
    } else if (const auto averages = gradient_reducer(leaf)) {
      tell(averages);
    }
  }
}

void clear_unreduced_gradients(const std::vector<Tensor>& leaves, bool set_to_none) {
  for (const Tensor& leaf : leaves) {
    const auto keeps = std::dynamic_pointer_cast<HoldsUnreducedGradients>(parameter_owner(leaf));
    if (keeps) keeps->check_averaged(leaf, "zero_grad");
  }
  for (const Tensor& leaf : leaves) {
    const auto keeps = std::dynamic_pointer_cast<HoldsUnreducedGradients>(parameter_owner(leaf));
    if (keeps) keeps->clear_gradient(leaf, set_to_none);
  }
}

namespace {

// A hook of a leaf that does nothing, by which the values in the leaf are known.
struct ReplacedValuesMark {
  std::shared_ptr<const ReplacedValues> values;
  void operator()(const Tensor& /*leaf*/) const {}
};

thread_local int in_checkpoint = 0;  // SavingCheckpoints that live on this thread
[[maybe_unused]] const core::ThreadSlot<int> kInCheckpointSlot([] { return in_checkpoint; },
                                                               [](int n) { in_checkpoint = n; });

bool allows(const ReplacedValues& values, ValueUse use) {
  if (use == ValueUse::step) return values.can_step;
  return use == ValueUse::save && values.can_save && in_checkpoint == 0;
}

// The values in a leaf that must not be used so; null if there are none.
std::shared_ptr<const ReplacedValues> refusing(const Tensor& leaf, ValueUse use) {
  std::shared_ptr<const ReplacedValues> found;
  if (!leaf.defined()) return found;
  const Tensor held = optimizer_leaves({leaf}).front();
  const detail::Hooks* hooks = held.impl()->hooks.load(std::memory_order_acquire);
  if (hooks == nullptr) return found;
  const detail::LeafTurn turn(held.impl()->lock);
  for (const auto& hook : hooks->leaf) {
    const auto* mark = hook.call.target<ReplacedValuesMark>();
    if (mark != nullptr && hook.alive->load() && !allows(*mark->values, use)) found = mark->values;
  }
  return found;
}

}  // namespace

ReplacedValuesScope::ReplacedValuesScope(const std::vector<Tensor>& leaves, ReplacedValues values) {
  const auto shared = std::make_shared<const ReplacedValues>(std::move(values));
  for (const Tensor& leaf : optimizer_leaves(leaves)) {
    auto alive = std::make_shared<std::atomic<bool>>(true);
    detail::Hooks& hooks = leaf.impl()->make_hooks();
    const detail::LeafTurn turn(leaf.impl()->lock);
    std::erase_if(hooks.leaf, [](const auto& hook) {  // earlier marks, which have ended
      return !hook.alive->load() && hook.call.template target<ReplacedValuesMark>() != nullptr;
    });
    hooks.leaf.push_back({ReplacedValuesMark{shared}, alive});
    marks_.emplace_back(alive);
  }
}

ReplacedValuesScope::~ReplacedValuesScope() {
  for (HookHandle& mark : marks_) mark.remove();
}

void check_own_values(const char* op, const std::string& name, const Tensor& leaf, ValueUse use) {
  if (const auto found = refusing(leaf, use)) fail(op, ": ", name, " ", found->what);
}

void check_own_values(const char* op, const std::vector<Tensor>& leaves, ValueUse use) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (const auto found = refusing(leaves[i], use)) fail(op, ": parameter ", i, " ", found->what);
  }
}

SavingCheckpoint::SavingCheckpoint() { ++in_checkpoint; }
SavingCheckpoint::~SavingCheckpoint() { --in_checkpoint; }

void set_parameter_owner(const Tensor& leaf, const std::weak_ptr<ParameterOwner>& owner) {
  leaf.impl()->make_hooks().parameter_owner = owner;
}

Refill::Refill(const core::Storage& storage, std::function<void()> fetch) : storage_(&storage) {
  const std::lock_guard lock(refills().mutex);
  refills().of[storage_] = std::move(fetch);
}

Refill::~Refill() {
  const std::lock_guard lock(refills().mutex);
  refills().of.erase(storage_);
}

void detail::refill(const core::Storage& storage) {
  std::function<void()> fetch;
  {
    const std::lock_guard lock(refills().mutex);
    const auto found = refills().of.find(&storage);
    if (found == refills().of.end()) return;
    fetch = found->second;  // called without the lock: it may wait for other ranks
  }
  fetch();
}

}  // namespace hero
