// Random numbers on a GPU are those of the CPU.
#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

using namespace hero;
using namespace hero_test;
using namespace hero::test;
using core::RandomFill;
using Kind = core::RandomFill::Kind;

namespace {

RandomFill fill_of(Kind kind, double a, double b = 1.0) {
  RandomFill fill;
  fill.kind = kind;
  fill.seed = 0x123456789abcdefu;
  fill.stream = 77;
  fill.a = a;
  fill.b = b;
  return fill;
}
RandomFill integers(int64_t low, int64_t high) {
  RandomFill fill = fill_of(Kind::integer, 0.0);
  fill.low = low;
  fill.high = high;
  return fill;
}

void compare(const RandomFill& fill, int64_t first, const Array& out) {
  const Array there = on_gpu(out);
  core::backend(kCpu).run(core::call::Random{fill, first, out});
  core::backend(kGpu).run(core::call::Random{fill, first, there});
  INFO("kind " << static_cast<int>(fill.kind) << ", " << to_string(out.dtype()) << " "
               << to_string(out.shape()) << " from " << first);
  CHECK(same_bits(there, out));
}

void compare_mask(double p, double scale, const Array& x, const Array& out) {
  const RandomFill fill = fill_of(Kind::bernoulli, p);
  const Array gpu_x = on_gpu(x), there = on_gpu(out);
  for (const int64_t first : {0, 5, 8, 1030}) {
    core::backend(kCpu).run(core::call::RandomMask{fill, first, scale, x, out});
    core::backend(kGpu).run(core::call::RandomMask{fill, first, scale, gpu_x, there});
    INFO(to_string(x.dtype()) << " " << to_string(x.shape()) << " to " << to_string(out.dtype())
                              << " from " << first);
    CHECK(same_bits(there, out));
  }
}

}  // namespace

TEST_CASE("every distribution gives the CPU's numbers in every floating dtype and layout") {
  HERO_NEEDS_GPU();
  const RandomFill fills[] = {fill_of(Kind::uniform, 0.0), fill_of(Kind::uniform, -3.0, 5.5),
                              fill_of(Kind::normal, 0.0), fill_of(Kind::normal, 10.0, 0.25),
                              fill_of(Kind::exponential, 2.5)};
  for (const RandomFill& fill : fills) {
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      compare(fill, 0, Array::empty({1030}, dtype));
      compare(fill, 0, awkward(Array::zeros({7, 3, 5}, dtype)));
    }
  }
}

TEST_CASE("integers and truth values are the CPU's, stored as any dtype") {
  HERO_NEEDS_GPU();
  constexpr auto kLowest = std::numeric_limits<int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<int64_t>::max();
  compare(integers(kLowest, kHighest), 0, Array::empty({301}, kInt64));
  compare(integers(-1000, 1000), 0, Array::empty({301}, kInt32));
  compare(integers(0, 200), 0, Array::empty({301}, kUInt8));
  compare(integers(0, 200), 0, Array::empty({301}, kFloat32));
  compare(integers(0, 10), 0, awkward(Array::zeros({7, 5}, kInt64)));
  for (const double p : {0.0, 0.3, 0.999, 1.0}) {
    for (const DType dtype : {kBool, kUInt8, kBFloat16, kFloat32, kFloat64}) {
      compare(fill_of(Kind::bernoulli, p), 0, Array::empty({301}, dtype));
    }
  }
}

TEST_CASE("a piece of a random array begins at any number") {
  HERO_NEEDS_GPU();
  for (const int64_t first : {1, 2, 3, 4, 5, 1000003}) {
    for (const int64_t n : {1, 2, 3, 4, 5, 300}) {
      compare(fill_of(Kind::uniform, 0.0), first, Array::empty({n}, kFloat32));
      compare(fill_of(Kind::normal, 0.0), first, Array::empty({n}, kFloat32));
      compare(fill_of(Kind::normal, 0.0), first, Array::empty({n}, kFloat64));
      compare(integers(-5, 6), first, Array::empty({n}, kInt64));
      compare(fill_of(Kind::bernoulli, 0.5), first, Array::empty({n}, kBool));
    }
  }
  compare(fill_of(Kind::uniform, 0.0), int64_t{1} << 40, Array::empty({9}, kFloat32));
  compare(fill_of(Kind::uniform, 0.0), 0, Array::empty({0}, kFloat32));
}

TEST_CASE("parameters out of range are errors on a GPU too") {
  HERO_NEEDS_GPU();
  const Array out = Array::empty({3}, kFloat32, kGpu);
  const auto draw = [&](const RandomFill& fill) {
    return error_of([&] { core::backend(kGpu).run(core::call::Random{fill, 0, out}); });
  };
  CHECK(draw(fill_of(Kind::normal, 0.0, -1.0)).find("standard deviation") != std::string::npos);
  CHECK(draw(fill_of(Kind::bernoulli, 1.5)).find("probability") != std::string::npos);
  CHECK(draw(integers(3, 3)).find("range is empty") != std::string::npos);
  CHECK(draw(fill_of(Kind::exponential, 0.0)).find("rate") != std::string::npos);
}

TEST_CASE("masks keep and scale the CPU's elements in every dtype, size and layout") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 1029}) {
      const Array x = noise({n}, dtype);
      compare_mask(0.7, 1.0 / 0.7, x, Array::empty({n}, dtype));
    }
    const Array x = noise({6, 9}, dtype);
    compare_mask(0.5, 2.0, awkward(x), Array::empty({6, 9}, dtype));
    compare_mask(0.5, 2.0, x, awkward(Array::zeros({6, 9}, dtype)));
    compare_mask(0.5, 2.0, noise({61}, dtype).slice(0, 1), Array::empty({60}, dtype));
    compare_mask(1.0, 1.0, x, Array::empty({6, 9}, dtype));
    compare_mask(0.0, 0.0, x, Array::empty({6, 9}, dtype));
  }
  compare_mask(0.5, 2.0, noise({8}, kFloat32), Array::empty({5, 8}, kBFloat16));
}
