#include <hero/autograd/ops.h>
#include <hero/core/error.h>
#include <hero/dist/average.h>

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
