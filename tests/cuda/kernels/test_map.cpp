// Elementwise operations against the CPU's: the same functors, so the same bits.
#include <cstring>
#include <limits>

#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"
#include "support/functors.h"

#include <hero/core/functions/map.h>

using namespace hero;
using namespace hero_test;
using namespace hero::test;
namespace k = hero::core::kernels;

namespace {

// Values at which functors change their branch, then noise.
Array values(const Shape& shape, DType dtype, uint64_t seed) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, 1.0,  -1.0,  kInf, -kInf, std::nan(""), 0.5, -0.5, 2.5,
                            3.5, 20.0, 89.0, -90.0, 1e-5, -1e-5, 1e-40,        7.0, -3.0, 13.5};
  constexpr int kSpecial = 20, kUInts = 6;
  const double small[] = {0.0, 1.0, 2.0, 7.0, 200.0, 255.0};
  const Array random = noise(shape, kFloat64, seed);
  const auto rotate = static_cast<int64_t>(seed * 7);
  return make(
      shape,
      [&](int64_t i) {
        const double other = random.data<double>()[i] * 3.0;
        if (dtype == kBool) return other > 0.0 ? 1.0 : 0.0;
        if (dtype == kUInt8) return i % 2 ? small[(i + rotate) % kUInts] : std::fabs(other * 9.0);
        double value = i % 3 == 0 ? other : special[(i + rotate) % kSpecial];
        if (!is_floating(dtype) && !(std::fabs(value) < 1e9)) value = 12345.0;
        return value;
      },
      dtype);
}

// In double the transcendental functions are the C library's on the CPU and CUDA's on a GPU, which
// document errors of up to 1 and 2 ulp; functors take a few of them one after the other. Results
// near the smallest double may be flushed at another place. `apart` is what a result near zero may
// be off by in any case.
bool close_doubles(const Array& gpu, const Array& cpu, double apart) {
  const Array a = gpu.to(kCpu).contiguous(), b = cpu.contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (bits_of(x) == bits_of(y)) continue;
#if defined(HERO_TEST_CUSIM)
    return false;  // both are the CPU's library
#endif
    if (!(std::fabs(x - y) <= 16 * 0x1p-52 * std::fabs(y) + apart)) return false;
  }
  return true;
}

// Derivatives that are g times a sum of terms below 1, which cancel near the function's zero
// (gelu's at -0.75, silu's at -1.28) and leave their errors; g is at most 90 here.
double apart(const Functor& f) {
  for (const Functor& cancels :
       {functor<k::GeluBackward>(), functor<k::GeluTanhBackward>(), functor<k::SiluBackward>()}) {
    if (f.op.index == cancels.op.index) return 90 * 0x1p-52;
  }
  return 0x1p-1000;
}

// Whether f of doubles may ask the C library; of the functors that take integers, too, pow does.
bool is_of_library(const Functor& f) {
  return f.domain == k::Domain::floats || f.op.index == functor<k::Pow>().op.index;
}

// Runs f on both devices over these inputs; a scalar stands where an input is undefined.
void compare(const Functor& f, std::span<const Array> inputs, DType compute, DType stored,
             const Array& cpu_out) {
  std::vector<Array> there(inputs.size());
  std::vector<core::Operand> here_operands, there_operands;
  const Scalar scalars[] = {0.75, 1.5, -2.0, 3.0};
  for (size_t i = 0; i < static_cast<size_t>(f.arity); ++i) {
    if (inputs[i].defined()) {
      there[i] = on_gpu(inputs[i]);
      here_operands.emplace_back(inputs[i]);
      there_operands.emplace_back(there[i]);
    } else {
      here_operands.emplace_back(scalars[i]);
      there_operands.emplace_back(scalars[i]);
    }
  }
  const Array gpu_out = on_gpu(cpu_out);
  core::backend(kCpu).run(core::call::Map{f.op, here_operands, compute, cpu_out});
  core::backend(kGpu).run(core::call::Map{f.op, there_operands, compute, gpu_out});
  INFO(f.name << " of " << to_string(stored) << " computed in " << to_string(compute) << ", "
              << to_string(cpu_out.shape()) << " " << to_string(cpu_out.strides()));
  if (cpu_out.dtype() == kFloat64 && is_of_library(f)) {
    CHECK(close_doubles(gpu_out, cpu_out, apart(f)));
  } else {
    CHECK(same_bits(gpu_out, cpu_out));
  }
}
template <class F>
void compare(std::span<const Array> inputs, DType compute, DType stored, const Array& cpu_out) {
  compare(functor<F>(), inputs, compute, stored, cpu_out);
}

