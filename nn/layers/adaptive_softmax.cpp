#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/nn/adaptive_softmax.h>

namespace hero::nn {

namespace {

constexpr auto kAdaptive = "AdaptiveLogSoftmaxWithLoss";

int64_t head_size(const std::vector<int64_t>& cutoffs, int64_t n_classes) {
  check(!cutoffs.empty(), kAdaptive, ": cutoffs are empty; give at least one");
  int64_t before = 0;
  for (const int64_t cutoff : cutoffs) {
    check(cutoff > before && cutoff < n_classes, kAdaptive, ": cutoffs must increase from above 0 ",
          "to below n_classes, which is ", n_classes, ": got ", Dims(cutoffs));
    before = cutoff;
  }
  return cutoffs[0] + static_cast<int64_t>(cutoffs.size());
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes,
                                                       std::vector<int64_t> cutoffs,
                                                       const AdaptiveLogSoftmaxOptions& options)
    : in_features_(in_features),
      n_classes_(n_classes),
      bounds_(std::move(cutoffs)),
      head(add<Linear>("head", in_features, head_size(bounds_, n_classes),
                       {.bias = options.head_bias})),
      tail(add<ModuleListOf<Sequential>>("tail")) {
  check(options.div_value > 0.0, kAdaptive, ": div_value must be positive: ", options.div_value);
  bounds_.push_back(n_classes);
  for (size_t i = 0; i + 1 < bounds_.size(); ++i) {
    const double divisor = std::pow(options.div_value, static_cast<double>(i + 1));
    // As Python's //, which rounds down.
    const auto inner = static_cast<int64_t>(std::floor(static_cast<double>(in_features) / divisor));
    check(inner > 0, kAdaptive, ": cluster ", i, " would pass through ", in_features, " / ",
          divisor, " elements, which is less than 1; use a smaller div_value or fewer cutoffs");
    Sequential& cluster = tail.append();
    cluster.append<Linear>(in_features, inner, {.bias = false});
    cluster.append<Linear>(inner, bounds_[i + 1] - bounds_[i], {.bias = false});
  }
}

AdaptiveLogSoftmaxOutput AdaptiveLogSoftmaxWithLoss::forward(const Tensor& x,
                                                             const Tensor& target) {
  const bool one = x.ndim() == 1;
  check((one || x.ndim() == 2) && x.size(-1) == in_features_, kAdaptive, ": expected [N, ",
        in_features_, "] or [", in_features_, "], got ", x.shape());
  check(target.ndim() == x.ndim() - 1 && (one || target.size(0) == x.size(0)), kAdaptive,
        ": targets have shape ", target.shape(), " beside x ", x.shape());
  check(target.dtype() == kInt64, kAdaptive, ": targets must be int64: got ", target.dtype());
  const Tensor output =
      one ? squeeze(of_targets(unsqueeze(x, 0), unsqueeze(target, 0)), 0) : of_targets(x, target);
  return {output, mean(-output)};
}

// On meta, where targets have no values, by way of all classes: the shape is the same.
Tensor AdaptiveLogSoftmaxWithLoss::of_targets(const Tensor& x, const Tensor& target) {
  if (target.device() == kMeta) {
    return squeeze(gather(log_prob(x), 1, unsqueeze(target, 1)), 1);
  }
  const std::vector<int64_t> classes = target.to_vector<int64_t>();
  std::vector<int64_t> columns = classes;  // of the head
  std::vector<std::vector<int64_t>> rows(tail.size()), within(tail.size());
  for (size_t n = 0; n < classes.size(); ++n) {
    check(classes[n] >= 0 && classes[n] < n_classes_, kAdaptive, ": target ", classes[n],
          " at position ", n, " is outside [0, ", n_classes_, ")");
    for (size_t i = 0; i < tail.size(); ++i) {
      if (classes[n] < bounds_[i] || classes[n] >= bounds_[i + 1]) continue;
      columns[n] = bounds_[0] + static_cast<int64_t>(i);
      rows[i].push_back(static_cast<int64_t>(n));
      within[i].push_back(classes[n] - bounds_[i]);
    }
  }
  const auto chosen = [&](const Tensor& logits, const std::vector<int64_t>& places) {
    const Tensor column = unsqueeze(tensor(places).to(x.device()), 1);
    return squeeze(gather(log_softmax(logits, 1), 1, column), 1);
  };
  Tensor output = chosen(head(x), columns);
  for (size_t i = 0; i < tail.size(); ++i) {
    if (rows[i].empty()) continue;
    const Tensor place = tensor(rows[i]).to(x.device());
    output = index_add(output, 0, place, chosen(tail[i](index_select(x, 0, place)), within[i]));
  }
  return output;
}

AdaptiveLogSoftmaxOutput AdaptiveLogSoftmaxWithLoss::operator()(const Tensor& x,
                                                                const Tensor& target) {
  const Tensors results = run_hooked({x, target}, [this](const Tensors& in) {
    const AdaptiveLogSoftmaxOutput found = forward(in[0], in[1]);
    return Tensors{found.output, found.loss};
  });
  return {results[0], results[1]};
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& x) {
  check(x.ndim() == 2 && x.size(1) == in_features_, kAdaptive, ": expected [N, ", in_features_,
        "], got ", x.shape());
  return whole_log_prob(head(x), x);
}

Tensor AdaptiveLogSoftmaxWithLoss::whole_log_prob(const Tensor& head_logits, const Tensor& x) {
  const Tensor of_head = log_softmax(head_logits, 1);
  std::vector<Tensor> parts{narrow(of_head, 1, 0, bounds_[0])};
  for (size_t i = 0; i < tail.size(); ++i) {
    const Tensor of_cluster = narrow(of_head, 1, bounds_[0] + static_cast<int64_t>(i), 1);
    parts.push_back(log_softmax(tail[i](x), 1) + of_cluster);
  }
  return cat(parts, 1);
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) {
  check(x.ndim() == 2 && x.size(1) == in_features_, kAdaptive, ": expected [N, ", in_features_,
        "], got ", x.shape());
  const Tensor logits = head(x), best = argmax(logits, 1);
  if (x.device() == kMeta) return best;
  const Tensor rare = squeeze(nonzero(best >= bounds_[0]), 1);
  if (rare.numel() == 0) return best;
  const Tensor all = whole_log_prob(index_select(logits, 0, rare), index_select(x, 0, rare));
  return index_put(best, {rare}, argmax(all, 1));
}

}  // namespace hero::nn
