// Columns of windows on the GPU have the CPU's bits: they are moved, or added up in the same order.
#include "cuda/kernels/windows.h"

using namespace hero;
using namespace hero::core;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using hero::test::awkward;
using hero::test::make;
using hero::test::noise;
using hero::test::same;

TEST_CASE("columns of windows are the CPU's for every window and dtype") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16, kInt64);
  const Array x = noise({2, 3, 7, 8}, kFloat32, 1).to(dtype);
  for (const Window& w : windows()) {
    if (!w.count_padding) continue;  // of no concern here
    const int64_t rows = 3 * w.kernel[0] * w.kernel[1], count = places(w, 0, 7) * places(w, 1, 8);
    const Array expected = Array::empty({2, rows, count}, dtype);
    backend(kCpu).run(call::Im2col{x, w, expected});
    const Array columns = Array::empty({2, rows, count}, dtype, kGpu);
    backend(kGpu).run(call::Im2col{x.to(kGpu), w, columns});
    CHECK(same(columns.to(kCpu), expected));
    const Array turned = Array::zeros({2, count, rows}, dtype, kGpu).transpose(1, 2);
    backend(kGpu).run(call::Im2col{awkward_on_gpu(x), w, turned});
    CHECK(same(turned.to(kCpu).contiguous(), expected));
  }
}

TEST_CASE("columns are added back into the image in the CPU's order") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kInt32);
  for (const Window& w : windows()) {
    if (!w.count_padding) continue;
    const int64_t rows = 3 * w.kernel[0] * w.kernel[1], count = places(w, 0, 7) * places(w, 1, 8);
    const Array columns = noise({2, rows, count}, kFloat32, 2).to(dtype);
    const Array expected = Array::empty({2, 3, 7, 8}, dtype);
    backend(kCpu).run(call::Col2im{columns, w, expected});
    const Array image = Array::empty({2, 3, 7, 8}, dtype, kGpu);
    backend(kGpu).run(call::Col2im{columns.to(kGpu), w, image});
    CHECK(same(image.to(kCpu), expected));
    const Array strided = awkward_on_gpu(Array::zeros({2, 3, 7, 8}, dtype));
    backend(kGpu).run(call::Col2im{awkward_on_gpu(columns), w, strided});
    CHECK(same(strided.to(kCpu).contiguous(), expected));
  }
}

TEST_CASE("empty images have empty columns, no columns add up to zeros, and sizes have a limit") {
  HERO_NEEDS_GPU();
  Window w;
  w.kernel[0] = w.kernel[1] = 2;
  const Array none = Array::empty({0, 3, 4, 4}, kFloat32, kGpu);
  backend(kGpu).run(call::Im2col{none, w, Array::empty({0, 12, 9}, kFloat32, kGpu)});
  const Array image = Array::full({1, 1, 1, 4}, 7, kFloat32, kGpu);
  backend(kGpu).run(call::Col2im{Array::empty({1, 4, 0}, kFloat32, kGpu), w, image});
  CHECK(same(image.to(kCpu), Array::zeros({1, 1, 1, 4})));
  const Array line = Array::empty({1}, kFloat32, kGpu).expand({1, 1, 1, 1 << 20});
  CHECK_THROWS_WITH(backend(kGpu).run(call::Im2col{line, {}, line.reshape({1, 1, 1 << 20})}),
                    ContainsSubstring("1048576"));
}
