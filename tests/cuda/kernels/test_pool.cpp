// Pooling on the GPU has the CPU's bits: both visit a window's elements, and an element's windows,
// in row-major order.
#include <limits>

#include "cuda/kernels/windows.h"
#include "cuda/same_bits.h"

using namespace hero;
using namespace hero::core;
using namespace hero_test;
using hero::test::awkward;
using hero::test::make;
using hero::test::noise;
using hero::test::same;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Ties everywhere and some NaN.
Array ties(const Shape& shape, DType dtype) {
  return make(
      shape, [](int64_t i) { return i % 23 == 7 ? kNan : static_cast<double>(i * 31 % 5 - 9); },
      dtype);
}

// Positions and values of `x` pooled by the CPU and by the GPU are the same, and so are gradients.
void check_max_pool(const Array& x, const Window& w, const Shape& shape) {
  const DType dtype = x.dtype();
  const Array expected = Array::empty(shape, dtype), chosen = Array::empty(shape, kInt64);
  backend(kCpu).run(call::Pool{PoolOp::max, x, w, expected, &chosen});
  const Array out = Array::empty(shape, dtype, kGpu), found = Array::empty(shape, kInt64, kGpu);
  backend(kGpu).run(call::Pool{PoolOp::max, x.to(kGpu), w, out, &found});
  CHECK(same_bits(out, expected));
  CHECK(same(found.to(kCpu), chosen));
  const Array strided = awkward_on_gpu(Array::zeros(shape, dtype));
  backend(kGpu).run(call::Pool{PoolOp::max, awkward_on_gpu(x), w, strided, nullptr});
  CHECK(same_bits(strided, expected));

  const Array g = noise(shape, dtype, 4), back = Array::empty(x.shape(), dtype);
  backend(kCpu).run(call::MaxPoolBack{g, w, chosen, back});
  const Array gradient = Array::empty(x.shape(), dtype, kGpu);
  backend(kGpu).run(call::MaxPoolBack{g.to(kGpu), w, found, gradient});
  CHECK(same(gradient.to(kCpu), back));
}

}  // namespace

TEST_CASE("the largest of a window, its position and its gradient are the CPU's") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  for (const Window& w : windows()) {
    check_max_pool(ties({2, 3, 7, 8}, dtype), w, {2, 3, places(w, 0, 7), places(w, 1, 8)});
  }
}

TEST_CASE("integers are pooled too") {
  HERO_NEEDS_GPU();
  Window w;
  w.kernel[0] = 3, w.kernel[1] = w.stride[0] = w.stride[1] = 2;
  const Array x = make(
      {1, 2, 7, 8}, [](int64_t i) { return i * 31 % 17 - 9; }, kInt32);
  const Shape shape{1, 2, places(w, 0, 7), places(w, 1, 8)};
  const Array expected = Array::empty(shape, kInt32), out = Array::empty(shape, kInt32, kGpu);
  backend(kCpu).run(call::Pool{PoolOp::max, x, w, expected, nullptr});
  backend(kGpu).run(call::Pool{PoolOp::max, x.to(kGpu), w, out, nullptr});
  CHECK(same_bits(out, expected));
}

TEST_CASE("windows that hang over the end or see nothing choose as on the CPU") {
  HERO_NEEDS_GPU();
  Window over;  // the last place begins inside and ends outside
  over.kernel[0] = over.kernel[1] = 3, over.stride[0] = over.stride[1] = 2;
  check_max_pool(ties({2, 1, 6, 6}, kFloat32), over, {2, 1, 3, 3});
  Window nothing;  // taps at -1 and 1 of a row of one element
  nothing.kernel[0] = nothing.kernel[1] = 2, nothing.dilation[0] = nothing.dilation[1] = 2;
  nothing.padding[0] = nothing.padding[1] = 1;
  check_max_pool(noise({2, 3, 1, 4}), nothing, {2, 3, 1, 4});
}

TEST_CASE("averages and their gradients are the CPU's") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  const Array x = noise({2, 3, 7, 8}, dtype, 5);
  for (const Window& w : windows()) {
    const Shape shape{2, 3, places(w, 0, 7), places(w, 1, 8)};
    const Array expected = Array::empty(shape, dtype);
    backend(kCpu).run(call::Pool{PoolOp::average, x, w, expected, nullptr});
    const Array out = Array::empty(shape, dtype, kGpu);
    backend(kGpu).run(call::Pool{PoolOp::average, awkward_on_gpu(x), w, out, nullptr});
    CHECK(same_bits(out, expected));

    const Array g = noise(shape, dtype, 6), back = Array::empty(x.shape(), dtype);
    backend(kCpu).run(call::AveragePoolBack{g, w, back});
    const Array gradient = awkward_on_gpu(Array::zeros(x.shape(), dtype));
    backend(kGpu).run(call::AveragePoolBack{awkward_on_gpu(g), w, gradient});
    CHECK(same(gradient.to(kCpu).contiguous(), back));
  }
}

TEST_CASE("nothing to pool is nothing to do, and no gradients are zeros") {
  HERO_NEEDS_GPU();
  const Array none = Array::empty({0, 3, 2, 2}, kFloat32, kGpu);
  backend(kGpu).run(call::Pool{PoolOp::average, none, {}, none, nullptr});
  const Array g = Array::empty({1, 1, 0, 0}, kFloat32, kGpu);
  const Array found = Array::empty({1, 1, 0, 0}, kInt64, kGpu);
  const Array out = Array::full({1, 1, 2, 2}, 5, kFloat32, kGpu);
  backend(kGpu).run(call::MaxPoolBack{g, {}, found, out});
  CHECK(same(out.to(kCpu), Array::zeros({1, 1, 2, 2})));
  backend(kGpu).run(call::Fill{out, 5});
  backend(kGpu).run(call::AveragePoolBack{g, {}, out});
  CHECK(same(out.to(kCpu), Array::zeros({1, 1, 2, 2})));
}
