// Products with what follows or precedes them, on the GPU beside the CPU's in float64.
#include <algorithm>
#include <cmath>

#include "cuda/close.h"

#include <hero/core/device/backend.h>
#include <hero/core/functions/reductions.h>
#if defined(HERO_CUSIM)
#include <cublasLt.h>
#endif

using namespace hero;
using namespace hero_test;
using hero::test::awkward;
using hero::test::noise;
using hero::test::same;

TEST_CASE("a linear layer's bias and activation ride on the product or follow it") {
  HERO_NEEDS_GPU();
  using core::Activation;
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  const int64_t columns = GENERATE(24, 13);  // rows of the extra matrix of 16 bytes or not
  const Activation activation =
      GENERATE(Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh);
  const bool has_bias = GENERATE(true, false), wants_z = GENERATE(true, false);
  const Array x = noise({9, 17}, dtype, 1), w = noise({columns, 17}, dtype, 2);
  const Array bias = noise({columns}, dtype, 3);
  const auto run = [&](const Array& x_in, const Array& w_in, const Array& bias_in) {
    const Array out = Array::empty({9, columns}, x_in.dtype(), x_in.device());
    const Array z = out.empty_like();
    core::backend(x_in.device())
        .run(core::call::Linear{activation, x_in, w_in, has_bias ? &bias_in : nullptr, out,
                                wants_z ? &z : nullptr});
    return std::pair(out, wants_z ? z : out);
  };
  const auto [out, z] = run(x.to(kFloat64), w.to(kFloat64), bias.to(kFloat64));
  const auto [got, got_z] = run(on_gpu(x), awkward_on_gpu(w), on_gpu(bias));
  // A product that is not fused is rounded before its bias is added, and gelu meets a rounded z:
  // up to three roundings where there was one; approximations of gelu are good to some more units
  // in the last place of float32.
  const double several = 3.0 * product_tolerance(dtype, 17);
  CHECK(distance(got, out) <= several);
  CHECK(distance(got_z, z) <= several);
#if defined(HERO_CUSIM)
  if (has_bias && dtype != kFloat64) {
    const bool whole =
        item_size(dtype) == 2 && activation == Activation::gelu_tanh && wants_z && columns % 8 == 0;
    CHECK(cusim::products().last_epilogue ==
          (whole ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS));
  }
#endif
}

TEST_CASE("a linear layer keeps NaN and adds its bias to empty sums") {
  HERO_NEEDS_GPU();
  const Array x = Array::full({1, 8}, std::nan(""), kFloat32, kGpu);
  const Array w = Array::ones({8, 8}, kFloat32, kGpu), bias = Array::ones({8}, kFloat32, kGpu);
  const Array out = Array::empty({1, 8}, kFloat32, kGpu);
  core::backend(kGpu).run(core::call::Linear{core::Activation::relu, x, w, &bias, out, nullptr});
  CHECK(std::isnan(out.to(kCpu).data<float>()[3]));
  const Array none = Array::empty({1, 0}, kFloat32, kGpu),
              no_w = Array::empty({8, 0}, kFloat32, kGpu);
  core::backend(kGpu).run(
      core::call::Linear{core::Activation::none, none, no_w, &bias, out, nullptr});
  CHECK(same(out.to(kCpu), Array::ones({1, 8})));
}

TEST_CASE("a linear layer's gradients ride on two products or follow them") {
  HERO_NEEDS_GPU();
  using core::Activation;
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  const auto [m, n, k] = GENERATE(std::tuple{9, 17, 24}, std::tuple{7, 5, 13}, std::tuple{1, 1, 8},
                                  std::tuple{40, 8, 1});
  const Activation activation = GENERATE(Activation::none, Activation::gelu, Activation::gelu_tanh);
  const bool wants_bias = GENERATE(true, false);
  const Array g = noise({m, n}, dtype, 1), w = noise({n, k}, dtype, 2), u = noise({m, k}, dtype, 3);
  const Array x = noise({m, k}, dtype, 4);
  const auto run = [&](const Array& g_in, const Array& x_in, const Array& w_in, const Array& u_in) {
    const auto make = [&](const Shape& shape) {
      return Array::empty(shape, g_in.dtype(), g_in.device());
    };
    core::call::LinearBack back;
    back.g = g_in;
    back.x = x_in;
    back.w = w_in;
    back.g_x = make({m, k});
    back.g_w = make({n, k});
    if (wants_bias) back.g_bias = make({n});
    if (activation != Activation::none) {
      back.activation = activation;
      back.u = u_in;
    }
    core::backend(g_in.device()).run(back);
    return back;
  };
  const core::call::LinearBack expected =
      run(g.to(kFloat64), x.to(kFloat64), w.to(kFloat64), u.to(kFloat64));
  const core::call::LinearBack got =
      run(awkward_on_gpu(g), awkward_on_gpu(x), on_gpu(w), u.to(kGpu));
  // As for the layer: a product that is not fused is rounded before gelu's derivative multiplies
  // it.
  const double several = 3.0 * product_tolerance(dtype, std::max({m, n, k}));
  CHECK(distance(got.g_x, expected.g_x) <= several);
  CHECK(distance(got.g_w, expected.g_w) <= several);
  // Sums of terms that cancel: their error is a part of the terms, not of what is left.
  const auto length = [](const Array& numbers) {
    double squares = 0.0;
    for (const double value : numbers.to(kCpu).to_vector<double>()) squares += value * value;
    return std::sqrt(squares);
  };
  if (wants_bias) {
    CHECK(distance(got.g_bias, expected.g_bias) * length(expected.g_bias) <= several * length(g));
  }
#if defined(HERO_CUSIM)
  CHECK(cusim::products().last_epilogue ==
        (wants_bias && dtype != kFloat64 ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT));
  core::call::LinearBack input_only = got;
  input_only.g_w = input_only.g_bias = Array();
  core::backend(kGpu).run(input_only);
  const bool fused = activation == Activation::gelu_tanh && item_size(dtype) == 2 && k % 8 == 0;
  CHECK(cusim::products().last_epilogue ==
        (fused ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT));
#endif
}

