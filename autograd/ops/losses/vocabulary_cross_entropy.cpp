// The cross entropy of logits whose classes are cut among several ranks. N rows, K inputs, C
// classes.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/core/functions/map.h>

namespace hero::detail {

namespace {

constexpr auto kVocabularyLoss = "linear_cross_entropy";

// Rows of the weight that lie in each box.
std::vector<int64_t> rows_of_boxes(const Tensor& weight, const Partition& part) {
  std::vector<int64_t> rows;
  for (const Box& box : part.boxes) {
    check(part.whole.size() == 2 && box.extent[1] == part.whole[1], kVocabularyLoss,
          ": the weight holds ", layout::text({box}), " of ", part.whole,
          "; only whole rows of it can be cut");
    rows.push_back(box.extent[0]);
  }
  check(part.first == 0 &&
            weight.shape() ==
                Shape{layout::numel(part.whole, part.boxes) / part.whole[1], part.whole[1]},
        kVocabularyLoss, ": the weight is a shard, ", describe_part(weight),
        "; compute inside the forward of the module that was sharded");
  return rows;
}

// The target's logit where the class is one of the `count` from `first` on, else 0: [N].
Tensor target_logit(const Tensor& logits, const Tensor& classes, int64_t first, int64_t count) {
  const Tensor here = logical_and(classes >= first, classes < first + count);
  const Tensor column = unsqueeze(where(here, classes - first, 0), 1);
  return where(here, squeeze(gather(logits, 1, column), 1), 0);
}

// Each row's largest logit over all ranks, which no derivative sees: [N].
Tensor largest_logits(const std::vector<Tensor>& logits, RankGroup& group) {
  const NoGrad no_grad;
  Tensor top;
  for (const Tensor& slice : logits) {
    const Tensor found = amax(slice, {1});
    top = top.defined() ? maximum(top, found) : found;
  }
  const Array all = top.array().contiguous();
  if (group.size() > 1) group.largest(all);
  return Tensor(all);
}

}  // namespace

Tensor vocabulary_cross_entropy(const Tensor& x, const Tensor& weight, const Partition& part,
                                const Tensor& target, const LinearCrossEntropyOptions& options) {
  const collectives::Group group = part.group;
  check(static_cast<bool>(group), kVocabularyLoss, ": the weight's boxes have no group of ranks");
  check(x.ndim() == 2 && x.size(1) == part.whole.back() && target.shape() == Shape{x.size(0)},
        kVocabularyLoss, ": x ", x.shape(), ", weight ", part.whole, " and target ", target.shape(),
        " do not fit; they should be [N, K], [C, K] and [N]");
  check(
      !options.linear_bias.defined() && !options.weight.defined() && options.label_smoothing == 0.0,
      kVocabularyLoss,
      ": a weight whose classes are cut takes neither bias nor label smoothing nor class weights");
  check(options.reduction != Reduction::none, kVocabularyLoss,
        ": Reduction::none is not there; use cross_entropy(linear(x, weight), target)");
  check_class_dtypes(kVocabularyLoss, x, target);
  const std::vector<int64_t> rows = rows_of_boxes(weight, part);
  const Targets targets =
      read_targets(kVocabularyLoss, part.whole[0], target, options.ignore_index);
  const std::vector<Tensor> copies =
      collectives::copy_in(x, group, static_cast<int>(part.boxes.size()));
  const std::vector<Tensor> weights =
      rows.size() == 1 ? std::vector<Tensor>{weight} : split(weight, rows, 0);
  std::vector<Tensor> logits, sums;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Tensor slice = linear(copies[i], weights[i]);
    logits.push_back(slice.to(statistics_dtype(slice.dtype())));
  }
  const Tensor top = largest_logits(logits, *group);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Tensor powers = sum(exp(logits[i] - unsqueeze(top, 1)), {1});
    const int64_t first = part.boxes[i].offset[0];
    sums.push_back(stack({powers, target_logit(logits[i], targets.classes, first, rows[i])}));
  }
  const std::vector<Tensor> joined = unbind(collectives::sum_out(sums, group));
  // in this order, since the difference of two large logits is exact and their sum with a logarithm
  // is not
  Tensor loss = (top - joined[1]) + log(joined[0]);
  if (targets.counted.defined()) loss = where(targets.counted, loss, 0);
  loss = sum(loss);
  if (options.reduction == Reduction::mean) loss = mean_of_counted(loss, targets);
  return autocast_enabled() ? loss : loss.to(x.dtype());
}

}  // namespace hero::detail