// The dtype in which `stored` is computed.
DType compute_type(DType stored) {
  if (stored == kFloat16 || stored == kBFloat16) return kFloat32;
  return stored == kBool ? kUInt8 : stored;
}

constexpr DType kStored[] = {kBool,    kUInt8,    kInt32,   kInt64,
                             kFloat16, kBFloat16, kFloat32, kFloat64};

// A copy of x that begins one element into its memory.
Array shifted(const Array& x) {
  const Array longer = Array::zeros({x.numel() + 1}, x.dtype());
  const Array view = longer.slice(0, 1).reshape(x.shape());
  core::backend(kCpu).run(core::call::Copy{x, view});
  return view;
}

}  // namespace

TEST_CASE("every functor gives the CPU's bits on dense arrays of every dtype") {
  HERO_NEEDS_GPU();
  for (const Functor& f : kFunctors) {
    for (const DType stored : kStored) {
      if (!f.computes_in(stored)) continue;
      std::vector<Array> inputs;
      for (int i = 0; i < f.arity; ++i)
        inputs.push_back(values({301}, stored, static_cast<uint64_t>(i) + 1));
      compare(f, inputs, compute_type(stored), stored, Array::empty({301}, f.result(stored)));
    }
  }
}

TEST_CASE("every functor gives the CPU's bits on strided and broadcast arrays") {
  HERO_NEEDS_GPU();
  for (const Functor& f : kFunctors) {
    for (const DType stored : kStored) {
      if (!f.computes_in(stored)) continue;
      // one operand of each kind: turned with gaps, a row, a column, one element
      const Array operands[] = {awkward(values({5, 3, 11}, stored, 1)), values({11}, stored, 2),
                                values({3, 1}, stored, 3), values({1}, stored, 4)};
      compare(f, std::span(operands).first(static_cast<size_t>(f.arity)), compute_type(stored),
              stored, awkward(Array::zeros({5, 3, 11}, f.result(stored))));
    }
  }
}

TEST_CASE("every functor takes scalars in place of arrays") {
  HERO_NEEDS_GPU();
  for (const Functor& f : kFunctors) {
    if (f.arity == 1) continue;
    for (const DType stored : {kInt64, kBFloat16, kFloat32, kFloat64}) {
      if (!f.computes_in(stored)) continue;
      for (int given = 0; given < f.arity; ++given) {
        std::vector<Array> inputs(static_cast<size_t>(f.arity));
        inputs[static_cast<size_t>(given)] = values({37}, stored, 5);
        compare(f, inputs, compute_type(stored), stored, Array::empty({37}, f.result(stored)));
      }
    }
  }
}

TEST_CASE("sizes around whole vectors and blocks are mapped to their last element") {
  HERO_NEEDS_GPU();
  for (const DType stored : {kBFloat16, kFloat32, kFloat64}) {
    for (const int64_t n : {1, 2, 3, 4, 7, 8, 9, 31, 33, 255, 257, 1023, 1025, 2048, 2053}) {
      const Array inputs[] = {values({n}, stored, 1), values({n}, stored, 2)};
      compare<k::Mul>(inputs, compute_type(stored), stored, Array::empty({n}, stored));
      compare<k::Less>(inputs, compute_type(stored), stored, Array::empty({n}, kBool));
    }
    const Array none[] = {Array::empty({0, 3}, stored), Array::empty({0, 3}, stored)};
    compare<k::Mul>(none, compute_type(stored), stored, Array::empty({0, 3}, stored));
    const Array scalar[] = {values({}, stored, 1), values({}, stored, 2)};
    compare<k::Mul>(scalar, compute_type(stored), stored, Array::empty({}, stored));
  }
}

