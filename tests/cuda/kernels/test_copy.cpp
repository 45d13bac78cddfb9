// Copies on a GPU, to and from it, and between two of them.
#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

using namespace hero;
using namespace hero_test;
using namespace hero::test;

namespace {

constexpr DType kAll[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

// Small whole numbers: every dtype holds them, and bool their truth.
Array numbers(const Shape& shape, DType dtype) {
  return make(
      shape, [](int64_t i) { return static_cast<double>(i * 37 % 101); }, dtype);
}

// Copies on both devices from an array laid out as `src` to one laid out as `dst`.
void compare(const Array& src, const Array& dst) {
  const Array gpu_src = on_gpu(src), gpu_dst = on_gpu(dst);
  core::backend(kCpu).run(core::call::Copy{src, dst});
  core::backend(kGpu).run(core::call::Copy{gpu_src, gpu_dst});
  INFO(to_string(src.dtype()) << " " << to_string(src.shape()) << " " << to_string(src.strides())
                              << " to " << to_string(dst.dtype()) << " " << to_string(dst.shape())
                              << " " << to_string(dst.strides()));
  CHECK(same_bits(gpu_dst, dst));
}

}  // namespace

TEST_CASE("arrays of every dtype and layout come back from the GPU as they went") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 4}, Shape{257}, Shape{3, 5, 7}}) {
      const Array x = numbers(shape, dtype);
      CHECK(same(x.to(kGpu).to(kCpu), x));
      CHECK(same(awkward(x).to(kGpu).to(kCpu), x));
      CHECK(same(on_gpu(awkward(x)).to(kCpu), x));
    }
  }
}

TEST_CASE("views are filled from the host and read into views of the host") {
  HERO_NEEDS_GPU();
  const Array x = numbers({4, 6}, kFloat32);
  const Array there = Array::zeros({6, 9}, kFloat32, kGpu);
  const Array view = there.slice(1, 1, kEnd, 2).t();
  core::backend(kGpu).run(core::call::Copy{awkward(x), view});
  CHECK(same(view.to(kCpu), x));
  CHECK(there.select(1, 0).to_vector<float>() == std::vector<float>(6, 0.0f));
  CHECK(there.select(1, 2).to_vector<float>() == std::vector<float>(6, 0.0f));
  const Array back = awkward(Array::zeros({4, 6}));
  core::backend(kGpu).run(core::call::Copy{view, back});
  CHECK(same(back.contiguous(), x));
}

TEST_CASE("memory of the host may change as soon as it was copied to the GPU") {
  HERO_NEEDS_GPU();
  Array there;
  {
    Array x = Array::full({1000}, 7.0);
    there = x.to(kGpu);
    std::fill_n(x.data<float>(), 1000, 8.0f);
  }
  CHECK(there.to_vector<float>() == std::vector<float>(1000, 7.0f));
}

TEST_CASE("every dtype is converted to every other, dense, with gaps and repeated") {
  HERO_NEEDS_GPU();
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      compare(numbers({301}, from), Array::empty({301}, to));
      compare(awkward(numbers({7, 5}, from)), Array::empty({7, 5}, to));
      compare(numbers({7, 5}, from), awkward(Array::zeros({7, 5}, to)));
      compare(numbers({16}, from), Array::empty({5, 16}, to));
      compare(numbers({5, 1}, from), Array::empty({5, 16}, to));
      compare(numbers({1}, from), Array::empty({41}, to));
    }
  }
}

