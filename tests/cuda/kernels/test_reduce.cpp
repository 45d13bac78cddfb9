// Reductions on the GPU beside the CPU's in float64.
#include <limits>

#include "cuda/close.h"

#include <hero/core/functions/reductions.h>

using namespace hero;
using namespace hero_test;
using core::KeepDims;
using core::ReduceKind;
using test::make;
using test::noise;

namespace {

struct Case {
  Shape shape;
  Dims dims;  // reduced; none: all
};

// The three ways of sharing out work, and sizes around the borders of warps, blocks and packs.
const Case kCases[] = {
    {{}, {}},
    {{1}, {0}},
    {{7, 33}, {1}},
    {{7, 33}, {0}},
    {{600, 5}, {1}},
    {{3, 5, 4, 6}, {0, 2}},
    {{3, 5, 4, 6}, {1, 3}},
    {{2, 1025}, {1}},
    {{1030, 3}, {0}},
    {{40, 300}, {0}},
    {{2, 5000}, {1}},
    {{33, 31}, {}},
    {{2, 70, 64}, {1}},
    {{4, 1, 8}, {1}},
    {{20000}, {0}},
};

double exp_of_distance(int64_t i) { return static_cast<double>(i % 3) - 1.0; }

}  // namespace

TEST_CASE("sums over any dimensions and layout are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const Case& c : kCases) {
      const Array x = noise(c.shape, dtype), exact = x.to(kFloat64);
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        for (const ReduceKind op : {ReduceKind::sum, ReduceKind::sum_square, ReduceKind::sum_abs}) {
          const Array sum = core::reduce(op, there, c.dims);
          INFO(name(dtype) << " " << to_string(c.shape) << " over " << to_string(c.dims) << ", op "
                           << static_cast<int>(op));
          CHECK(sum.dtype() == dtype);
          // Sums that cancel lose what their terms have more than they: 2^6 bounds it here.
          const double lost = op == ReduceKind::sum && item_size(dtype) > 2 ? 64.0 : 1.0;
          CHECK(distance(sum, core::reduce(op, exact, c.dims)) <= lost * allowed(dtype));
        }
      }
    }
  }
}

TEST_CASE("reductions with a center, products and extremes are the CPU's") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const Case& c : kCases) {
      if (dtype == kFloat16 && c.shape.numel() > 10000) continue;  // squares beyond 65504
      const Array x = noise(c.shape, dtype);
      const Array largest = core::reduce(ReduceKind::max, x, c.dims, KeepDims::yes);
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        INFO(name(dtype) << " " << to_string(c.shape) << " over " << to_string(c.dims));
        const Array center = largest.to(kGpu);
        for (const ReduceKind op : {ReduceKind::sum_deviation, ReduceKind::sum_exp}) {
          const Array wide = largest.to(kFloat64);
          const Array exact = core::reduce(op, x.to(kFloat64), c.dims, KeepDims::no, &wide);
          const Array found = core::reduce(op, there, c.dims, KeepDims::no, &center);
          CHECK(distance(found, exact) <= allowed(dtype));
        }
        CHECK(same_bits(core::reduce(ReduceKind::max, there, c.dims, KeepDims::yes), largest));
        CHECK(same_bits(core::reduce(ReduceKind::min, there, c.dims),
                        core::reduce(ReduceKind::min, x, c.dims)));
        CHECK(same_bits(core::reduce(ReduceKind::any, there, c.dims),
                        core::reduce(ReduceKind::any, x, c.dims)));
      }
    }
  }
  // Factors near 1: the product of many stays a number.
  const Array x = make({300, 6}, [](int64_t i) { return 1.0 + exp_of_distance(i) / 64.0; });
  CHECK(distance(core::reduce(ReduceKind::prod, x.to(kGpu), {0}),
                 core::reduce(ReduceKind::prod, x.to(kFloat64), {0})) <= 64 * allowed(kFloat32));
}

TEST_CASE("reductions of integers and bools are the CPU's, bit by bit") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kInt64, kInt32, kUInt8, kBool}) {
    for (const Case& c : kCases) {
      const Array x = make(
          c.shape, [](int64_t i) { return (i * 7919 + 3) % 23; }, dtype);
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        if (dtype != kInt32 && !there.is_contiguous()) continue;  // one dtype's layouts are all
        for (const ReduceKind op :
             {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::any,
              ReduceKind::all, ReduceKind::sum_abs}) {
          INFO(name(dtype) << " " << to_string(c.shape) << " over " << to_string(c.dims) << ", op "
                           << static_cast<int>(op));
          CHECK(same_bits(core::reduce(op, there, c.dims), core::reduce(op, x, c.dims)));
        }
      }
    }
    const Array x = make(
        {9, 40}, [](int64_t i) { return i % 5; }, dtype);
    CHECK(distance(core::reduce(ReduceKind::sum_square, x.to(kGpu), {1}),
                   core::reduce(ReduceKind::sum_square, x.to(kFloat64), {1})) <= allowed(kFloat32));
  }
}

