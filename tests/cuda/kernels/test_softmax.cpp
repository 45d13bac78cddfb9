// Softmax and its logarithm on the GPU beside the CPU's in float64.
#include <limits>

#include "cuda/close.h"

#include <hero/core/functions/reductions.h>

using namespace hero;
using namespace hero_test;
using core::SoftmaxKind;
using test::noise;

namespace {

constexpr SoftmaxKind kKinds[] = {SoftmaxKind::softmax, SoftmaxKind::log_softmax};

// Rows of a team of some lanes, of a warp, of a block, of a block that reads twice; columns.
const Shape kShapes[] = {{1},       {3, 1},    {70, 10},  {5, 33}, {3, 257},
                         {2, 1025}, {2, 3001}, {1, 9000}, {40, 3}, {3, 20, 5}};

}  // namespace

TEST_CASE("softmax along any dimension is the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const Shape& shape : kShapes) {
      const Array x = noise(shape, dtype), exact = x.to(kFloat64);
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        for (const SoftmaxKind kind : kKinds) {
          for (int dim = 0; dim < x.ndim(); ++dim) {
            INFO(name(dtype) << " " << to_string(shape) << " along " << dim);
            const Array y = core::softmax(kind, there, dim);
            CHECK(y.dtype() == dtype);
            CHECK(distance(y, core::softmax(kind, exact, dim)) <= allowed(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("rows longer than a block's registers are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  const Array x = noise({1, 17001}), g = noise({1, 17001}, kFloat32, 2);
  for (const SoftmaxKind kind : kKinds) {
    const Array exact = core::softmax(kind, x.to(kFloat64), 1);
    const Array y = core::softmax(kind, x.to(kGpu), 1);
    CHECK(distance(y, exact) <= allowed(kFloat32));
    // The largest is subtracted first, so the gradient's error is that of y in its terms.
    CHECK(distance(core::softmax_backward(kind, g.to(kGpu), y, 1),
                   core::softmax_backward(kind, g.to(kFloat64), exact, 1)) <=
          4 * allowed(kFloat32));
  }
}

TEST_CASE("the gradient of softmax is the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const Shape& shape : kShapes) {
      const Array x = noise(shape), g = noise(shape, dtype, 2);
      for (const SoftmaxKind kind : kKinds) {
        for (int dim = 0; dim < x.ndim(); ++dim) {
          const Array y = core::softmax(kind, x, dim).to(dtype);
          const Array exact = core::softmax_backward(kind, g.to(kFloat64), y.to(kFloat64), dim);
          for (const bool awkward : {false, true}) {
            const Array there_g = awkward ? awkward_on_gpu(g) : g.to(kGpu);
            const Array there_y = awkward ? awkward_on_gpu(y) : y.to(kGpu);
            const Array found = core::softmax_backward(kind, there_g, there_y, dim);
            INFO(name(dtype) << " " << to_string(shape) << " along " << dim);
            if (shape[dim] > 1) {
              // g - sum may cancel: a few bits more than the rounding of the result.
              const double more = item_size(dtype) > 2 ? 8.0 : 1.0;
              CHECK(distance(found, exact) <= more * allowed(dtype));
            } else {
              // y = 1: the exact gradient is 0 up to the rounding of y itself.
              CHECK(core::reduce(core::ReduceKind::sum_abs, found).to(kCpu).to(kFloat64).item() <=
                    static_cast<double>(x.numel()) * 2.0 * allowed(dtype));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("softmax of infinities and NaN is the CPU's") {
  HERO_NEEDS_GPU();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatDTypes) {
    for (const int64_t n : {9, 300, 9000}) {
      Array x = noise({5, n}, dtype);
      const double special[] = {kInf, -kInf, std::nan("")};
      for (int row = 0; row < 3; ++row) {
        core::backend(kCpu).run(core::call::Fill{x.select(0, row).slice(0, 4, 5), special[row]});
      }
      core::backend(kCpu).run(core::call::Fill{x.select(0, 3), -kInf});
      for (const SoftmaxKind kind : kKinds) {
        INFO(name(dtype) << " " << n);
        CHECK(distance(core::softmax(kind, x.to(kGpu), 1),
                       core::softmax(kind, x.to(kFloat64), 1)) <= allowed(dtype));
        const Array columns = x.t().contiguous();
        CHECK(distance(core::softmax(kind, columns.to(kGpu), 0),
                       core::softmax(kind, columns.to(kFloat64), 0)) <= allowed(dtype));
      }
    }
  }
}

TEST_CASE("softmax may be made in place, with the same bits, and nothing of nothing") {
  HERO_NEEDS_GPU();
  for (const Shape& shape : {Shape{3, 40}, Shape{2, 1025}, Shape{1, 9000}}) {
    const Array x = noise(shape, kBFloat16).to(kGpu);
    const Array y = core::softmax(SoftmaxKind::softmax, x, 1).to(kCpu);
    CHECK(same_bits(core::softmax(SoftmaxKind::softmax, x, 1), y));
    core::backend(kGpu).run(core::call::Softmax{SoftmaxKind::softmax, x, 1, x});
    CHECK(same_bits(x, y));
  }
  const Array none = Array::empty({0, 5}, kFloat32, kGpu);
  CHECK(core::softmax(SoftmaxKind::softmax, none, 1).numel() == 0);
}
