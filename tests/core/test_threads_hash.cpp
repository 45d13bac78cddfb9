// The number of threads must not enter into any bit: every family and every functor, on arrays of
// several chunks, at one, two and three threads.
#include <functional>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/functors.h"
#include "support/sanitized.h"

#include <hero/core/functions/indexing.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

const DType kFloating[] = {kFloat32, kFloat64, kFloat16, kBFloat16};

// The hash of what `compute` returns, the same for all numbers of threads. A sanitizer looks for
// races and not at bits: there it is one run, on several threads.
void same_for_any_threads(const std::function<Array()>& compute) {
  if (hero_test::kIsSanitized) {
    const ThreadLimit limit(3);
    compute();
    return;
  }
  uint64_t expected = 0;
  {
    const ThreadLimit one(1);
    expected = hash(compute());
  }
  for (const int threads : {2, 3}) {
    const ThreadLimit limit(threads);
    for (int repeat = 0; repeat < 2; ++repeat) REQUIRE(hash(compute()) == expected);
  }
}

// Values and indices as one array.
Array both(const Array& values, const Array& indices) {
  const Array out = Array::empty({2, values.numel()}, kFloat64);
  backend(kCpu).run(call::Copy{values.reshape({-1}), out.select(0, 0)});
  backend(kCpu).run(call::Copy{indices.reshape({-1}), out.select(0, 1)});
  return out;
}

void every_functor(DType compute) {
  const int64_t n = 100003;
  std::vector<Array> inputs;
  for (uint64_t i = 0; i < 4; ++i) {
    const Array x = noise({n}, kFloat64, 30 + i);
    // Integers between -100 and 100, and none negative as bytes.
    const Array whole = make({n}, [&](int64_t k) {
      const int64_t value = k * 31 % (101 + static_cast<int64_t>(i)) - 50;
      return static_cast<double>(compute == kUInt8 ? value + 50 : value);
    });
    inputs.push_back((is_floating(compute) ? x : whole).to(compute));
  }
  for (const Functor& f : kFunctors) {
    if (!f.computes_in(compute)) continue;
    INFO(f.name);
    same_for_any_threads([&] {
      const Array out = Array::empty({n}, f.result(compute));
      run(f, inputs, compute, out);
      return out;
    });
  }
}

TEST_CASE("every functor gives the same bits at one, two and three threads", "[core][threads]") {
  for (const DType compute : {kFloat32, kFloat64, kInt64, kInt32, kUInt8}) every_functor(compute);
}

TEST_CASE("copies and fills do not depend on the number of threads", "[core][threads]") {
  const Array x = make({401, 300}, [](int64_t i) { return static_cast<double>(i % 211) / 4; });
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat64}) {
    same_for_any_threads([&] {
      const Array out = awkward(Array::zeros({401, 300}, dtype));
      backend(kCpu).run(call::Copy{x.t().contiguous().t(), out});
      return out;
    });
    same_for_any_threads([&] { return Array::full({300, 401}, 1, dtype); });
  }
}

TEST_CASE("reductions do not depend on the number of threads", "[core][threads]") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32}) {
    const Array x = noise({5, 211, 307}, dtype, 40);
    for (const Array& layout : {x, x.permute({2, 0, 1}), x.slice(2, 0, kEnd, 3)}) {
      for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}}) {
        for (const core::ReduceKind op :
             {core::ReduceKind::sum, core::ReduceKind::prod, core::ReduceKind::max,
              core::ReduceKind::min, core::ReduceKind::any, core::ReduceKind::all,
              core::ReduceKind::sum_abs, core::ReduceKind::sum_square}) {
          same_for_any_threads([&] { return reduce(op, layout, dims); });
        }
        if (!is_floating(dtype)) continue;
        const Array center = reduce(core::ReduceKind::max, layout, dims, KeepDims::yes);
        for (const core::ReduceKind op :
             {core::ReduceKind::sum_deviation, core::ReduceKind::sum_exp}) {
          same_for_any_threads([&] { return reduce(op, layout, dims, KeepDims::no, &center); });
        }
      }
    }
  }
  const Array row = noise({1000003});
  same_for_any_threads([&] { return reduce(core::ReduceKind::sum, row); });
}

TEST_CASE("lines do not depend on the number of threads", "[core][threads]") {
  for (const DType dtype : kFloating) {
    const Array x = noise({4, 203, 150}, dtype, 41), g = noise({4, 203, 150}, dtype, 42);
    for (int dim = 0; dim < 3; ++dim) {
      for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
        same_for_any_threads([&] { return softmax(kind, x, dim); });
        same_for_any_threads([&] { return softmax_backward(kind, g, x, dim); });
      }
      for (const ArgOp op : {ArgOp::max, ArgOp::min}) {
        same_for_any_threads([&] {
          const ArgResult result = arg_reduce(op, x, dim);
          return both(result.values, result.indices);
        });
      }
      for (const Direction way : {Direction::forward, Direction::backward}) {
        same_for_any_threads([&] { return cumulative(ScanOp::sum, way, x, dim); });
        same_for_any_threads([&] { return cumulative(ScanOp::prod, way, x, dim); });
      }
      for (const core::Order order : {core::Order::ascending, core::Order::descending}) {
        same_for_any_threads([&] {
          const SortResult result = sort(x, dim, order);
          return both(result.values, result.indices);
        });
      }
    }
  }
}

