#include <hero/nn/models/blocks.h>

namespace hero::nn {
namespace {

constexpr int64_t kIgnored = -100;  // cross_entropy()'s ignore_index

}  // namespace

double valid_targets(const Tensor& targets) {
  check(targets.defined(), "target_count: the target is undefined");
  if (targets.device().type == DeviceType::meta) return static_cast<double>(targets.numel());
  const NoGrad unrecorded;
  return sum(targets != kIgnored).item();
}

Tensor turned_by_position(RotaryEmbedding& rotary, const Tensor& x, const SequencePart* sequence) {
  if (sequence == nullptr) return rotary(x);
  const std::vector<int64_t> begins = sequence->begins(x.size(2));
  const std::vector<Tensor> runs = split(x, x.size(2) / static_cast<int64_t>(begins.size()), 2);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < runs.size(); ++i) parts.push_back(rotary(runs[i], begins[i]));
  return cat(parts, 2);
}

Tensor shared_head_loss(const char* model, Linear& lm_head, const SequencePart& sequence,
                        const Tensor& features, const Tensor& targets) {
  check(features.dtype() != kFloat16 || autocast_enabled(), model,
        ": sums of losses of positions leave the range of float16 where ranks share sequences "
        "(dist::context_parallel); use bfloat16, or float32 under autocast");
  const Tensor all = targets.ndim() == 1 ? unsqueeze(targets, 0) : targets;
  const Tensor count = sum(all != kIgnored);
  std::vector<Tensor> target = slices_of(sequence, sequence.take(all, 1), 1);
  for (Tensor& each : target) each = flatten(each);
  const auto joined = [&](const Tensor& x, const auto& loss_of_rows) {
    const std::vector<Tensor> rows = slices_of(sequence, x, 1);
    std::vector<Tensor> sums;
    for (size_t i = 0; i < rows.size(); ++i) {
      sums.push_back(loss_of_rows(i, flatten(rows[i], 0, 1)));
    }
    return sequence.mean(sums, count);
  };
  if (lm_head.has_hooks_for_values()) {
    return joined(lm_head(features), [&](size_t i, const Tensor& logits) {
      return cross_entropy(logits, target[i], {.reduction = Reduction::sum});
    });
  }
  return lm_head.run_fused(features, [&](const Tensor& x) {
    const std::vector<Tensor> weights = sequence.copies(lm_head.weight);
    return joined(x, [&](size_t i, const Tensor& rows) {
      return linear_cross_entropy(rows, weights[i], target[i], {.reduction = Reduction::sum});
    });
  });
}

void check_generates(const SequencePart* sequence) {
  check(sequence == nullptr,
        "generate: ranks share each sequence of this model (dist::context_parallel), and one token "
        "at a time is no sequence; load its state into a model of its own");
}

}  // namespace hero::nn
