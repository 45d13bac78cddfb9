// Batch norms after training: folded into the layers before them, and with statistics of new
// weights.
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/nn.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

// Statistics, weights and biases without pattern, in double.
template <class M>
M& settled(M& norm) {
  const NoGrad no_grad;
  norm.to(kFloat64);
  norm.running_mean.copy_(randn({norm.num_features}));
  norm.running_var.copy_(rand({norm.num_features}) + 0.5);
  if (norm.weight.defined()) norm.weight.copy_(randn({norm.num_features}));
  if (norm.bias.defined()) norm.bias.copy_(randn({norm.num_features}));
  norm.eval();
  return norm;
}

template <class C, class N>
void check_conv(C conv, N norm, const Shape& shape) {
  conv.to(kFloat64);
  CHECK_THROWS_WITH(nn::fuse_conv_bn_eval(conv, norm), ContainsSubstring("evaluation mode"));
  conv.eval();
  settled(norm);
  const Tensor x = randn(shape, {.dtype = kFloat64}), expected = norm(conv(x));
  nn::fuse_conv_bn_eval(conv, norm);
  CHECK(max(abs(conv(x) - expected)).item() < 1e-12);
  CHECK(conv.parameters().size() == 2);
  CHECK(to_string(conv).find("bias") == std::string::npos);
}

}  // namespace

TEST_CASE("a batch norm is folded into the convolution or linear layer before it") {
  manual_seed(3);
  check_conv(nn::Conv1d(4, 6, 3), nn::BatchNorm1d(6), {2, 4, 5});
  check_conv(nn::Conv2d(4, 6, 3, {.groups = 2, .bias = false}), nn::BatchNorm2d(6), {2, 4, 5, 4});
  check_conv(nn::Conv3d(2, 3, 2), nn::BatchNorm3d(3, {.affine = false}), {2, 2, 3, 3, 2});
  check_conv(nn::ConvTranspose2d(4, 6, 3, {.groups = 2}), nn::BatchNorm2d(6, {.eps = 0.1}),
             {2, 4, 5, 4});
  check_conv(nn::ConvTranspose1d(4, 6, 2, {.bias = false}), nn::BatchNorm1d(6, {.bias = false}),
             {2, 4, 5});
  nn::Linear linear(4, 3);
  nn::BatchNorm1d norm(3);
  linear.to(kFloat64);
  linear.eval();
  settled(norm);
  const Tensor x = randn({5, 4}, {.dtype = kFloat64}), expected = norm(linear(x));
  nn::fuse_linear_bn_eval(linear, norm);
  CHECK(max(abs(linear(x) - expected)).item() < 1e-12);
  nn::BatchNorm1d other(4);
  other.eval();
  CHECK_THROWS_WITH(nn::fuse_linear_bn_eval(linear, other),
                    ContainsSubstring("a norm of 4 channels behind 3 outputs"));
  nn::BatchNorm1d without(3, {.track_running_stats = false});
  without.eval();
  CHECK_THROWS_WITH(nn::fuse_linear_bn_eval(linear, without),
                    ContainsSubstring("no running statistics"));
}

TEST_CASE("update_bn makes running statistics the means over the batches that it is shown") {
  manual_seed(4);
  nn::Sequential net{nn::Linear(3, 2), nn::BatchNorm1d(2), nn::ReLU(), nn::Linear(2, 1)};
  auto& norm = static_cast<nn::BatchNorm1d&>(net[1]);
  for (int i = 0; i < 3; ++i) net(randn({8, 3}));
  net.eval();
  net[3].train();
  const std::vector<Tensor> batches = {randn({8, 3}), 2 * randn({8, 3}) + 1, randn({8, 3})};
  Tensor means = zeros({2}), variances = zeros({2});
  for (const Tensor& batch : batches) {
    const Tensor y = net[0](batch).detach();
    means = means + mean(y, {0}) / 3;
    variances = variances + var(y, {0}) / 3;
  }
  nn::update_bn(net, [&] {
    for (const Tensor& batch : batches) net(batch);
  });
  CHECK(allclose(norm.running_mean, means));
  CHECK(allclose(norm.running_var, variances));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 3);
  CHECK(norm.options().momentum == 0.1);
  CHECK_FALSE(norm.training());
  CHECK(net[3].training());
  CHECK_THROWS_WITH(nn::update_bn(net, [] { fail("no data"); }), ContainsSubstring("no data"));
  CHECK(norm.options().momentum == 0.1);
  CHECK(allclose(norm.running_var, ones({2})));
}
