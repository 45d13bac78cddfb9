// The meta device: every family gives the shapes and dtypes that the cpu gives, and no bytes.
#include <functional>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/functors.h"

#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

// Runs `body` with arrays on the cpu and on meta and compares what it returns.
void same_shape(const std::function<Array(Device)>& body) {
  const Array real = body(kCpu);
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Array meta = body(kMeta);
  REQUIRE(ledger.peak(DeviceType::cpu) == 0);
  REQUIRE(meta.device() == kMeta);
  REQUIRE(meta.shape() == real.shape());
  REQUIRE(meta.dtype() == real.dtype());
  REQUIRE(meta.storage().data() == nullptr);
}

Array ones(const Shape& shape, Device device, DType dtype = kFloat32) {
  return Array::ones(shape, dtype, device);
}
Array index(const Shape& shape, Device device) { return Array::zeros(shape, kInt64, device); }

TEST_CASE("elementwise operations on meta give shapes", "[core]") {
  for (const DType dtype : {kBool, kInt32, kFloat16, kFloat64}) {
    same_shape([=](Device d) { return map<kernels::Add>(ones({2, 1}, d, dtype), ones({3}, d)); });
    same_shape([=](Device d) { return map<kernels::Exp>(ones({4}, d, dtype)); });
    same_shape([=](Device d) { return map<kernels::Less>(ones({4}, d, dtype), 1); });
    same_shape([=](Device d) { return ones({4, 2}, d, dtype).to(kInt64).t().contiguous(); });
    same_shape([=](Device d) { return Array::full({2}, 3, dtype, d).clone(); });
  }
  for (const Functor& f : kFunctors) {
    const DType compute = f.computes_in(kFloat32) ? kFloat32 : kInt32;
    same_shape([&](Device d) {
      const std::vector<Array> inputs(4, ones({2, 3}, d, compute));
      const Array out = Array::empty({2, 3}, f.result(compute), d);
      run(f, inputs, compute, out);
      return out;
    });
  }
  const Array x = ones({2}, kMeta);
  map_into<kernels::Add>(x, x, 1);
}

TEST_CASE("reductions on meta give shapes", "[core]") {
  for (const DType dtype : {kBool, kInt32, kFloat16, kFloat64}) {
    same_shape([=](Device d) { return reduce(ReduceKind::sum, ones({2, 3}, d, dtype), {1}); });
    same_shape([=](Device d) { return reduce(ReduceKind::any, ones({2, 3}, d, dtype)); });
    same_shape([=](Device d) { return arg_reduce(ArgOp::max, ones({2, 3}, d, dtype), 0).values; });
    same_shape([=](Device d) { return arg_reduce(ArgOp::max, ones({2, 3}, d, dtype), 0).indices; });
    same_shape([=](Device d) {
      return cumulative(ScanOp::sum, Direction::forward, ones({2, 3}, d, dtype), 0);
    });
    same_shape([=](Device d) { return sort(ones({2, 3}, d, dtype)).values; });
    same_shape([=](Device d) { return topk(ones({2, 3}, d, dtype), 2).indices; });
    same_shape([=](Device d) { return softmax(SoftmaxKind::softmax, ones({2, 3}, d, dtype), 1); });
  }
  same_shape([](Device d) {
    return softmax_backward(SoftmaxKind::softmax, ones({2}, d), ones({2}, d), 0);
  });
  same_shape([](Device d) {
    const Array center = ones({1, 3}, d);
    return reduce(ReduceKind::sum_exp, ones({2, 3}, d), {0}, KeepDims::yes, &center);
  });
}

TEST_CASE("indexing on meta gives shapes", "[core]") {
  same_shape([](Device d) { return gather(ones({2, 3}, d), 0, index({5, 3}, d)); });
  same_shape([](Device d) {
    return scatter(ScatterMode::add, ones({2, 3}, d), 0, index({5, 3}, d), ones({5, 3}, d));
  });
  same_shape([](Device d) { return index_select(ones({2, 3}, d), 1, index({7}, d)); });
  same_shape([](Device d) {
    return index_add(ones({2, 3}, d), 1, index({7}, d), ones({2, 7}, d));
  });
  REQUIRE(error_of([] { nonzero(ones({2}, kMeta)); }) ==
          "nonzero: the result's shape depends on values, and meta array [2] has none; use a cpu "
          "array");
}

TEST_CASE("products on meta give shapes", "[core]") {
  for (const DType dtype : {kInt64, kBFloat16, kFloat32}) {
    same_shape([=](Device d) { return matmul(ones({2, 3}, d, dtype), ones({3, 4}, d, dtype)); });
    same_shape([=](Device d) {
      return matmul(ones({5, 1, 2, 3}, d, dtype), ones({6, 4, 3}, d, dtype).t());
    });
    same_shape([=](Device d) { return matmul(ones({3}, d, dtype), ones({3}, d, dtype)); });
  }
}

TEST_CASE("windows and random fills on meta touch nothing", "[core]") {
  Backend& meta = backend(kMeta);
  const Array x = ones({1, 1, 4, 4}, kMeta), indices = index({1, 1, 4, 4}, kMeta);
  const Window window;
  meta.run(call::Im2col{x, window, ones({1, 1, 16}, kMeta)});
  meta.run(call::Col2im{ones({1, 1, 16}, kMeta), window, x});
  meta.run(call::Pool{PoolOp::max, x, window, x, &indices});
  meta.run(call::AveragePoolBack{x, window, x});
  meta.run(call::Random{{}, 0, x});
  REQUIRE(x.storage().data() == nullptr);
}

TEST_CASE("views of meta arrays work and their values are an error", "[core]") {
  const Array x = ones({4, 6}, kMeta);
  REQUIRE(x.t().reshape({3, 8}).shape() == Shape{3, 8});
  REQUIRE(x.slice(0, 1).select(1, 2).shape() == Shape{3});
  REQUIRE(error_of([&] { x.to(kCpu); }) ==
          "to: meta array [4, 6] has no values to copy to cpu; create it there instead");
  REQUIRE(error_of([&] { ones({}, kMeta).item<float>(); }) ==
          "data: array [] on meta has no values, but only a shape");
  REQUIRE(error_of([&] { map<kernels::Add>(x, ones({6}, kCpu)); }) ==
          "add: operands on different devices: meta and cpu; what is on meta has no values: "
          "materialize() its module, or make it elsewhere");
  REQUIRE(ones({2}, kCpu).to(kMeta).shape() == Shape{2});
}

}  // namespace
