// Copies without conversion: every layout against the walk of one element at a time.
#include <cstring>
#include <random>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::test;

// Where the element with this index lies in x, which broadcasts to the index's shape.
std::byte* place_of(const Array& x, const Dims& index) {
  const int front = index.size() - x.ndim();
  int64_t place = 0;
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.shape()[d] != 1) place += index[front + d] * x.strides()[d];
  }
  return x.bytes() + place * item_size(x.dtype());
}

// Bytes without pattern.
Array filled(int64_t count, DType dtype) {
  const Array x = Array::empty({count}, dtype);
  uint32_t state = 12345;
  for (int64_t i = 0; i < x.nbytes(); ++i) {
    state = state * 1664525u + 1013904223u;
    // a bool is 0 or 1
    x.bytes()[i] = static_cast<std::byte>(dtype == kBool ? state >> 31 : state >> 24);
  }
  return x;
}

// Copies src to dst, once on each number of threads, and compares all memory of dst with what the
// naive walk leaves there.
bool copies(const Array& src, const Array& dst, std::initializer_list<int> threads = {3}) {
  const Array memory(dst.storage_ref(), {dst.storage().bytes() / item_size(dst.dtype())}, {1}, 0,
                     dst.dtype());
  const Array before = memory.clone(), expected = memory.clone();
  const auto item = static_cast<size_t>(item_size(dst.dtype()));
  Dims index = Dims::filled(dst.ndim(), 0);
  for (int64_t at = 0; at < dst.numel(); ++at) {
    std::byte* const to = place_of(dst, index);
    std::memcpy(expected.bytes() + (to - memory.bytes()), place_of(src, index), item);
    for (int d = dst.ndim() - 1; d >= 0 && ++index[d] == dst.shape()[d]; --d) index[d] = 0;
  }
  const auto bytes = static_cast<size_t>(memory.nbytes());
  bool same = true;
  for (const int number : threads) {
    const ThreadLimit limit(number);
    if (bytes > 0) std::memcpy(memory.bytes(), before.bytes(), bytes);
    core::backend(kCpu).run(core::call::Copy{src, dst});
    same = same && (bytes == 0 || std::memcmp(expected.bytes(), memory.bytes(), bytes) == 0);
  }
  return same;
}

// A view of this shape whose dimensions lie in memory in `order`, each with a step, some backwards,
// some repeated.
Array view_of(const Shape& shape, const Dims& order, const Dims& steps, DType dtype) {
  Dims strides = Dims::filled(shape.size(), 0);
  int64_t room = 1, first = 0;
  for (int i = shape.size() - 1; i >= 0; --i) {
    const int d = static_cast<int>(order[i]);
    strides[d] = steps[d] * room;
    if (steps[d] < 0) first -= (shape[d] - 1) * strides[d];
    if (steps[d] != 0) room *= shape[d] * std::abs(steps[d]) + (i % 2);
  }
  return Array(filled(room + first + 8, dtype).storage_ref(), shape, strides, first, dtype);
}

TEST_CASE("copies keep every byte, in any order of dimensions and with any steps", "[core]") {
  std::mt19937 random(7);
  const auto below = [&](int n) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(n));
  };
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 70};
  for (const DType dtype : {kBool, kUInt8, kBFloat16, kInt32, kFloat64}) {
    for (int round = 0; round < 300; ++round) {
      Shape shape;
      Dims orders[2], steps[2];
      int64_t count = 1;
      const int64_t ndim = below(6);
      for (int64_t d = 0; d < ndim; ++d) {
        const int64_t size = sizes[below(13)];
        if (count * size > 20000) break;
        count *= size;
        shape.push_back(size);
        for (int k = 0; k < 2; ++k) {
          orders[k].insert(static_cast<int>(below(static_cast<int>(d) + 1)), d);
          const int64_t kind = below(8);
          // the source: mostly dense, some backwards, some repeated; the target never
          steps[k].push_back(k == 1      ? 1 + kind / 6
                             : kind == 0 ? 0
                             : kind == 1 ? -1
                             : kind == 2 ? -3
                                         : 1 + kind / 6);
        }
      }
      const Array src = view_of(shape, orders[0], steps[0], dtype);
      const Array dst = view_of(shape, orders[1], steps[1], dtype);
      INFO(dtype << " " << shape << ", strides " << src.strides() << " to " << dst.strides());
      REQUIRE(copies(src, dst));
    }
  }
}

TEST_CASE("copies of large arrays in blocks have the same bytes on any number of threads",
          "[core]") {
  const auto turned = [](const Array& x) { return x.t(); };
  const auto backwards = [](const Array& x) {
    return Array(x.storage_ref(), x.shape(), {x.strides()[0], -1}, x.size(1) - 1, x.dtype());
  };
  for (const DType dtype : {kUInt8, kFloat16, kFloat32, kInt64}) {
    // the larger ones are written past the caches
    for (const Shape& shape :
         {Shape{300, 517}, Shape{1600, 2080}, Shape{70000, 3}, Shape{3, 70001}}) {
      const Array x = filled(shape.numel(), dtype).reshape(shape);
      REQUIRE(copies(turned(x), Array::zeros({shape[1], shape[0]}, dtype), {1, 3}));
      REQUIRE(copies(x, Array::zeros({shape[1], shape[0]}, dtype).t(), {1, 3}));
      REQUIRE(copies(backwards(x), Array::zeros(shape, dtype), {1, 3}));
      REQUIRE(copies(x.slice(0, 1), Array::zeros(shape, dtype).slice(0, 0, shape[0] - 1), {1, 3}));
      REQUIRE(copies(x, Array::zeros({2, shape[0], shape[1]}, dtype), {1, 3}));
    }
  }
}

TEST_CASE("copies that convert turned arrays convert what the array in order holds", "[core]") {
  const Array x = noise({3, 130, 700}, kFloat32, 1), large = noise({900, 1100}, kFloat32, 2);
  const std::vector<Array> turned = {x.transpose(1, 2),
                                     x.transpose(0, 2),
                                     x.permute({1, 2, 0}),
                                     large.t(),
                                     large.slice(0, 3, 888).slice(1, 5, 1000).t(),
                                     x.select(1, 0).t()};
  for (const Array& from : turned) {
    for (const DType dtype : {kFloat64, kBFloat16, kInt32, kBool}) {
      const Array expected = from.contiguous().to(dtype);
      REQUIRE(same(from.to(dtype).contiguous(), expected));
      const Array into = Array::zeros(from.shape(), dtype).transpose(0, -1).contiguous();
      core::backend(kCpu).run(core::call::Copy{from, into.transpose(0, -1)});
      REQUIRE(same(into.transpose(0, -1).contiguous(), expected));
    }
  }
}

TEST_CASE("copies take arrays without elements, single ones and the same view", "[core]") {
  REQUIRE(copies(Array::zeros({0, 3}), Array::zeros({0, 3})));
  REQUIRE(copies(Array::full({}, 3), Array::zeros({})));
  REQUIRE(copies(Array::full({1, 1}, 3), Array::zeros({1, 1, 1})));
  REQUIRE(copies(Array::full({}, 3), Array::zeros({70, 5})));
  const Array x = noise({300, 200}), before = x.clone();
  core::backend(kCpu).run(core::call::Copy{x.t(), x.t()});
  REQUIRE(same(x, before));
}

}  // namespace
