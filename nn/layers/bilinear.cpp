#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/bilinear.h>
#include <hero/nn/module/repr.h>

namespace hero::nn {

namespace {

Init within_root_of(int64_t in1) {
  check(in1 > 0, "Bilinear: in1_features must be positive: ", in1);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in1));
  return init::uniform(-bound, bound);
}

}  // namespace

Bilinear::Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
                   const BilinearOptions& options)
    : in1_(in1_features),
      in2_(in2_features),
      out_(out_features),
      weight(parameter("weight", {out_, in1_, in2_}, within_root_of(in1_))),
      bias(options.bias ? parameter("bias", {out_}, within_root_of(in1_)) : no_parameter("bias")) {}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) {
  return run_hooked({x1, x2}, [this](const Tensors& x) {
    check(x[0].ndim() > 0 && x[1].ndim() > 0 && x[0].size(-1) == in1_ && x[1].size(-1) == in2_,
          "Bilinear: expected inputs [.., ", in1_, "] and [.., ", in2_, "]: got ", x[0].shape(),
          " and ", x[1].shape());
    return Tensors{bilinear(x[0], x[1], weight, bias)};
  })[0];
}

std::string Bilinear::extra_repr() const {
  return "in1_features=" + std::to_string(in1_) + ", in2_features=" + std::to_string(in2_) +
         ", out_features=" + std::to_string(out_) + ", bias=" + repr::text(bias.defined());
}

}  // namespace hero::nn
