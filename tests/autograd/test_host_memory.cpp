// Values of tensors by index and as spans, and tensors from spans.
#include <span>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

// Neither can be asked of a temporary, whose memory would be gone.
template <class T>
concept AskedForAccessor = requires(T x) {
  static_cast<T>(x).template accessor<float, 1>();
};
template <class T>
concept AskedForSpan = requires(T x) {
  static_cast<T>(x).template span<float>();
};
static_assert(AskedForAccessor<Tensor&> && AskedForAccessor<const Tensor&>);
static_assert(!AskedForAccessor<Tensor&&> && !AskedForAccessor<const Tensor&&>);
static_assert(AskedForSpan<const Tensor&> && !AskedForSpan<Tensor&&>);
// A tensor over elements that are const could write to them.
static_assert(requires(std::span<double> s) { from_blob(s, {1}); });
template <class S>
concept Borrowed = requires(S s) {
  from_blob(s, Shape{1});
};
static_assert(Borrowed<std::span<int64_t>> && !Borrowed<std::span<const int64_t>>);

TEST_CASE("an accessor reads and writes elements by their indices, whatever the strides") {
  const Tensor x = arange(24, kFloat32).reshape({2, 3, 4});
  const auto a = x.accessor<float, 3>();
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) CHECK(a[i][j][k] == static_cast<float>(12 * i + 4 * j + k));
    }
  }
  CHECK(a.size(1) == 3);
  CHECK(a.stride(0) == 12);
  CHECK((a.sizes()[2] == 4 && a.strides()[2] == 1));
  CHECK(a[1][2].size(0) == 4);

  const Tensor turned = x.permute({2, 0, 1}).slice(0, 1, 4, 2);  // [2, 2, 3], from element 1 on
  const auto t = turned.accessor<float, 3>();
  CHECK(t[0][0][0] == 1);
  CHECK(t[1][1][2] == 23);
  t[1][1][2] = -1;
  CHECK(x({1, 2, 3}).item() == -1);
  CHECK(turned.accessor<const float, 3>()[1][1][2] == -1);

  const auto row = [&] { return x.accessor<const float, 3>()[1][0]; }();  // outlives its parent
  CHECK(row[3] == 15);
}

TEST_CASE("accessors and spans have the element types of all dtypes") {
  const auto check_one = [](DType dtype) {
    dispatch(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const Tensor x = tensor({0, 1, 1}).to(dtype);
      CHECK(static_cast<float>(x.accessor<T, 1>()[1]) == 1.0F);
      CHECK(static_cast<float>(x.span<const T>()[2]) == 1.0F);
      x.span<T>()[0] = T(1);
      CHECK(equal(x, tensor({1, 1, 1}).to(dtype)));
      const Tensor again = tensor(std::span<const T>(x.span<T>()), {.dtype = dtype});
      CHECK(again.dtype() == dtype);
      CHECK(equal(again, x));
      const Tensor same = from_blob(x.span<T>(), {3, 1});
      CHECK(same.dtype() == dtype);
      CHECK(same.data_ptr<T>() == x.data_ptr<T>());
    });
  };
  for (int i = 0; i < kDTypeCount; ++i) check_one(static_cast<DType>(i));
}

TEST_CASE("a tensor of a span has the dtypes of lists, and takes any extent") {
  const std::vector<double> doubles = {0.5, 0.1};
  CHECK(tensor(std::span(doubles)).dtype() == kFloat32);
  CHECK(tensor(std::span(doubles), {.dtype = kFloat64}).to_vector<double>() == doubles);
  std::array<int, 3> ints = {1, 2, 3};
  const Tensor x = tensor(std::span(ints));  // a fixed extent, and elements that are not const
  CHECK(x.dtype() == kInt64);
  ints[0] = 9;
  CHECK(x[0].item() == 1);
  const std::array<uint8_t, 2> bytes = {0, 255};
  CHECK(tensor(std::span(bytes)).dtype() == kUInt8);
  CHECK(tensor(std::span<const float>()).shape() == Shape{0});
  CHECK(tensor(std::span(bytes).first(1), {.dtype = kFloat32, .requires_grad = true})
            .requires_grad());
}

TEST_CASE("a tensor over a span has its dtype and as many elements") {
  std::vector<double> values = {1, 2, 3, 4, 5, 6};
  const Tensor x = from_blob(std::span(values), {2, 3});
  CHECK(x.dtype() == kFloat64);
  x.mul_(2.0);
  CHECK(values == std::vector<double>{2, 4, 6, 8, 10, 12});
  CHECK_THROWS_WITH(from_blob(std::span(values), {2, 2}),
                    Equals("from_blob: a span of 6 elements does not fill shape [2, 2]"));
  CHECK_THROWS_WITH(from_blob(std::span(values), {6}, {.dtype = kFloat32}),
                    Equals("from_blob: the span's elements are float64, not float32"));
}

TEST_CASE("accessors and spans refuse what they cannot show") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH((x.accessor<double, 2>()), Equals("accessor: the tensor is float32, asked for "
                                                      "float64; convert with to()"));
  CHECK_THROWS_WITH((x.accessor<float, 1>()),
                    Equals("accessor: the tensor has 2 dimensions, shape [2, 3], asked for 1"));
  CHECK_THROWS_WITH(x.span<int64_t>(), StartsWith("span: the tensor is float32, asked for int64"));
  const Tensor turned = x.t();
  CHECK_THROWS_WITH(turned.span<float>(),
                    Equals("span: the tensor has gaps or another order, shape [3, 2] with strides "
                           "[1, 3]; take contiguous() first"));
  const Tensor shape_only = zeros({2, 3}, {.device = kMeta});
  CHECK_THROWS_WITH((shape_only.accessor<float, 2>()),
                    Equals("accessor: the tensor lies on meta, where the host cannot reach it; "
                           "move it with to(kCpu)"));
  const Tensor none;
  CHECK_THROWS_AS(none.span<float>(), Error);
  const Tensor empty = zeros({0, 3});
  CHECK(empty.span<float>().empty());
  CHECK(empty.accessor<float, 2>().size(1) == 3);
}

}  // namespace
