#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/error.h>
#include <hero/dist/average.h>
#include <hero/optim/accumulator.h>

namespace hero::dist {
namespace {

// The end of the bucket that begins with parameter `begin`: a bucket has one dtype and device.
size_t end_of_bucket(const std::vector<Tensor>& parameters, size_t begin, int64_t bytes) {
  const Tensor& first = parameters[begin];
  int64_t used = first.array().nbytes();
  size_t end = begin + 1;
  for (; end < parameters.size(); ++end) {
    const Tensor& next = parameters[end];
    used += next.array().nbytes();
    if (next.dtype() != first.dtype() || next.device() != first.device() || used > bytes) break;
  }
  return end;
}

}  // namespace

std::vector<double> target_weights(const std::vector<double>& targets, const Communicator& group) {
  check(group.defined(), "target_weights: the group of ranks is undefined");
  if (group.size() == 1 && group.backend_kind() != BackendKind::simulated)
    return optim::target_weights(targets);
  // Of each rank its targets, NaN for a number that is none, and its micro-batches.
  double own = 0.0;
  for (const double each : targets) own += each >= 0.0 ? each : std::nan("");
  const auto parts = static_cast<double>(targets.size());
  const int ranks = group.size();
  const Array all = Array::zeros({ranks, 2}, kFloat64);
  group.all_gather(all, Array::from(std::vector<double>{own, parts}, {2}), {.unit = "targets"});
  if (group.backend_kind() == BackendKind::simulated)
    return std::vector<double>(targets.size(), 1.0);
  const std::vector<double> told = all.to_vector<double>();
  double sum = 0.0;
  for (int rank = 0; rank < ranks; ++rank) {
    const double theirs = told[2 * static_cast<size_t>(rank)];
    const double their_parts = told[2 * static_cast<size_t>(rank) + 1];
    check(std::isfinite(theirs), "target_weights: rank ", rank,
          " has a number of targets that is negative or not finite");
    check(their_parts == told[1], "target_weights: rank 0 has ", told[1],
          " micro-batches and rank ", rank, " has ", their_parts,
          "; the mean over ranks needs equally many");
    sum += theirs;
  }
  return optim::target_weights(targets, parts * ranks, sum);
}

void average_parameters(const std::vector<Tensor>& parameters, const Communicator& group,
                        const AverageOptions& options) {
  check(options.bucket_bytes > 0,
        "average_parameters: bucket_bytes must be positive: ", options.bucket_bytes);
  for (const Tensor& parameter : parameters) {
    check(parameter.defined() && is_floating(parameter.dtype()),
          "average_parameters: a parameter is ",
          parameter.defined() ? name(parameter.dtype()) : "undefined",
          ", and only floating dtypes have means");
  }
  const NoGrad no_grad;
  for (size_t begin = 0; begin < parameters.size() && group.size() > 1;) {
    const size_t end = end_of_bucket(parameters, begin, options.bucket_bytes);
    std::vector<Tensor> flat;
    for (size_t i = begin; i < end; ++i) flat.push_back(parameters[i].detach().reshape({-1}));
    const Tensor row = cat(flat, 0);
    group.all_reduce(row.array(),
                     {.op = ReduceOp::mean, .order = options.order, .unit = "average"});
    int64_t at = 0;
    for (; begin < end; ++begin) {
      const Tensor& parameter = parameters[begin];
      const Tensor mean = row.slice(0, at, at + parameter.numel());
      parameter.copy_(mean.reshape(parameter.shape()));
      at += parameter.numel();
    }
  }
}

}  // namespace hero::dist