TEST_CASE("reductions of nothing are their neutral elements, and of no results nothing") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat32, kBFloat16, kInt32, kBool}) {
    const Array x = Array::empty({3, 0}, dtype, kGpu);
    for (const ReduceKind op :
         {ReduceKind::sum, ReduceKind::prod, ReduceKind::any, ReduceKind::all}) {
      const Array host = Array::empty({3, 0}, dtype);
      CHECK(same_bits(core::reduce(op, x, {1}), core::reduce(op, host, {1})));
      CHECK(core::reduce(op, x, {0}).numel() == 0);
    }
  }
}

TEST_CASE("NaN and infinity go through reductions as on the CPU") {
  HERO_NEEDS_GPU();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatDTypes) {
    Array x = noise({6, 100}, dtype);
    const double special[] = {kInf, -kInf, std::nan("")};
    for (int row = 0; row < 3; ++row) {
      core::backend(kCpu).run(
          core::call::Fill{x.select(0, row).slice(0, 40 + row, 41 + row), special[row]});
    }
    core::backend(kCpu).run(core::call::Fill{x.select(0, 3), -kInf});
    const Array there = x.to(kGpu);
    for (const ReduceKind op :
         {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::sum_abs}) {
      for (const Dims& dims : {Dims{1}, Dims{0}}) {
        INFO(name(dtype) << ", op " << static_cast<int>(op) << " over " << to_string(dims));
        CHECK(distance(core::reduce(op, there, dims), core::reduce(op, x.to(kFloat64), dims)) <=
              64 * allowed(dtype));
      }
    }
  }
}

TEST_CASE("a long float32 sum keeps its accuracy, and its bits from call to call") {
  HERO_NEEDS_GPU();
  const Array x = make({300001}, [](int64_t i) { return 0.1 + static_cast<double>(i % 7); });
  const Array there = x.to(kGpu), sum = core::reduce(ReduceKind::sum, there);
  // One running float sum would be off by 2^-13 or so; a tree of 2^19 leaves by 19 half spacings at
  // most, in fact by one or two.
  CHECK(distance(sum, core::reduce(ReduceKind::sum, x.to(kFloat64))) <= 0x1p-22);
  CHECK(same_bits(core::reduce(ReduceKind::sum, there), sum.to(kCpu)));
  // Whether rows can be read in packs does not change a bit.
  const Array moved = Array::zeros({300002}, kFloat32, kGpu).slice(0, 1);
  core::backend(kGpu).run(core::call::Copy{there, moved});
  CHECK(same_bits(core::reduce(ReduceKind::sum, moved), sum.to(kCpu)));
}

TEST_CASE("the first of the largest and smallest elements is found; NaN wins") {
  HERO_NEEDS_GPU();
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{33}, Shape{5, 70}, Shape{3, 40, 6},
                               Shape{40000}, Shape{2, 2049}}) {
      Array x = make(
          shape, [](int64_t i) { return (i * 7919) % 29 - 3; }, dtype);
      if (is_floating(dtype) && shape == Shape{5, 70}) {
        core::backend(kCpu).run(
            core::call::Fill{x.select(0, 2).slice(0, 30, 60, 20), std::nan("")});
        core::backend(kCpu).run(
            core::call::Fill{x.select(0, 3), -std::numeric_limits<double>::infinity()});
      }
      for (const Array& there : {x.to(kGpu), awkward_on_gpu(x)}) {
        for (const core::ArgOp op : {core::ArgOp::max, core::ArgOp::min}) {
          for (int dim = 0; dim < std::max(1, x.ndim()); ++dim) {
            INFO(name(dtype) << " " << to_string(shape) << " along " << dim);
            const core::ArgResult found = core::arg_reduce(op, there, dim);
            const core::ArgResult expected = core::arg_reduce(op, x, dim);
            CHECK(same_bits(found.values, expected.values));
            CHECK(same_bits(found.indices, expected.indices));
          }
        }
      }
    }
  }
}
