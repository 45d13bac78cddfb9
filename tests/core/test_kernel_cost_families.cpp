// What each family of a backend is charged with, on the cpu and on meta.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <support/catch.h>
#include <support/kernel_cost.h>

#include <hero/core/device/backend.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/kernels/elementwise.h>

namespace {

using namespace hero;
using namespace hero::core;
using hero_test::CostSum;

// One call, the kind of its kernels, and what is charged for it.
struct Case {
  std::string name;
  KernelKind kind;
  int64_t flops, bytes;
  std::function<void(Backend&, Device)> call;
};

// Made without a backend, so that nothing is charged for it.
Array zeros(const Shape& shape, DType dtype, Device device) {
  const Array x = Array::empty(shape, dtype, device);
  if (device == kCpu && x.nbytes() > 0) std::memset(x.bytes(), 0, static_cast<size_t>(x.nbytes()));
  return x;
}
Array f(const Shape& shape, Device device) { return zeros(shape, kFloat32, device); }
Array i(const Shape& shape, Device device) { return zeros(shape, kInt64, device); }

constexpr MapOp kAdd{kernels::MapList::index_of<kernels::Add>()};
constexpr int64_t kFloat = 4, kLong = 8;  // bytes

std::vector<Case> passes() {
  return {
      {"map", KernelKind::elementwise, 6, kFloat * (6 + 3 + 6),
       [](Backend& b, Device d) {
         const Array x = f({2, 3}, d), row = f({3}, d), out = f({2, 3}, d);
         b.run(call::Map{kAdd, std::vector<Operand>{x, row}, kFloat32, out});
       }},
      {"fused map", KernelKind::elementwise, 2 * 6, kFloat * (6 + 3 + 6),
       [](Backend& b, Device d) {
         const Array x = f({2, 3}, d), row = f({3}, d), out = f({2, 3}, d);
         const FusedMapStep steps[] = {{kAdd, 2, {-1, -2}}, {kAdd, 2, {0, -2}, 0}};
         b.run(call::FusedMap{steps, std::vector<Operand>{x, row}, kFloat32, {&out, 1}});
       }},
      {"copy of a half", KernelKind::copy, 0, 6 * (2 + 4),
       [](Backend& b, Device d) {
         b.run(call::Copy{zeros({6}, kFloat16, d), f({6}, d)});
       }},
      {"copy of one number to many", KernelKind::copy, 0, kFloat * (1 + 6),
       [](Backend& b, Device d) {
         b.run(call::Copy{f({1}, d).expand({6}), f({6}, d)});
       }},
      {"fill", KernelKind::elementwise, 0, kFloat * 6,
       [](Backend& b, Device d) {
         b.run(call::Fill{f({6}, d), 1.0});
       }},
      {"random", KernelKind::elementwise, 6, kFloat * 6,
       [](Backend& b, Device d) {
         b.run(call::Random{{}, 0, f({6}, d)});
       }},
      {"reduce", KernelKind::reduce, 6, kFloat * (6 + 2),
       [](Backend& b, Device d) {
         b.run(call::Reduce{ReduceKind::sum, f({2, 3}, d), nullptr, f({2, 1}, d)});
       }},
      {"exact_sum", KernelKind::reduce, 2 * 10, kFloat * 10 + kLong * exact::kWords,
       [](Backend& b, Device d) {
         b.run(call::ExactSum{ReduceKind::sum_square, std::vector{f({6}, d), f({4}, d)},
                              i({exact::kWords}, d)});
       }},
      {"clip_norm", KernelKind::elementwise, 6, kFloat * 2 * 6,
       [](Backend& b, Device d) {
         b.run(call::ClipNorm{std::vector{f({6}, d)}, zeros({}, kFloat64, d), 1.0});
       }},
      {"arg_reduce", KernelKind::reduce, 6, kFloat * (6 + 2) + kLong * 2,
       [](Backend& b, Device d) {
         b.run(call::ArgReduce{ArgOp::max, f({2, 3}, d), 1, f({2, 1}, d), i({2, 1}, d)});
       }},
      {"scan", KernelKind::reduce, 6, kFloat * 12,
       [](Backend& b, Device d) {
         b.run(call::Scan{ScanOp::sum, Direction::forward, f({2, 3}, d), 1, f({2, 3}, d)});
       }},
      {"softmax", KernelKind::reduce, 5 * 6, kFloat * 12,
       [](Backend& b, Device d) {
         b.run(call::Softmax{SoftmaxKind::softmax, f({2, 3}, d), 1, f({2, 3}, d)});
       }},
      {"softmax_backward", KernelKind::reduce, 4 * 6, kFloat * 18,
       [](Backend& b, Device d) {
         b.run(
             call::SoftmaxBack{SoftmaxKind::softmax, f({2, 3}, d), f({2, 3}, d), 1, f({2, 3}, d)});
       }},
      {"sort of rows of 4", KernelKind::reduce, 2 * 8, kFloat * 16 + kLong * 8,
       [](Backend& b, Device d) {
         b.run(call::Sort{f({2, 4}, d), 1, false, f({2, 4}, d), i({2, 4}, d)});
       }},
      {"encode", KernelKind::elementwise, 3 * 300, kFloat * 300 + 3 * 260,
       [](Backend& b, Device d) {
         b.run(call::Encode{Codec::int8, f({300}, d), 256, zeros({3, 260}, kUInt8, d), nullptr});
       }},
      {"encode with an error", KernelKind::elementwise, 6 * 300, 3 * kFloat * 300 + 2 * 36,
       [](Backend& b, Device d) {
         const Array error = f({300}, d);
         b.run(call::Encode{Codec::sign1, f({300}, d), 256, zeros({2, 36}, kUInt8, d), &error});
       }},
      {"decode", KernelKind::elementwise, 300, 2 * 132 + kFloat * 300,
       [](Backend& b, Device d) {
         b.run(call::Decode{Codec::int4, zeros({2, 132}, kUInt8, d), 256, DecodeMode::assign,
                            f({300}, d)});
       }},
      {"decode that adds", KernelKind::elementwise, 2 * 300, 2 * 132 + 2 * kFloat * 300,
       [](Backend& b, Device d) {
         b.run(call::Decode{Codec::int4, zeros({2, 132}, kUInt8, d), 256, DecodeMode::add,
                            f({300}, d)});
       }},
      {"decode to a sum of rows", KernelKind::elementwise, 5 * 256, 3 * 260 + kFloat * 256,
       [](Backend& b, Device d) {
         b.run(call::Decode{Codec::fp8_e5m2, zeros({3, 260}, kUInt8, d), 256, DecodeMode::sum,
                            f({256}, d)});
       }},
      {"normalize_channels", KernelKind::reduce, 7 * 24, kFloat * 2 * 24,
       [](Backend& b, Device d) {
         const Array mean = f({3}, d), variance = f({3}, d);
         b.run(call::NormalizeChannels{
             {.eps = 1.0}, f({2, 3, 4}, d), f({2, 3, 4}, d), mean, variance});
       }},
      {"normalize_channels_backward", KernelKind::reduce, 11 * 24, kFloat * 3 * 24,
       [](Backend& b, Device d) {
         const Array x = f({2, 3, 4}, d), g_x = f({2, 3, 4}, d), c = f({3}, d);
         b.run(call::NormalizeChannelsBack{{.eps = 1.0}, x, x, c, c, &g_x, nullptr, nullptr});
       }},
      {"normalize_channels_backward by given statistics", KernelKind::reduce, 2 * 24,
       kFloat * 2 * 24,
       [](Backend& b, Device d) {
         const Array x = f({2, 3, 4}, d), g_x = f({2, 3, 4}, d), c = f({3}, d);
         b.run(call::NormalizeChannelsBack{
             {.eps = 1.0, .fixed = true}, x, x, c, c, &g_x, nullptr, nullptr});
       }},
      {"log_likelihood", KernelKind::reduce, 4 * 6, kFloat * (6 + 2),
       [](Backend& b, Device d) {
         b.run(call::LogLikelihood{f({2, 3}, d), i({2}, d), f({2}, d), f({2, 2}, d)});
       }},
      {"log_likelihood_in_place", KernelKind::reduce, (4 + 3) * 6,
       kFloat * (6 + 2) + kFloat * 2 * 6,
       [](Backend& b, Device d) {
         b.run(call::LogLikelihoodInPlace{f({2}, d), f({2, 3}, d), i({2}, d), f({2}, d),
                                          f({2, 2}, d)});
       }},
  };
}

std::vector<Case> indexings_and_windows() {
  return {
      {"index_select", KernelKind::copy, 0, kLong * 2 + kFloat * 2 * 6,
       [](Backend& b, Device d) {
         b.run(call::IndexSelect{f({5, 3}, d), 0, i({2}, d), f({2, 3}, d)});
       }},
      {"index_add", KernelKind::copy, 0, kLong * 2 + kFloat * 3 * 6,
       [](Backend& b, Device d) {
         b.run(call::IndexAdd{f({2, 3}, d), 0, i({2}, d), 1.0, f({5, 3}, d)});
       }},
      {"gather", KernelKind::copy, 0, (kLong + kFloat * 2) * 6,
       [](Backend& b, Device d) {
         b.run(call::Gather{f({5, 3}, d), 0, i({2, 3}, d), f({2, 3}, d)});
       }},
      {"sparse_matmul", KernelKind::window, 2 * 6 * 2, kFloat * (8 + 6),
       [](Backend& b, Device d) {
         b.run(
             call::SparseMatmul{{i({4}, d), i({6}, d), f({6}, d)}, f({2, 4}, d), 1, f({2, 3}, d)});
       }},
      {"im2col", KernelKind::window, 0, kFloat * (16 + 4 * 9),
       [](Backend& b, Device d) {
         b.run(call::Im2col{f({1, 1, 4, 4}, d), {.kernel = {2, 2}}, f({1, 4, 9}, d)});
       }},
      {"col2im", KernelKind::window, 4 * 9, kFloat * (16 + 4 * 9),
       [](Backend& b, Device d) {
         b.run(call::Col2im{f({1, 4, 9}, d), {.kernel = {2, 2}}, f({1, 1, 4, 4}, d)});
       }},
      {"average pool", KernelKind::window, 4 * 4, kFloat * (16 + 4),
       [](Backend& b, Device d) {
         b.run(call::Pool{PoolOp::average,
                          f({1, 1, 4, 4}, d),
                          {.kernel = {2, 2}, .stride = {2, 2}},
                          f({1, 1, 2, 2}, d),
                          nullptr});
       }},
      {"average_pool_backward adds", KernelKind::window, 4 * 4, kFloat * (4 + 2 * 16),
       [](Backend& b, Device d) {
         b.run(call::AveragePoolBack{
             f({1, 1, 2, 2}, d), {.kernel = {2, 2}, .stride = {2, 2}}, f({1, 1, 4, 4}, d)});
       }},
  };
}

// M = 2, N = 3, K = 5; attention of 4 heads that share one of k and v by two.
std::vector<Case> products() {
  return {
      {"matmul", KernelKind::matmul, 2 * 7 * 2 * 3 * 5, kFloat * (7 * 10 + 15 + 7 * 6),
       [](Backend& b, Device d) {
         b.run(call::Matmul{f({7, 2, 5}, d), f({1, 5, 3}, d).expand({7, 5, 3}), f({7, 2, 3}, d)});
       }},
      {"linear with bias and activation", KernelKind::matmul, 2 * 2 * 3 * 5,
       kFloat * (10 + 15 + 3 + 6 + 6),
       [](Backend& b, Device d) {
         const Array bias = f({3}, d), z = f({2, 3}, d);
         b.run(call::Linear{Activation::gelu, f({2, 5}, d), f({3, 5}, d), &bias, f({2, 3}, d), &z});
       }},
      {"linear_backward", KernelKind::matmul, 2 * 2 * 2 * 3 * 5,
       kFloat * ((6 + 15 + 10) + (6 + 10 + 15)),
       [](Backend& b, Device d) {
         call::LinearBack back;
         back.g = f({2, 3}, d);
         back.x = f({2, 5}, d);
         back.w = f({3, 5}, d);
         back.g_x = f({2, 5}, d);
         back.g_w = f({3, 5}, d);
         b.run(back);
       }},
      {"attention", KernelKind::attention, 4 * 4 * (3 * 6) * 8,
       kFloat * (4 * 3 * 8 + 2 * 2 * 6 * 8 + 4 * 3 * 8),
       [](Backend& b, Device d) {
         b.run(call::Attention{{},
                               f({1, 4, 3, 8}, d),
                               f({1, 2, 6, 8}, d),
                               f({1, 2, 6, 8}, d),
                               f({1, 4, 3, 8}, d),
                               f({1, 4, 3}, d)});
       }},
      {"causal attention", KernelKind::attention, 4 * 4 * (1 + 2 + 3) * 8, kFloat * 4 * 4 * 3 * 8,
       [](Backend& b, Device d) {
         const Array x = f({1, 4, 3, 8}, d);
         b.run(call::Attention{{.is_causal = true}, x, x, x, f({1, 4, 3, 8}, d), f({1, 4, 3}, d)});
       }},
  };
}

// Windows of 2 x 2 at 3 x 3 places of 2 channels, for 3 outputs; products with blocks of 32 numbers
// in 34 bytes.
std::vector<Case> products_of_the_cpu() {
  static const Window3 window{.kernel = {1, 2, 2}};
  constexpr int64_t kBytes = kFloat * (2 * 16 + 3 * 8 + 3 * 9);
  return {
      {"convolve", KernelKind::matmul, 2 * 9 * 3 * 8, kBytes,
       [](Backend& b, Device d) {
         const Array x = f({1, 2, 4, 4}, d), w = f({3, 8}, d), y = f({1, 3, 3, 3}, d);
         b.run(call::Convolve{x, w, window, 1, nullptr, Activation::none, y});
       }},
      {"convolve_back", KernelKind::matmul, 2 * 9 * 3 * 8, kBytes,
       [](Backend& b, Device d) {
         const Array x = f({1, 2, 4, 4}, d), w = f({3, 8}, d), y = f({1, 3, 3, 3}, d);
         CHECK(b.run(call::ConvolveBack{y, w, window, 1, nullptr, x}));
       }},
      {"convolve_weight", KernelKind::matmul, 2 * 9 * 3 * 8, kBytes,
       [](Backend& b, Device d) {
         const Array x = f({1, 2, 4, 4}, d), w = f({3, 8}, d), y = f({1, 3, 3, 3}, d);
         b.run(call::ConvolveWeight{x, y, window, 1, 1, w});
       }},
      {"quantized_product", KernelKind::matmul, 2 * 2 * 3 * 64, kFloat * (2 * 64 + 2 * 3) + 3 * 68,
       [](Backend& b, Device d) {
         b.run(call::QuantizedProduct{*gguf::block_type("Q8_0"), f({2, 64}, d),
                                      zeros({3, 68}, kUInt8, d), f({2, 3}, d)});
       }},
  };
}

// Matrices of 3 x 3.
std::vector<Case> solvers() {
  return {
      {"factor_lu", KernelKind::matmul, 2 * 18, 2 * kFloat * 2 * 9 + kLong * 2 * 3,
       [](Backend& b, Device d) {
         b.run(call::FactorLU{f({2, 3, 3}, d), i({2, 3}, d)});
       }},
      {"solve_lu", KernelKind::matmul, 2 * 2 * 9 * 4, kFloat * (9 + 2 * 2 * 12),
       [](Backend& b, Device d) {
         b.run(call::SolveLU{f({3, 3}, d), i({3}, d), false, f({2, 3, 4}, d)});
       }},
      {"solve_triangular", KernelKind::matmul, 2 * 9 * 4, kFloat * 9 / 2 + kFloat * 2 * 2 * 12,
       [](Backend& b, Device d) {
         b.run(call::SolveTriangular{true, false, f({3, 3}, d), f({2, 3, 4}, d)});
       }},
      {"factor_cholesky", KernelKind::matmul, 2 * 9, kFloat * (9 + 18),
       [](Backend& b, Device d) {
         b.run(call::FactorCholesky{f({2, 3, 3}, d), f({2, 3, 3}, d)});
       }},
      {"cholesky_faults", KernelKind::matmul, 2 * 9, kFloat * (9 + 2),
       [](Backend& b, Device d) {
         b.run(call::CholeskyFaults{f({2, 3, 3}, d), zeros({2}, kInt32, d)});
       }},
      {"factor_qr", KernelKind::matmul, 2 * 36, kFloat * 3 * 9,
       [](Backend& b, Device d) {
         b.run(call::FactorQR{f({3, 3}, d), f({3, 3}, d), f({3, 3}, d)});
       }},
      {"least_squares", KernelKind::matmul, 36 + 2 * 27, kFloat * (9 + 6 + 6),
       [](Backend& b, Device d) {
         b.run(call::LeastSquares{f({3, 3}, d), f({3, 2}, d), f({3, 2}, d)});
       }},
      {"factor_svd", KernelKind::matmul, 22 * 27, kFloat * (9 + 9 + 3 + 9),
       [](Backend& b, Device d) {
         b.run(call::FactorSVD{f({3, 3}, d), f({3, 3}, d), f({3}, d), f({3, 3}, d)});
       }},
      {"factor_eigh", KernelKind::matmul, 9 * 27, kFloat * 9 / 2 + kFloat * (3 + 9),
       [](Backend& b, Device d) {
         b.run(call::FactorEigh{f({3, 3}, d), f({3}, d), f({3, 3}, d)});
       }},
  };
}

TEST_CASE("cost: each family is charged by its shapes, on the cpu and on meta") {
  std::vector<Case> cases = passes();
  for (const auto& more : {indexings_and_windows(), products(), products_of_the_cpu(), solvers()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  for (const Case& one : cases) {
    for (const Device device : {kCpu, kMeta}) {
      CAPTURE(one.name, device.type == DeviceType::meta);
      CostSum sum;
      const CostScope scope(&sum);
      one.call(backend(device), device);
      CHECK(sum.calls > 0);
      CHECK(sum.flops_of(one.kind) == one.flops);
      CHECK(sum.bytes_of(one.kind) == one.bytes);
      for (int kind = 0; kind < kKernelKindCount; ++kind) {
        if (static_cast<KernelKind>(kind) != one.kind)
          CHECK(sum.bytes[static_cast<size_t>(kind)] == 0);
      }
    }
  }
}

TEST_CASE("cost: empty arrays start no kernel") {
  CostSum sum;
  const CostScope scope(&sum);
  backend(kMeta).run(call::Copy{zeros({0}, kFloat32, kMeta), zeros({0}, kFloat32, kMeta)});
  backend(kMeta).run(call::Fill{zeros({3, 0}, kFloat32, kMeta), 1.0});
  CHECK(sum.calls == 0);
}

}  // namespace