TEST_CASE("indexing does not depend on the number of threads", "[core][threads]") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kInt64}) {
    const Array x = noise({53, 61, 40}, dtype, 43), src = noise({53, 61, 40}, dtype, 44);
    same_for_any_threads([&] { return nonzero(x); });
    for (int dim = 0; dim < 3; ++dim) {
      const int64_t size = x.size(dim);
      // Every position is met many times.
      const Array index = make(
          x.shape(), [&](int64_t i) { return i * i % size; }, kInt64);
      const Array list = make(
          {size}, [&](int64_t i) { return i * 7 % (size / 3); }, kInt64);
      same_for_any_threads([&] { return gather(x, dim, index); });
      same_for_any_threads([&] { return scatter(ScatterMode::assign, x, dim, index, src); });
      same_for_any_threads([&] { return scatter(ScatterMode::add, x, dim, index, src); });
      same_for_any_threads([&] { return index_select(x, dim, list); });
      same_for_any_threads([&] { return index_add(x, dim, list, src, 3); });
    }
  }
}

TEST_CASE("products do not depend on the number of threads", "[core][threads]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64}) {
    const Array a = noise({3, 130, 170}, dtype, 45), b = noise({170, 90}, dtype, 46);
    same_for_any_threads([&] { return matmul(a, b); });
    same_for_any_threads([&] { return matmul(a.transpose(1, 2), a); });
  }
}

TEST_CASE("windows do not depend on the number of threads", "[core][threads]") {
  Window w;
  w.kernel[0] = w.kernel[1] = 3;
  w.padding[0] = w.padding[1] = 1;
  for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
    const Array x = noise({3, 5, 40, 41}, dtype, 47);
    const Array columns = Array::empty({3, 45, 40 * 41}, dtype);
    same_for_any_threads([&] {
      backend(kCpu).run(call::Im2col{x, w, columns});
      return columns;
    });
    same_for_any_threads([&] {
      const Array out = x.empty_like();
      backend(kCpu).run(call::Col2im{columns, w, out});
      return out;
    });
    same_for_any_threads([&] {
      const Array out = x.empty_like(), pooled = x.empty_like();
      const Array indices = Array::zeros(x.shape(), kInt64);
      backend(kCpu).run(call::Pool{PoolOp::max, x, w, pooled, &indices});
      backend(kCpu).run(call::MaxPoolBack{x, w, indices, out});
      return out;
    });
    for (const PoolOp op : {PoolOp::max, PoolOp::average}) {
      same_for_any_threads([&] {
        const Array out = x.empty_like(), indices = Array::zeros(x.shape(), kInt64);
        backend(kCpu).run(call::Pool{op, x, w, out, op == PoolOp::max ? &indices : nullptr});
        return both(out, indices);
      });
    }
    same_for_any_threads([&] {
      const Array out = x.empty_like();
      backend(kCpu).run(call::AveragePoolBack{x, w, out});
      return out;
    });
  }
}

TEST_CASE("random fills do not depend on threads, dtype's layout or the split", "[core][threads]") {
  using Kind = RandomFill::Kind;
  for (const Kind kind :
       {Kind::uniform, Kind::normal, Kind::integer, Kind::bernoulli, Kind::exponential}) {
    RandomFill fill{kind, 7, 3, 0.5, 2.0, -5, 17};
    for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
      if (dtype == kUInt8 && kind != Kind::bernoulli) continue;  // negative numbers
      const Array whole = Array::empty({100003}, dtype);
      same_for_any_threads([&] {
        backend(kCpu).run(call::Random{fill, 0, whole});
        return whole;
      });
      const Array part = awkward(Array::zeros({41, 77}, dtype));
      backend(kCpu).run(call::Random{fill, 5001, part});
      REQUIRE(same(part.reshape({-1}), whole.slice(0, 5001, 5001 + 41 * 77)));
    }
  }
}

TEST_CASE("the mask of a part of an array is that part of the mask", "[core][threads]") {
  const RandomFill fill{.kind = RandomFill::Kind::bernoulli, .seed = 7, .stream = 3, .a = 0.4};
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Array ones = Array::ones({100003}, dtype), whole = ones.empty_like();
    same_for_any_threads([&] {
      backend(kCpu).run(call::RandomMask{fill, 0, 2.5, ones, whole});
      return whole;
    });
    for (const int64_t first : {1, 4, 5001}) {
      const Array part = awkward(Array::zeros({41, 77}, dtype));
      backend(kCpu).run(call::RandomMask{fill, first, 2.5, Array::ones({41, 77}, dtype), part});
      REQUIRE(same(part.reshape({-1}), whole.slice(0, first, first + 41 * 77)));
    }
  }
}

}  // namespace
