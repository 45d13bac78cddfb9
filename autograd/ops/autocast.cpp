#include <optional>
#include <unordered_map>

#include <hero/autograd/graph/watch.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/threads/per_thread.h>

namespace hero {

namespace {

constexpr CastRule kLow = CastRule::low, kWide = CastRule::float32, kOne = CastRule::widest;

// A name is an operation's own (what its node is called) or that of a function made of others.
constexpr CastEntry kEntries[] = {
    {"matmul", kLow},
    {"linear", kLow},
    {"linear_relu", kLow},
    {"linear_gelu", kLow},
    {"linear_cross_entropy", kLow},
    {"linear_gelu_linear", kLow},
    {"conv1d", kLow},
    {"conv2d", kLow},
    {"conv3d", kLow},
    {"conv_transpose1d", kLow},
    {"conv_transpose2d", kLow},
    {"conv_transpose3d", kLow},
    {"addmm", kLow},
    {"addmv", kLow},
    {"addr", kLow},
    {"baddbmm", kLow},
    {"addbmm", kLow},
    {"scaled_dot_product_attention", kLow},
    {"rnn", kLow},
    {"lstm", kLow},
    {"gru", kLow},
    {"softmax", kWide},
    {"log_softmax", kWide},
    {"logsumexp", kWide},
    {"layer_norm", kWide},
    {"rms_norm", kWide},
    {"group_norm", kWide},
    {"standardize", kWide},
    {"cross_entropy", kWide},
    {"nll_loss", kWide},
    {"mse_loss", kWide},
    {"l1_loss", kWide},
    {"huber_loss", kWide},
    {"smooth_l1_loss", kWide},
    {"kl_div", kWide},
    {"binary_cross_entropy", kWide},
    {"binary_cross_entropy_with_logits", kWide},
    {"hinge_embedding_loss", kWide},
    {"soft_margin_loss", kWide},
    {"margin_ranking_loss", kWide},
    {"cosine_embedding_loss", kWide},
    {"pairwise_distance", kWide},
    {"triplet_margin_loss", kWide},
    {"multi_margin_loss", kWide},
    {"multilabel_soft_margin_loss", kWide},
    {"poisson_nll_loss", kWide},
    {"gaussian_nll_loss", kWide},
    {"cosine_similarity", kWide},
    {"sum", kWide},
    {"mean", kWide},
    {"prod", kWide},
    {"cumsum", kWide},
    {"cumprod", kWide},
    {"var", kWide},
    {"std", kWide},
    {"norm", kWide},
    {"exp", kWide},
    {"exp2", kWide},
    {"expm1", kWide},
    {"log", kWide},
    {"log2", kWide},
    {"log1p", kWide},
    {"log10", kWide},
    {"acos", kWide},
    {"asin", kWide},
    {"erfinv", kWide},
    {"pow", kWide},
    {"reciprocal", kWide},
    {"rsqrt", kWide},
    {"sinh", kWide},
    {"cosh", kWide},
    {"tan", kWide},
    {"softplus", kWide},
    {"grid_sample", kWide},
    {"cdist", kWide},
    {"quantile", kWide},
    {"nanquantile", kWide},
    {"solve", kWide},
    {"solve_triangular", kWide},
    {"lstsq", kWide},
    {"inv", kWide},
    {"pinv", kWide},
    {"det", kWide},
    {"slogdet", kWide},
    {"cholesky", kWide},
    {"qr", kWide},
    {"svd", kWide},
    {"eigh", kWide},
    {"scatter", kOne},
    {"scatter_add", kOne},
    {"scatter_reduce", kOne},
    {"index_add", kOne},
    {"index_copy", kOne},
    {"index_put", kOne},
    {"put", kOne},
    {"masked_scatter", kOne},
    {"select_scatter", kOne},
    {"slice_scatter", kOne},
    {"diagonal_scatter", kOne},
};

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

Tensor cast_to(const Tensor& x, DType dtype) {
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
  const unsigned others = detail::watching & ~detail::kWatchAutocast;
  detail::watching = others | (options.enabled ? detail::kWatchAutocast : 0u);
}

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

bool autocast_enabled() { return (detail::watching & detail::kWatchAutocast) != 0; }
const AutocastOptions& autocast_options() { return current; }

std::span<const CastEntry> cast_entries() { return kEntries; }

CastRule cast_rule(std::string_view op) {
  for (const CastEntry& entry : kEntries) {
    if (entry.op == op) return entry.rule;
  }
  return CastRule::promote;
}

std::string autocast_policy() {
  std::string text;
  for (const auto& [rule, title] :
       {std::pair{kLow, "low"}, std::pair{kWide, "float32"}, std::pair{kOne, "widest"}}) {
    text += std::string(title) + ":";
    for (const CastEntry& entry : kEntries) {
      if (entry.rule == rule) text += " " + std::string(entry.op);
    }
    text += "\n";
  }
  return text + "promote: all others\n";
}

void AutocastInputs::open(const char* op, std::span<const Tensor* const> inputs) {
  cast_ = detail::autocast_inputs(op, inputs);
}

std::vector<Tensor> detail::autocast_inputs(const char* op, std::span<const Tensor* const> inputs) {
  const CastRule rule = cast_rule(op);
  if (rule == CastRule::promote) return {};
  std::optional<DType> widest;
  bool any = false;
  for (const Tensor* x : inputs) {
    if (!x->defined() || !is_floating(x->dtype())) continue;
    if (x->dtype() == kFloat64) return {};  // beside float64 all are left to promotion
    widest = widest ? promote(*widest, x->dtype()) : x->dtype();
  }
  if (!widest) return {};
  const DType target = rule == kLow ? current.dtype : rule == kOne ? *widest : kFloat32;
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