TEST_CASE("gradients of a linear layer over no rows are zero") {
  HERO_NEEDS_GPU();
  const auto make = [](const Shape& shape) { return Array::full(shape, 7, kFloat32, kGpu); };
  core::call::LinearBack back;
  back.g = make({0, 3});
  back.x = make({0, 8});
  back.w = make({3, 8});
  back.g_x = make({0, 8});
  back.g_w = make({3, 8});
  back.g_bias = make({3});
  back.activation = core::Activation::gelu_tanh;
  back.u = make({0, 8});
  core::backend(kGpu).run(back);
  CHECK(same(back.g_w.to(kCpu), Array::zeros({3, 8})));
  CHECK(same(back.g_bias.to(kCpu), Array::zeros({3})));
}

TEST_CASE("a bias anywhere in memory has the bits of one at its beginning") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kBFloat16);
  const Array x = noise({6, 16}, dtype, 1).to(kGpu), w = noise({8, 16}, dtype, 2).to(kGpu);
  const Array values = noise({9}, dtype, 3);
  const auto run = [&](const Array& bias) {
    const Array out = Array::empty({6, 8}, dtype, kGpu), z = out.empty_like();
    core::backend(kGpu).run(core::call::Linear{core::Activation::gelu_tanh, x, w, &bias, out, &z});
    return out.to(kCpu);
  };
  const Array first = run(values.slice(0, 1, 9).clone().to(kGpu));
  CHECK(same(run(values.to(kGpu).slice(0, 1, 9)), first));
}

#if defined(HERO_CUSIM)

TEST_CASE("an epilogue that is slow, or fails, is left to kernels of our own") {
  const bool refused = GENERATE(false, true);
  const int64_t m = refused ? 5 : 6, k = 16, n = 24;  // shapes of no other test
  const Array x = noise({m, k}, kFloat32, 1).to(kGpu), w = noise({n, k}, kFloat32, 2).to(kGpu);
  const Array bias = noise({n}, kFloat32, 3).to(kGpu), g = noise({m, n}, kFloat32, 4).to(kGpu);
  core::call::LinearBack back;
  back.g = g;
  back.x = x;
  back.w = w;
  back.g_w = w.empty_like();
  back.g_bias = bias.empty_like();
  const Array out = g.empty_like(), z = g.empty_like();
  cusim::set_epilogues(5.0, refused);
  for (int call = 0; call < 2; ++call) {
    core::backend(kGpu).run(core::call::Linear{core::Activation::gelu_tanh, x, w, &bias, out, &z});
    CHECK(cusim::products().last_epilogue == CUBLASLT_EPILOGUE_DEFAULT);
    core::backend(kGpu).run(back);
    CHECK(cusim::products().last_epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  }
  cusim::set_epilogues(0.0);
  const Array expected = g.to(kCpu).empty_like(), expected_z = expected.empty_like();
  const Array cpu_bias = bias.to(kCpu);
  core::cpu_backend().run(core::call::Linear{core::Activation::gelu_tanh, x.to(kCpu), w.to(kCpu),
                                             &cpu_bias, expected, &expected_z});
  CHECK(distance(out, expected) <= 2.0 * product_tolerance(kFloat32, k));
  CHECK(distance(z, expected_z) <= product_tolerance(kFloat32, k));
  CHECK(distance(back.g_bias, core::reduce(core::ReduceKind::sum, g.to(kCpu), {0})) < 1e-5);
}

#endif
