// Running sums and products on the GPU beside the CPU's.
#include "cuda/close.h"

#include <hero/core/functions/reductions.h>

using namespace hero;
using namespace hero_test;
using core::cumulative;
using core::Direction;
using core::ScanOp;
using test::make;
using test::noise;

TEST_CASE("running sums along any dimension are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{31}, Shape{33}, Shape{1023}, Shape{1025},
                               Shape{3, 130}, Shape{4, 50, 3}, Shape{2, 9000}}) {
      const Array x = noise(shape, dtype), exact = x.to(kFloat64);
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        for (const Direction direction : {Direction::forward, Direction::backward}) {
          for (int dim = 0; dim < std::max(1, x.ndim()); ++dim) {
            INFO(name(dtype) << " " << to_string(shape) << " along " << dim);
            const Array sums = cumulative(ScanOp::sum, direction, there, dim);
            CHECK(sums.dtype() == dtype);
            // Floats are added up in double and rounded once. In float64 the error of a running
            // sum of n terms is n half spacings of the largest at most; 2^6 bounds it here.
            const double more = dtype == kFloat64 ? 64.0 : 1.0;
            CHECK(distance(sums, cumulative(ScanOp::sum, direction, exact, dim)) <=
                  more * allowed(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("running products and integer sums are the CPU's, NaN from where it came") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kInt64, kInt32, kUInt8, kBool}) {
    for (const Shape& shape : {Shape{5000}, Shape{3, 40}, Shape{40, 3}, Shape{0, 4}}) {
      const Array x = make(
          shape, [](int64_t i) { return (i * 7919 + 1) % 5; }, dtype);
      for (int dim = 0; dim < x.ndim(); ++dim) {
        for (const ScanOp op : {ScanOp::sum, ScanOp::prod}) {
          CHECK(same_bits(cumulative(op, Direction::forward, x.to(kGpu), dim),
                          cumulative(op, Direction::forward, x, dim)));
        }
      }
    }
  }
  const Array factors = make({6000}, [](int64_t i) { return i % 2 == 0 ? 1.25 : 0.8125; });
  const Array few = factors.slice(0, 0, 700);
  CHECK(distance(cumulative(ScanOp::prod, Direction::backward, few.to(kGpu), 0),
                 cumulative(ScanOp::prod, Direction::backward, few.to(kFloat64), 0)) <=
        allowed(kFloat32));
  Array broken = factors.clone();
  core::backend(kCpu).run(core::call::Fill{broken.slice(0, 4500, 4501), std::nan("")});
  CHECK(distance(cumulative(ScanOp::sum, Direction::forward, broken.to(kGpu), 0),
                 cumulative(ScanOp::sum, Direction::forward, broken.to(kFloat64), 0)) <=
        allowed(kFloat32));
}

TEST_CASE("running sums have the same bits from call to call") {
  HERO_NEEDS_GPU();
  const Array x = noise({20000}).to(kGpu);
  const Array first = cumulative(ScanOp::sum, Direction::forward, x, 0);
  CHECK(same_bits(cumulative(ScanOp::sum, Direction::forward, x, 0), first.to(kCpu)));
}
