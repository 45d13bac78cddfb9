#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/nn/linear.h>

namespace hero::nn {

namespace {
int64_t positive(const char* what, int64_t value) {
  check(value > 0, "Linear: ", what, " is ", value, "; it must be positive");
  return value;
}
}  // namespace

// kaiming_uniform with a = sqrt(5) is uniform in +-1 / sqrt(fan_in).
Linear::Linear(int64_t in, int64_t out, const LinearOptions& options)
    : in_features(positive("in_features", in)),
      out_features(positive("out_features", out)),
      weight(parameter("weight", {out, in}, init::kaiming_uniform({.a = std::sqrt(5.0)}))),
      bias(options.bias ? parameter("bias", {out}, init::uniform_fan(in)) : no_parameter("bias")) {}

Tensor Linear::forward(const Tensor& x) {
  // Of a slice of the layer there are fewer inputs than in_features.
  check(x.ndim() >= 1 && x.size(-1) == weight.size(-1), "Linear: expected [.., ", weight.size(-1),
        "], got ", x.shape());
  return linear(x, weight, bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) +
         ", out_features=" + std::to_string(out_features) +
         ", bias=" + (bias.defined() ? "True" : "False");
}

}  // namespace hero::nn
