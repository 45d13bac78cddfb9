// linear_cross_entropy where a row's target is more than a class: its scores are computed again in
// backward, chunk by chunk.
#include <algorithm>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/losses/loss.h>

namespace hero::detail {

namespace {

// The sum of the weights of all targets that count.
Tensor weight_of(const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  const Targets targets =
      read_targets("linear_cross_entropy", weight.size(0), target, ignore_index);
  const Tensor each = index_select(weight.detach(), 0, targets.classes);
  return sum(targets.counted.defined() ? where(targets.counted, each, 0) : each);
}

}  // namespace

Tensor linear_cross_entropy_parts(const Tensor& x, const Tensor& weight, const Tensor& target,
                                  const LinearCrossEntropyOptions& options, int64_t rows) {
  const int64_t N = x.size(0);
  const bool probable = is_floating(target.dtype());
  const DType wide = statistics_dtype(x.dtype());
  const CrossEntropyOptions each{
      .weight = options.weight.defined() ? options.weight.to(wide) : Tensor(),
      .reduction = Reduction::sum,
      .ignore_index = options.ignore_index,
      .label_smoothing = options.label_smoothing};
  const auto part = [=, bias = options.linear_bias](const Tensor& some, const Tensor& to) {
    const Tensor scores = linear(some, weight, bias).to(wide);
    return cross_entropy(scores, probable ? to.to(wide) : to, each);
  };
  Tensor loss;
  for (int64_t at = 0; at == 0 || at < N; at += rows) {
    const int64_t end = std::min(at + rows, N);
    const Tensor some = slice(x, 0, at, end), to = slice(target, 0, at, end);
    const Tensor sum = N > rows ? checkpoint(part, some, to) : part(some, to);
    loss = loss.defined() ? loss + sum : sum;
  }
  if (options.reduction == Reduction::sum) return loss;
  if (probable) return loss / static_cast<double>(N);
  return loss / weight_of(target, each.weight, options.ignore_index);
}

}  // namespace hero::detail
