// Connectionist temporal classification: the sum over alignments, step by step in time.
#include <limits>

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/core/device/kernel_traits.h>

// T steps, N samples, C classes, S targets, L = 2 S + 1 states: blanks around and between targets.

namespace hero {

namespace {

// The logarithm of nothing: so low that it never counts, and finite, so that differences exist.
constexpr double kNothing = -1e30;

struct Lengths {
  Tensor input, target;  // int64 [N]
};

// Targets [N, S], whose rows beyond their length are blanks.
Tensor padded_targets(const Tensor& targets, const Lengths& lengths, int64_t blank) {
  const int64_t samples = lengths.target.numel();
  const Tensor labels = targets.detach().to(kInt64);
  // On meta no length is known, but none changes the shape of a result.
  const bool is_known = core::has_values(targets.device());
  const int64_t longest = samples == 0 ? 0
                          : is_known   ? max(lengths.target).item<int64_t>()
                                       : targets.size(-1);
  const Tensor column = arange(longest, TensorOptions{.device = targets.device()});
  const Tensor inside = column < unsqueeze(lengths.target, 1);
  if (targets.ndim() == 2) {
    check(targets.size(0) == samples && targets.size(1) >= longest, "ctc_loss: targets ",
          targets.shape(), " for ", samples, " samples of at most ", longest, " labels");
    return where(inside, slice(labels, 1, 0, longest), blank);
  }
  check(!is_known || targets.numel() == sum(lengths.target).item<int64_t>(),
        "ctc_loss: ", targets.numel(), " labels are not what target_lengths add up to");
  const Tensor starts = cumsum(lengths.target, 0) - lengths.target;
  const Tensor place = where(inside, unsqueeze(starts, 1) + column, 0);
  if (labels.numel() == 0) return full({samples, longest}, blank, {.device = targets.device()});
  return where(inside, take(labels, place), blank);
}

void check_labels(const Tensor& labels, int64_t classes) {
  if (!core::has_values(labels.device()) || labels.numel() == 0) return;
  const auto least = min(labels).item<int64_t>(), most = max(labels).item<int64_t>();
  check(least >= 0 && most < classes, "ctc_loss: target ", least < 0 ? least : most,
        " is none of the ", classes, " classes");
}

// The states' classes [N, L].
Tensor states_of(const Tensor& labels, int64_t blank) {
  const Tensor blanks = full_like(labels, blank);
  const Tensor pairs = reshape(stack({blanks, labels}, 2), {labels.size(0), 2 * labels.size(1)});
  return cat({pairs, full({labels.size(0), 1}, blank, {.device = labels.device()})}, 1);
}

// Scores moved on by `by` states.
Tensor moved(const Tensor& scores, int64_t by) {
  return pad(scores, {by, -by}, PadMode::constant, kNothing);
}

// The logarithm of each sample's sum over alignments [N]. log_probs [T, N, C].
Tensor log_alignments(const Tensor& log_probs, const Tensor& states, const Lengths& lengths,
                      int64_t blank) {
  const int64_t steps = log_probs.size(0), samples = log_probs.size(1), count = states.size(1);
  const Tensor scores = gather(log_probs, 2, expand(unsqueeze(states, 0), {steps, samples, count}));
  // A state may be skipped where it is a blank between different labels.
  const Tensor before = pad(states, {2, -2}, PadMode::constant, static_cast<double>(blank));
  const Tensor skips = logical_and(states != blank, states != before);
  const Tensor state = arange(count, TensorOptions{.device = states.device()});
  // In the beginning the first blank or the first label.
  Tensor alpha = where(state < 2, select(scores, 0, 0), kNothing);
  for (int64_t t = 1; t < steps; ++t) {
    const Tensor skipped = where(skips, moved(alpha, 2), kNothing);
    const Tensor ways = logaddexp(logaddexp(alpha, moved(alpha, 1)), skipped);
    // Far below nothing, many steps would add up to infinity.
    const Tensor next = clamp(ways + select(scores, 0, t), kNothing, {});
    alpha = where(unsqueeze(lengths.input > t, 1), next, alpha);
  }
  const Tensor last = unsqueeze(lengths.target * 2, 1);
  const Tensor on_blank = gather(alpha, 1, last);
  const Tensor on_label = where(last == 0, kNothing, gather(alpha, 1, clamp(last - 1, 0, {})));
  // Without any step there is one alignment, of no target.
  const Tensor unread =
      full_like(alpha.select(1, 0), kNothing).masked_fill(lengths.target == 0, 0.0);
  return where(lengths.input == 0, unread, squeeze(logaddexp(on_blank, on_label), 1));
}

void check_lengths(const Tensor& log_probs, const Lengths& lengths) {
  const int64_t samples = log_probs.size(1);
  for (const Tensor& length : {lengths.input, lengths.target}) {
    check(length.numel() == samples, "ctc_loss: ", length.numel(), " lengths for ", samples,
          " samples");
    if (samples == 0 || !core::has_values(length.device())) continue;
    const auto least = min(length).item<int64_t>();
    check(least >= 0, "ctc_loss: a length is negative: ", least);
  }
  if (samples == 0 || !core::has_values(lengths.input.device())) return;
  const auto longest = max(lengths.input).item<int64_t>();
  check(longest <= log_probs.size(0), "ctc_loss: an input length is ", longest, ", more than the ",
        log_probs.size(0), " steps");
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& o) {
  detail::check_defined("ctc_loss", {{"log_probs", log_probs},
                                     {"targets", targets},
                                     {"input_lengths", input_lengths},
                                     {"target_lengths", target_lengths}});
  constexpr auto kName = "ctc_loss";
  check(log_probs.ndim() == 2 || log_probs.ndim() == 3, kName,
        ": log_probs must be [T, N, C] or [T, C]: got shape ", log_probs.shape());
  check(is_floating(log_probs.dtype()), kName, ": log_probs are ", log_probs.dtype(),
        "; they must be floating");
  check(o.blank >= 0 && o.blank < log_probs.size(-1), kName, ": blank ", o.blank,
        " is none of the ", log_probs.size(-1), " classes");
  check(log_probs.size(0) > 0, kName, ": no steps: ", log_probs.shape());
  if (detail::any_half(log_probs)) {
    return detail::in_float32(
        kName, AutocastRule::fallthrough, {log_probs, targets, input_lengths, target_lengths},
        [o](const auto& in) { return ctc_loss(in[0], in[1], in[2], in[3], o); });
  }
  if (log_probs.ndim() == 2) {
    const Tensor loss =
        ctc_loss(unsqueeze(log_probs, 1), unsqueeze(targets, 0), input_lengths, target_lengths, o);
    return o.reduction == Reduction::none ? squeeze(loss, 0) : loss;
  }
  const Lengths lengths{ravel(input_lengths.detach().to(kInt64)),
                        ravel(target_lengths.detach().to(kInt64))};
  check_lengths(log_probs, lengths);
  const Tensor labels = padded_targets(targets, lengths, o.blank);
  check_labels(labels, log_probs.size(2));
  const Tensor states = states_of(labels, o.blank);
  const Tensor total = log_alignments(log_probs, states, lengths, o.blank);
  const Tensor impossible = total <= kNothing * 0.5;
  const double infinity = o.zero_infinity ? 0.0 : std::numeric_limits<double>::infinity();
  const Tensor loss = where(impossible, infinity, -total);
  if (o.reduction == Reduction::none) return loss;
  if (o.reduction == Reduction::sum) return sum(loss);
  return mean(loss / clamp(lengths.target, 1, {}).to(loss.dtype()));
}

}  // namespace hero
