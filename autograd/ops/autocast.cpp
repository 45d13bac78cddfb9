#include <atomic>
#include <cstdio>
#include <optional>
#include <unordered_map>

#include <hero/autograd/graph/op_scopes.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/threads/per_thread.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

// [note: the cache] A cast of a leaf is a recorded operation. It can stand for the leaf again while
// the leaf's bytes are the same, recording is as it was, and no backward has freed the cast.
struct Cached {
  Tensor leaf;  // keeps the address that is the key
  core::Ref<core::Storage> storage;
  uint32_t version;
  Tensor cast;
};

thread_local AutocastOptions current = {.enabled = false};
thread_local int depth = 0;
using Cache = std::unordered_map<const void*, Cached>;  // looked up only, never walked
Cache& cache() { return core::PerThread<Cache, struct OfAutocast>::get(); }

bool usable(const Cached& entry, const Tensor& leaf, DType dtype) {
  const auto& storage = leaf.array().storage_ref();
  if (!(entry.storage == storage) || entry.version != storage->version()) return false;
  if (entry.cast.dtype() != dtype || entry.cast.requires_grad() != grad_enabled()) return false;
  return !entry.cast.grad_fn() || !entry.cast.grad_fn()->released();
}

std::atomic<bool> has_told = false;

// Says once in a process that casts of x save no time. No CPU has products of float16.
void tell_once(const Tensor& x, DType dtype) {
  if (dtype != kBFloat16 || has_told.load(std::memory_order_relaxed)) return;
  if (!core::is_host_memory(x.device()) || half_products() == HalfProducts::portable) return;
  if (core::has_native_products(dtype, x.device()) || has_told.exchange(true)) return;
  std::fprintf(stderr,
               "autocast: this processor has no fast products of bfloat16: steps take no less "
               "time than in float32\n");
}

Tensor cast_to(const Tensor& x, DType dtype) {
  tell_once(x, dtype);
  // Only parameters are used again and again.
  if (!current.cache || dtype != current.dtype || !x.is_leaf() || !x.requires_grad()) {
    return x.to(dtype);
  }
  const auto found = cache().find(x.impl());
  if (found != cache().end() && usable(found->second, x, dtype)) return found->second.cast;
  const Tensor cast = x.to(dtype);
  const auto& storage = x.array().storage_ref();
  cache().insert_or_assign(x.impl(), Cached{x, storage, storage->version(), cast});
  return cast;
}

void switch_to(const AutocastOptions& options) {
  current = options;
  const unsigned others = detail::open_scopes & ~detail::kAutocastScope;
  detail::open_scopes = others | (options.enabled ? detail::kAutocastScope : 0u);
}

// A thread that works for another one keeps casts for as long as it has its options.
[[maybe_unused]] const core::ThreadSlot<AutocastOptions> kAutocastSlot([] { return current; },
                                                                       [](AutocastOptions options) {
                                                                         const bool may_keep =
                                                                             current.enabled &&
                                                                             depth == 0;
                                                                         switch_to(options);
                                                                         if (may_keep)
                                                                           cache().clear();
                                                                       });

}  // namespace

Autocast::Autocast(const AutocastOptions& options) : previous_(current) {
  check(options.dtype == kBFloat16 || options.dtype == kFloat16, "autocast: dtype is ",
        options.dtype, "; it must be bfloat16 or float16");
  switch_to(options);
  ++depth;
}

Autocast::~Autocast() {
  switch_to(previous_);
  if (--depth == 0) cache().clear();
}

bool autocast_enabled() { return (detail::open_scopes & detail::kAutocastScope) != 0; }
const AutocastOptions& autocast_options() { return current; }

void AutocastInputs::open(AutocastRule rule, std::span<const Tensor* const> inputs) {
  cast_ = detail::autocast_inputs(rule, inputs);
}

std::vector<Tensor> detail::autocast_inputs(AutocastRule rule,
                                            std::span<const Tensor* const> inputs) {
  if (rule == AutocastRule::fallthrough) return {};
  std::optional<DType> widest;
  bool any = false;
  for (const Tensor* x : inputs) {
    if (!x->defined() || !is_floating(x->dtype())) continue;
    if (x->dtype() == kFloat64) return {};  // beside float64 all are left to promotion
    widest = widest ? promote(*widest, x->dtype()) : x->dtype();
  }
  if (!widest) return {};
  const DType target = rule == AutocastRule::lower_precision ? current.dtype
                       : rule == AutocastRule::promote       ? *widest
                                                             : kFloat32;
  for (const Tensor* x : inputs) {
    any = any || (x->defined() && is_floating(x->dtype()) && x->dtype() != target);
  }
  if (!any) return {};
  std::vector<Tensor> cast;
  for (const Tensor* x : inputs) {
    const bool changes = x->defined() && is_floating(x->dtype()) && x->dtype() != target;
    cast.push_back(changes ? cast_to(*x, target) : *x);
  }
  return cast;
}

}  // namespace hero