TEST_CASE("halves are rounded as on the CPU, special values included") {
  HERO_NEEDS_GPU();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {
      0.0f,     -0.0f,    1.0f,      kInf,        -kInf,       std::nanf(""),  65504.0f,
      65519.9f, 65520.0f, -65536.0f, 3.4e38f,     6e-8f,       2.9e-8f,        2.98e-8f,
      1e-40f,   -1e-45f,  6.1e-5f,   1.00390625f, 1.01171875f, 1.00048828125f, 1.00146484375f};
  const Array random = noise({500}, kFloat32);
  for (int i = 0; i < 500; ++i) {
    values.push_back(random.data<float>()[i] * std::ldexp(1.0f, i % 60 - 40));
  }
  const Array x = Array::from(values, {static_cast<int64_t>(values.size())});
  for (const DType half : {kFloat16, kBFloat16}) {
    compare(x, Array::empty(x.shape(), half));
    compare(x.to(kFloat64), Array::empty(x.shape(), half));
    const Array rounded = x.to(half);
    compare(rounded, Array::empty(x.shape(), kFloat32));
    compare(rounded, Array::empty(x.shape(), half == kFloat16 ? kBFloat16 : kFloat16));
  }
}

TEST_CASE("transposed copies go by tiles of any size and number") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{32, 32}, Shape{33, 31}, Shape{8, 70}, Shape{65, 9}}) {
      compare(numbers(shape, dtype).t(), Array::empty({shape[1], shape[0]}, dtype));
      compare(numbers(shape, dtype), Array::empty({shape[1], shape[0]}, dtype).t());
    }
    compare(numbers({3, 17, 2, 40}, dtype).permute({0, 3, 2, 1}),
            Array::empty({3, 40, 2, 17}, dtype));
    compare(numbers({40, 33}, dtype).slice(1, 1, 30).t(), Array::empty({29, 40}, dtype));
    compare(numbers({6, 5}, dtype).t(), Array::empty({5, 6}, dtype));  // too small for tiles
  }
}

TEST_CASE("copies keep gaps of the destination as they are") {
  HERO_NEEDS_GPU();
  const Array whole = Array::full({9, 24}, 5.0, kFloat32, kGpu);
  core::backend(kGpu).run(
      core::call::Copy{Array::zeros({9, 8}, kFloat32, kGpu), whole.slice(1, 8, 16)});
  for (const int64_t at : {0, 16}) {
    CHECK(whole.slice(1, at, at + 8).to_vector<float>() == std::vector<float>(72, 5.0f));
  }
  CHECK(whole.slice(1, 8, 16).to_vector<float>() == std::vector<float>(72, 0.0f));
}

TEST_CASE("every dtype is filled, dense, from between two vectors and with gaps") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    for (const double value : {0.0, -0.0, 1.0, 100.0}) {
      for (const int64_t n : {0, 1, 15, 16, 17, 4099}) {
        const Array x = Array::full({n}, value, dtype);
        CHECK(same(Array::full({n}, value, dtype, kGpu).to(kCpu), x));
      }
      const Array whole = Array::full({40}, 1.0, dtype, kGpu), x = Array::full({40}, 1.0, dtype);
      for (const Array& array : {whole, x}) {
        core::backend(array.device()).run(core::call::Fill{array.slice(0, 1, 20), value});
        core::backend(array.device()).run(core::call::Fill{array.slice(0, 21, 40, 3), value});
      }
      CHECK(same(whole.to(kCpu), x));
    }
  }
}

TEST_CASE("an array copied onto itself stays what it was") {
  HERO_NEEDS_GPU();
  const Array x = numbers({50}, kFloat32), there = x.to(kGpu);
  core::backend(kGpu).run(core::call::Copy{there, there});
  CHECK(same(there.to(kCpu), x));
}

TEST_CASE("arrays go from one GPU to another, whatever their layout") {
  HERO_NEEDS_GPU();
  if (cuda::device_count() < 2) return;
  const Device second{DeviceType::cuda, 1};
  const Array x = numbers({5, 12}, kBFloat16);
  CHECK(x.to(kGpu).to(second).device() == second);
  CHECK(same(x.to(kGpu).to(second).to(kCpu), x));
  CHECK(same(on_gpu(awkward(x)).to(second).to(kCpu), x));
  const Array target = Array::zeros({12, 5}, kBFloat16, second);
  core::backend(second).run(core::call::Copy{x.to(kGpu), target.t()});
  CHECK(same(target.t().to(kCpu), x));
}
