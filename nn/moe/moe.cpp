// MoE: logits, the choice of experts, and the way of rows to them and back.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/array/checked.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/moe.h>

namespace hero::nn {

namespace {

MoEOptions checked_moe_options(int64_t experts, const MoEOptions& options) {
  check(options.top_k >= 1 && options.top_k <= experts, "MoE: top_k is ", options.top_k, " of ",
        experts, " experts; it must be from 1 to their number");
  const auto check_number = [](const char* what, double value) {
    check(value >= 0.0 && std::isfinite(value), "MoE: ", what, " is ", value,
          "; it must be finite and not negative");
  };
  check_number("capacity_factor", options.capacity_factor);
  check_number("load_balance_coef", options.load_balance_coef);
  check_number("router_z_coef", options.router_z_coef);
  check(options.shared_experts >= 0, "MoE: shared_experts is ", options.shared_experts,
        "; it must not be negative");
  check(options.top_k > 1 || !options.normalize_gates,
        "MoE: with top_k = 1 the softmax over the chosen expert is always 1, and the router would "
        "not learn; set normalize_gates = false");
  return options;
}

int64_t positive_moe_size(const char* what, int64_t value) {
  check(value > 0, "MoE: ", what, " is ", value, "; it must be positive");
  return value;
}

Tensor row_index(const std::vector<int64_t>& list, int64_t count, Device device) {
  if (device == kMeta) return empty({count}, TensorOptions{.dtype = kInt64, .device = kMeta});
  return Tensor(Array::from(list, {count})).to(device);
}

}  // namespace

// Of one forward: T tokens, K choices each, M of them kept and sorted by expert.
struct MoE::Routing {
  Tensor gates;                       // [T, K], weights of the choices
  Tensor probabilities;               // [T, E], where somebody needs them
  std::vector<int64_t> chosen, kept;  // choices of each expert, and those not dropped
  Tensor tokens;                      // [M] the token of each
  Tensor slots;                       // [M] its place among the T K choices
};

struct MoE::Last {
  mutable std::mutex mutex;
  Tensor aux_loss;
  MoEStatistics statistics;
};

MoE::MoE(int64_t width, int64_t hidden, int64_t num_experts, const MoEOptions& options)
    : router(add<Linear>("router", positive_moe_size("width", width),
                         positive_moe_size("num_experts", num_experts),
                         LinearOptions{.bias = false})),
      experts(add<GroupedExperts>(
          "experts", width, positive_moe_size("hidden", hidden), num_experts,
          GroupedExpertsOptions{.activation = options.activation, .bias = options.bias})),
      shared_experts(
          options.shared_experts > 0
              ? &add<GroupedExperts>(
                    "shared_experts", width,
                    (core::Checked{"MoE", hidden} * options.shared_experts).value, 1,
                    GroupedExpertsOptions{.activation = options.activation, .bias = options.bias})
              : nullptr),
      width_(width),
      experts_(num_experts),
      options_(checked_moe_options(num_experts, options)),
      last_(std::make_shared<Last>()) {}

void MoE::set_dispatcher(std::shared_ptr<TokenDispatcher> dispatcher) {
  dispatcher_ = std::move(dispatcher);
}

Tensor MoE::forward(const Tensor& x) {
  check(x.ndim() >= 1 && x.size(-1) == width_, "MoE: expected [.., ", width_, "], got ", x.shape());
  const Tensor tokens = x.reshape({x.numel() / width_, width_});
  const Routing routing = route(tokens);
  const Tensor results = compute(index_select(tokens, 0, routing.tokens), routing.kept);
  // Halves are weighted and added up in float32, and rounded once.
  const Tensor gates = index_select(routing.gates.flatten(), 0, routing.slots);
  const Tensor nothing = zeros(tokens.shape(), {.dtype = gates.dtype(), .device = x.device()});
  Tensor sum = index_add(nothing, 0, routing.tokens, results * unsqueeze(gates, 1));
  if (shared_experts != nullptr) sum = sum + (*shared_experts)(tokens, {tokens.size(0)});
  return sum.to(results.dtype()).reshape(x.shape());
}

Tensor MoE::compute(const Tensor& rows, const std::vector<int64_t>& counts) {
  const auto here = [this](const Tensor& in, const std::vector<int64_t>& of) {
    return experts(in, of);
  };
  return dispatcher_ ? dispatcher_->run(rows, counts, here) : here(rows, counts);
}

MoE::Routing MoE::route(const Tensor& tokens) {
  const Autocast wide({.enabled = false});
  const DType dtype = tokens.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const auto logits_of = [&](const Tensor& in) {
    return linear(in.to(dtype), router.weight.to(dtype));
  };
  const Tensor logits = router.has_hooks_for_values()
                            ? router(tokens.to(router.weight.dtype())).to(dtype)
                            : router.run_fused(tokens, logits_of);
  Routing routing;
  const auto [best, chosen] = topk(logits, options_.top_k);
  if (!options_.normalize_gates || options_.load_balance_coef > 0.0) {
    routing.probabilities = softmax(logits, 1);
  }
  routing.gates =
      options_.normalize_gates ? softmax(best, 1) : gather(routing.probabilities, 1, chosen);
  group(routing, chosen);
  const Tensor loss = loss_of(routing, logits);
  if (recomputing()) return routing;  // the first run has said it
  const int64_t sent = std::accumulate(routing.kept.begin(), routing.kept.end(), int64_t{0});
  const std::lock_guard lock(last_->mutex);
  last_->aux_loss = loss;
  last_->statistics = {routing.chosen, chosen.numel() - sent};
  return routing;
}

// [note: the order of rows] Choices are sorted by expert, those of one expert by token: the order
// in which capacities are filled, in which each expert's gradients are added up, and, as a token
// has at most one choice an expert, in which a token's results are.
void MoE::group(Routing& routing, const Tensor& chosen) const {
  const int64_t count = chosen.numel(), top_k = options_.top_k;
  const auto all = static_cast<size_t>(experts_);
  const double limit = std::ceil(options_.capacity_factor * static_cast<double>(count) /
                                 static_cast<double>(experts_));
  const bool limited = options_.capacity_factor > 0.0 && limit < static_cast<double>(count);
  const int64_t capacity = limited ? static_cast<int64_t>(limit) : count;
  const Device device = chosen.device();
  std::vector<int64_t> experts_of;
  routing.chosen.assign(all, 0);
  if (device == kMeta) {
    for (size_t e = 0; e < all; ++e) {
      routing.chosen[e] = count / experts_ + (static_cast<int64_t>(e) < count % experts_ ? 1 : 0);
    }
  } else {
    experts_of = chosen.to(kCpu).to_vector<int64_t>();
    for (const int64_t e : experts_of) ++routing.chosen[static_cast<size_t>(e)];
  }
  for (const int64_t n : routing.chosen) routing.kept.push_back(std::min(n, capacity));
  std::vector<int64_t> next(all, 0), left = routing.kept;
  std::exclusive_scan(routing.kept.begin(), routing.kept.end(), next.begin(), int64_t{0});
  const int64_t kept = next.back() + routing.kept.back();
  std::vector<int64_t> tokens(static_cast<size_t>(kept)), slots(static_cast<size_t>(kept));
  for (size_t slot = 0; slot < experts_of.size(); ++slot) {
    const auto e = static_cast<size_t>(experts_of[slot]);
    if (left[e]-- <= 0) continue;
    const auto at = static_cast<size_t>(next[e]++);
    slots[at] = static_cast<int64_t>(slot);
    tokens[at] = static_cast<int64_t>(slot) / top_k;
  }
  routing.tokens = row_index(tokens, kept, device);
  routing.slots = row_index(slots, kept, device);
}

Tensor MoE::loss_of(const Routing& routing, const Tensor& logits) {
  const auto tokens = static_cast<double>(std::max<int64_t>(logits.size(0), 1));
  Tensor loss = zeros({}, {.dtype = logits.dtype(), .device = logits.device()});
  if (options_.load_balance_coef > 0.0) {
    const std::vector<int64_t> loads =
        dispatcher_ ? dispatcher_->add_up(routing.chosen) : routing.chosen;
    const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    std::vector<double> shares;
    for (const int64_t n : loads) {
      shares.push_back(static_cast<double>(n) / static_cast<double>(std::max<int64_t>(all, 1)));
    }
    const Tensor f = tensor(shares, {.dtype = logits.dtype(), .device = logits.device()});
    const Tensor p = sum(routing.probabilities, {0}) / tokens;
    loss = loss + sum(f * p) * (options_.load_balance_coef * static_cast<double>(experts_));
  }
  if (options_.router_z_coef > 0.0) {
    loss = loss + sum(square(logsumexp(logits, {1}))) * (options_.router_z_coef / tokens);
  }
  return loss;
}

Tensor MoE::aux_loss() const {
  const std::lock_guard lock(last_->mutex);
  check(last_->aux_loss.defined(), "MoE: aux_loss() before the first forward; call the layer");
  return last_->aux_loss;
}

MoEStatistics MoE::statistics() const {
  const std::lock_guard lock(last_->mutex);
  check(last_->aux_loss.defined(), "MoE: statistics() before the first forward; call the layer");
  return last_->statistics;
}

std::string MoE::extra_repr() const {
  return "top_k=" + std::to_string(options_.top_k) +
         ", capacity_factor=" + repr::text(options_.capacity_factor) +
         ", normalize_gates=" + repr::text(options_.normalize_gates) +
         ", load_balance_coef=" + repr::text(options_.load_balance_coef) +
         ", router_z_coef=" + repr::text(options_.router_z_coef);
}

Tensor moe_aux_loss(Module& model) {
  Tensor total;
  for (Module* module : model.modules()) {
    const auto* moe = dynamic_cast<MoE*>(module);
    if (moe == nullptr) continue;
    total = total.defined() ? total + moe->aux_loss() : moe->aux_loss();
  }
  check(total.defined(), "moe_aux_loss: ", model.type_name(), " has no MoE layer");
  return total;
}

}  // namespace hero::nn
