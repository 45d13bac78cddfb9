// Layers made of products, on the GPU and in its halves, beside the CPU's float64.
#include "cuda/close.h"

#include <hero/autograd/ops.h>

using namespace hero;
using namespace hero_test;
using hero::test::noise;
using hero::test::same;

namespace {

// Values and, without biases, gradients of `layer` for the same inputs and gradient.
struct Results {
  std::vector<Array> arrays;

  template <class Layer>
  Results(const std::vector<Array>& inputs, DType dtype, Device device, const Layer& layer) {
    std::vector<Tensor> tensors;
    for (const Array& input : inputs) {
      tensors.emplace_back(input.to(dtype).to(device));
      tensors.back().requires_grad_();
    }
    const Tensor y = layer(tensors);
    arrays.push_back(y.array());
    y.backward(Tensor(noise(y.shape(), kBFloat16, 9).to(dtype).to(device)));
    for (const Tensor& tensor : tensors) arrays.push_back(tensor.grad().array());
  }
};

// Inputs are bfloat16 numbers, so that all dtypes start from the same ones.
template <class Layer>
void check_layer(const std::vector<Array>& inputs, DType dtype, double tolerance,
                 const Layer& layer) {
  const Results expected(inputs, kFloat64, kCpu, layer);
  const Results got(inputs, dtype, kGpu, layer);
  for (size_t i = 0; i < expected.arrays.size(); ++i) {
    INFO("result " << i << " in " << to_string(dtype));
    CHECK(got.arrays[i].dtype() == dtype);
    CHECK(distance(got.arrays[i], expected.arrays[i]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("convolutions on the GPU, with groups, pointwise and dilated, are those of float64") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  // One product each way of at most a hundred terms of random signs. Halves are summed in float32
  // and rounded once; float32 and float64 round at every addition, in their own precision: the
  // square root of a hundred roundings.
  const bool half = item_size(dtype) == 2;
  const double tolerance = (half ? 4.0 : 10.0) * rounding(dtype);
  const Array x = noise({3, 4, 7, 6}, kBFloat16, 1);
  const auto conv = [](const Conv2dOptions& options) {
    return [options](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, options); };
  };
  check_layer({x, noise({5, 4, 3, 2}, kBFloat16, 2)}, dtype, tolerance,
              conv({.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}));
  check_layer({x, noise({6, 2, 3, 3}, kBFloat16, 3)}, dtype, tolerance, conv({.groups = 2}));
  check_layer({x, noise({5, 4, 1, 1}, kBFloat16, 4)}, dtype, tolerance, conv({}));
}

TEST_CASE("a convolution's bias and relu follow its product on the GPU") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kBFloat16);
  const Array x = noise({2, 3, 5, 5}, kBFloat16, 1), w = noise({4, 3, 3, 3}, kBFloat16, 2);
  const Array b = noise({4}, kBFloat16, 3);
  const auto run = [&](DType type, Device device) {
    const auto in = [&](const Array& array) { return Tensor(array.to(type).to(device)); };
    return conv2d_relu(in(x), in(w), in(b)).array();
  };
  // The product is rounded before the bias is added.
  const double tolerance = dtype == kFloat32 ? 10.0 * rounding(dtype) : 4.0 * rounding(dtype);
  CHECK(distance(run(dtype, kGpu), run(kFloat64, kCpu)) <= tolerance);
}

TEST_CASE("recurrent layers on the GPU are those of float64, forward and backward") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  // Every step rounds its states, gates and gradients; three steps and the way back pass on some of
  // that: a few dozen roundings at most, of random directions.
  const double tolerance = 16.0 * rounding(dtype);
  const int64_t hidden = 5;
  const Array x = noise({3, 4, 6}, kBFloat16, 1), h = noise({4, hidden}, kBFloat16, 2);
  check_layer(
      {x, h, noise({3 * hidden, 6}, kBFloat16, 3), noise({3 * hidden, hidden}, kBFloat16, 4)},
      dtype, tolerance, [](const std::vector<Tensor>& in) {
        return gru(in[0], in[1], {in[2], in[3], {}, {}}).output;
      });
  const Array c = noise({4, hidden}, kBFloat16, 5);
  check_layer(
      {x, h, c, noise({4 * hidden, 6}, kBFloat16, 6), noise({4 * hidden, hidden}, kBFloat16, 7)},
      dtype, tolerance, [](const std::vector<Tensor>& in) {
        return lstm(in[0], {in[1], in[2]}, {in[3], in[4], {}, {}}).output;
      });
}

TEST_CASE("linear layers on the GPU are those of float64, forward and backward") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  // Rounded sums pass through gelu and its derivative, then through products of at most 24 terms.
  const double tolerance = 8.0 * rounding(dtype);
  check_layer(
      {noise({2, 9, 16}, kBFloat16, 1), noise({24, 16}, kBFloat16, 2)}, dtype, tolerance,
      [](const std::vector<Tensor>& in) { return linear_gelu(in[0], in[1], {}, Gelu::tanh); });
}

TEST_CASE(
    "two products with gelu between them on the GPU are those of float64, and of three nodes") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  const int64_t hidden = GENERATE(24, 13);  // what gelu is taken of can be an epilogue's, or not
  const Gelu kind = GENERATE(Gelu::tanh, Gelu::erf);
  const std::vector<Array> inputs = {
      noise({2, 9, 16}, kBFloat16, 1), noise({hidden, 16}, kBFloat16, 2),
      noise({5, hidden}, kBFloat16, 3), noise({hidden}, kBFloat16, 4), noise({5}, kBFloat16, 5)};
  const auto one = [=](const std::vector<Tensor>& in) {
    return linear_gelu_linear(in[0], {in[1], in[3]}, {in[2], in[4]}, kind);
  };
  const auto three = [=](const std::vector<Tensor>& in) {
    return linear(gelu(linear(in[0], in[1], in[3]), kind), in[2], in[4]);
  };
  // As above; gradients pass through one product more.
  const double tolerance = 12.0 * rounding(dtype);
  check_layer(inputs, dtype, tolerance, one);
  check_layer(inputs, dtype, tolerance, three);
  const Results once(inputs, dtype, kGpu, one), again(inputs, dtype, kGpu, one);
  const Results apart(inputs, dtype, kGpu, three);
  for (size_t i = 0; i < once.arrays.size(); ++i) {
    CHECK(same(once.arrays[i].to(kCpu), again.arrays[i].to(kCpu)));
    // gelu by erf is no part of a product: what modules that a user watches compute has these bits
    if (kind == Gelu::erf) CHECK(same(once.arrays[i].to(kCpu), apart.arrays[i].to(kCpu)));
  }
}