TEST_CASE("whole vectors are read where rows and columns are repeated and where rows have gaps") {
  HERO_NEEDS_GPU();
  for (const DType stored : {kFloat16, kFloat32, kFloat64}) {
    const Array wide = values({6, 40}, stored, 1);
    const Array operands[] = {wide.slice(1, 8, 32), values({24}, stored, 2),
                              values({6, 1}, stored, 3)};
    compare<k::Lerp>(operands, compute_type(stored), stored, Array::empty({6, 24}, stored));
    const Array gaps = Array::zeros({6, 48}, stored);
    compare<k::Lerp>(operands, compute_type(stored), stored, gaps.slice(1, 16, 40));
    const Array cut[] = {wide.slice(1, 3, 27), values({24}, stored, 2), values({6, 1}, stored, 3)};
    compare<k::Lerp>(cut, compute_type(stored), stored, Array::empty({6, 24}, stored));
  }
}

TEST_CASE("arrays that begin between two vectors are mapped") {
  HERO_NEEDS_GPU();
  for (const DType stored : {kBFloat16, kFloat32, kFloat64}) {
    const Array whole = values({50}, stored, 1), moved = shifted(values({50}, stored, 2));
    const Array first[] = {moved, whole}, second[] = {whole, whole};
    compare<k::Add>(first, compute_type(stored), stored, Array::empty({50}, stored));
    compare<k::Add>(second, compute_type(stored), stored, shifted(Array::zeros({50}, stored)));
    compare<k::Less>(second, compute_type(stored), stored, shifted(Array::zeros({50}, kBool)));
  }
}

TEST_CASE(
    "operands of different dtypes are converted as they are read, results as they are stored") {
  HERO_NEEDS_GPU();
  for (const DType a : kStored) {
    for (const DType b : kStored) {
      const DType stored = promote(a, b);
      const Array inputs[] = {values({4, 9}, a, 1), values({4, 9}, b, 2)};
      compare<k::Sub>(inputs, compute_type(stored), stored, Array::empty({4, 9}, stored));
      compare<k::GreaterEqual>(inputs, compute_type(stored), stored, Array::empty({4, 9}, kBool));
    }
  }
  for (const DType out : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Array inputs[] = {values({70}, kFloat32, 1), values({70}, kFloat32, 2)};
    compare<k::Maximum>(inputs, kFloat32, kFloat32, Array::empty({70}, out));
    compare<k::Equal>(inputs, kFloat32, kFloat32, Array::empty({70}, out));
  }
  const Array choice[] = {values({40}, kBool, 1), values({40}, kBFloat16, 2),
                          values({40}, kBFloat16, 3)};
  compare<k::Where>(choice, kFloat32, kBFloat16, Array::empty({40}, kBFloat16));
}

TEST_CASE("float32 elements that repeat meet vectors of halves") {
  HERO_NEEDS_GPU();
  for (const DType half : {kFloat16, kBFloat16}) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{6, 1}, Shape{1, 40}}) {
      const Array inputs[] = {values({6, 40}, half, 1), values(shape, kFloat32, 2)};
      const Array turned[] = {inputs[1], inputs[0]};
      compare<k::Mul>(inputs, kFloat32, half, Array::empty({6, 40}, half));
      compare<k::Sub>(turned, kFloat32, half, Array::empty({6, 40}, half));
      compare<k::Less>(inputs, kFloat32, half, Array::empty({6, 40}, kBool));
    }
    const Array one[] = {values({1}, half, 1), values({}, kFloat32, 2)};
    compare<k::Mul>(one, kFloat32, half, Array::empty({1}, half));
  }
}

TEST_CASE("the output may be an input") {
  HERO_NEEDS_GPU();
  for (const Shape& shape : {Shape{77}, Shape{8, 16}}) {
    const Array x = values(shape, kFloat32, 1), y = values(shape, kFloat32, 2);
    const Array gpu_x = x.to(kGpu), gpu_y = y.to(kGpu);
    core::map_into<k::Affine>(x, x, y, 0.5);
    core::map_into<k::Affine>(gpu_x, gpu_x, gpu_y, 0.5);
    CHECK(same_bits(gpu_x, x));
    const int last = x.ndim() - 1;
    const Array turned = x.transpose(0, last), gpu_turned = gpu_x.transpose(0, last);
    core::map_into<k::Mul>(turned, turned, y.transpose(0, last));
    core::map_into<k::Mul>(gpu_turned, gpu_turned, gpu_y.transpose(0, last));
    CHECK(same_bits(gpu_x, x));
  }
}
