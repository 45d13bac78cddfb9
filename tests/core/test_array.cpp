#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/array.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

using Ints = std::vector<int64_t>;

// 0, 1, 2, ... of a shape.
Array counting(const Shape& shape) {
  return make(
      shape, [](int64_t i) { return static_cast<double>(i); }, kInt64);
}
Ints values(const Array& x) { return x.to_vector<int64_t>(); }

// True when `view` is over x's storage: nothing was copied.
bool shares(const Array& view, const Array& x) { return view.storage_ref() == x.storage_ref(); }

TEST_CASE("slice takes Python's slices with a positive step", "[core]") {
  const Array x = counting({10});
  REQUIRE(values(x.slice(0, 2, 5)) == Ints{2, 3, 4});
  REQUIRE(values(x.slice(0, -3)) == Ints{7, 8, 9});
  REQUIRE(values(x.slice(0, 0, -7)) == Ints{0, 1, 2});
  REQUIRE(values(x.slice(0, 1, kEnd, 4)) == Ints{1, 5, 9});
  REQUIRE(values(x.slice(0, -100, 2)) == Ints{0, 1});
  REQUIRE(values(x.slice(0, 8, 100)) == Ints{8, 9});
  REQUIRE(x.slice(0, 5, 2).shape() == Shape{0});
  REQUIRE(x.slice(0, 50).shape() == Shape{0});
  REQUIRE(values(counting({3, 4}).slice(-1, 1, 4, 2)) == Ints{1, 3, 5, 7, 9, 11});
  REQUIRE(shares(x.slice(0, 2, 5), x));
  REQUIRE(error_of([&] { x.slice(0, 0, 5, 0); }) ==
          "slice: step must be positive: 0; use flip() to reverse");
  REQUIRE(error_of([&] { counting({}).slice(0, 0); }) ==
          "slice: a 0-dimensional array has nothing to slice");
}

TEST_CASE("select drops a dimension", "[core]") {
  const Array x = counting({2, 3, 4});
  REQUIRE(x.select(1, 2).shape() == Shape{2, 4});
  REQUIRE(values(x.select(1, 2)) == Ints{8, 9, 10, 11, 20, 21, 22, 23});
  REQUIRE(values(x.select(-1, -1)) == Ints{3, 7, 11, 15, 19, 23});
  REQUIRE(counting({3}).select(0, 1).shape() == Shape{});
  REQUIRE(error_of([&] { x.select(1, 3); }) ==
          "select: index 3 is out of range for dim 1 of shape [2, 3, 4]");
  REQUIRE(error_of([&] { x.select(1, -4); }) ==
          "select: index -4 is out of range for dim 1 of shape [2, 3, 4]");
}

TEST_CASE("transpose and permute reorder without a copy", "[core]") {
  const Array x = counting({2, 3});
  REQUIRE(values(x.t()) == Ints{0, 3, 1, 4, 2, 5});
  REQUIRE_FALSE(x.t().is_contiguous());
  REQUIRE(shares(x.t(), x));
  REQUIRE(same(x.t().t(), x));
  const Array y = counting({2, 3, 4}).permute({2, 0, -2});
  REQUIRE(y.shape() == Shape{4, 2, 3});
  REQUIRE(values(y.select(0, 1)) == Ints{1, 5, 9, 13, 17, 21});
  REQUIRE(error_of([&] { x.permute({0}); }) ==
          "permute: [0] does not name each dimension of [2, 3]");
  REQUIRE(error_of([&] { x.permute({0, 0}); }) == "permute: dim 0 appears twice in [0, 0]");
  REQUIRE(error_of([&] { x.transpose(0, 2); }) ==
          "transpose: dim out of range: 2 for 2 dimensions; use -2 to 1");
}

TEST_CASE("expand repeats sizes of one with stride zero", "[core]") {
  const Array x = counting({3, 1});
  const Array y = x.expand({2, -1, 4});
  REQUIRE(y.shape() == Shape{2, 3, 4});
  REQUIRE(y.strides()[0] == 0);
  REQUIRE(y.strides()[2] == 0);
  REQUIRE(shares(y, x));
  REQUIRE(values(y.select(0, 1)) == Ints{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  REQUIRE(counting({1}).expand({0}).shape() == Shape{0});
  REQUIRE(values(counting({}).expand({3})) == Ints{0, 0, 0});
  REQUIRE(error_of([&] { x.expand({2, 1}); }) == "expand: shape [3, 1] does not expand to [2, 1]");
  REQUIRE(error_of([&] { x.expand({1}); }) == "expand: [1] has fewer dimensions than [3, 1]");
  REQUIRE(error_of([&] { x.expand({-1, 3, 1}); }) != "");
}

TEST_CASE("reshape is a view exactly where strides allow it", "[core]") {
  const Array x = counting({4, 6});
  REQUIRE(shares(x.reshape({2, 2, 3, 2}), x));
  REQUIRE(x.reshape({-1}).shape() == Shape{24});
  REQUIRE(x.reshape({3, -1}).shape() == Shape{3, 8});
  // Splitting a dimension of a transposed array is a view, merging its two is a copy.
  const Array split = x.t().reshape({2, 3, 4});
  REQUIRE(shares(split, x));
  REQUIRE(values(split) == values(x.t()));
  const Array merged = x.t().reshape({24});
  REQUIRE_FALSE(shares(merged, x));
  REQUIRE(values(merged) == values(x.t()));
  // Rows cut from a wider array may be split but not merged with the next.
  const Array part = x.slice(1, 0, 4);
  REQUIRE(shares(part.reshape({2, 2, 4, 1}), x));
  REQUIRE_FALSE(shares(part.reshape({16}), x));
  REQUIRE(values(part.reshape({2, 8})) == values(part));
  // Broadcast dimensions merge among themselves.
  const Array row = counting({1, 1, 3}).expand({2, 5, 3});
  REQUIRE(shares(row.reshape({10, 3}), row));
  REQUIRE(values(row.reshape({2, 15})) == values(row));
  REQUIRE(error_of([&] {
            x.reshape({5, -1});
          }) == "reshape: [4, 6] (24 elements) does not fill [5, -1]");
  REQUIRE(error_of([&] { x.reshape({-1, -1}); }) == "reshape: more than one -1 in [-1, -1]");
  REQUIRE(error_of([&] { x.reshape({25}); }) == "reshape: [4, 6] (24 elements) does not fill [25]");
  REQUIRE(error_of([&] { x.reshape({-2, 12}); }) == "reshape: negative size in [-2, 12]");
}

TEST_CASE("reshape handles numbers and empty arrays", "[core]") {
  REQUIRE(counting({1, 1}).reshape({}).shape() == Shape{});
  REQUIRE(counting({}).reshape({1, 1}).shape() == Shape{1, 1});
  REQUIRE(Array::zeros({0, 3}).reshape({3, 0, 2}).shape() == Shape{3, 0, 2});
  REQUIRE(Array::zeros({0, 3}).t().reshape({0}).shape() == Shape{0});
  REQUIRE(Array::zeros({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  REQUIRE(error_of([] { Array::zeros({0, 3}).reshape({-1, 0}); }) != "");
}

TEST_CASE("every reshape of every layout keeps the row-major order", "[core]") {
  const Array base = counting({2, 3, 4});
  const Array layouts[] = {base,
                           base.permute({2, 0, 1}),
                           base.transpose(0, 1),
                           awkward(base),
                           base.slice(2, 0, 4, 2),
                           base.slice(1, 1, 2),
                           base.select(1, 1).unsqueeze(1),
                           base.slice(0, 0, 1).expand({5, 3, 4})};
  for (const Array& x : layouts) {
    const Ints expected = values(x);
    const int64_t n = x.numel();
    for (int64_t a = 1; a <= n; ++a) {
      for (int64_t b = 1; b <= n; ++b) {
        if (n % (a * b) != 0) continue;
        const Array y = x.reshape({a, b, 1, -1});
        REQUIRE(values(y) == expected);
      }
    }
  }
}

TEST_CASE("squeeze and unsqueeze remove and add sizes of one", "[core]") {
  const Array x = counting({1, 3, 1});
  REQUIRE(x.squeeze().shape() == Shape{3});
  REQUIRE(x.squeeze(0).shape() == Shape{3, 1});
  REQUIRE(x.squeeze(-1).shape() == Shape{1, 3});
  REQUIRE(x.squeeze(1).shape() == Shape{1, 3, 1});
  REQUIRE(counting({}).squeeze().shape() == Shape{});
  REQUIRE(counting({3}).unsqueeze(0).shape() == Shape{1, 3});
  REQUIRE(counting({3}).unsqueeze(-1).shape() == Shape{3, 1});
  REQUIRE(counting({}).unsqueeze(0).shape() == Shape{1});
  REQUIRE(x.t().unsqueeze(1).is_contiguous());
  REQUIRE(error_of([&] { counting({3}).unsqueeze(2); }) ==
          "unsqueeze: dim out of range: 2 for 2 dimensions; use -2 to 1");
}

TEST_CASE("flatten merges a run of dimensions", "[core]") {
  const Array x = counting({2, 3, 4});
  REQUIRE(x.flatten().shape() == Shape{24});
  REQUIRE(x.flatten(1).shape() == Shape{2, 12});
  REQUIRE(x.flatten(0, -2).shape() == Shape{6, 4});
  REQUIRE(counting({}).flatten().shape() == Shape{1});
  REQUIRE(error_of([&] { x.flatten(2, 0); }) == "flatten: start_dim 2 comes after end_dim 0");
}

TEST_CASE("diagonal is a view of any two dimensions", "[core]") {
  const Array x = counting({3, 4});
  REQUIRE(values(x.diagonal()) == Ints{0, 5, 10});
  REQUIRE(values(x.diagonal(1)) == Ints{1, 6, 11});
  REQUIRE(values(x.diagonal(-2)) == Ints{8});
  REQUIRE(x.diagonal(4).shape() == Shape{0});
  REQUIRE(x.diagonal(-9).shape() == Shape{0});
  const Array y = counting({2, 3, 3});
  REQUIRE(y.diagonal(0, 1, 2).shape() == Shape{2, 3});
  REQUIRE(values(y.diagonal(0, -2, -1)) == Ints{0, 4, 8, 9, 13, 17});
  REQUIRE(values(y.diagonal(1, 2, 1)) == Ints{3, 7, 12, 16});
  REQUIRE(shares(y.diagonal(), y));
  REQUIRE(error_of([&] { x.diagonal(0, 1, 1); }) != "");
}

TEST_CASE("unfold gives overlapping windows", "[core]") {
  const Array x = counting({5});
  REQUIRE(x.unfold(0, 3, 1).shape() == Shape{3, 3});
  REQUIRE(values(x.unfold(0, 3, 1)) == Ints{0, 1, 2, 1, 2, 3, 2, 3, 4});
  REQUIRE(values(x.unfold(0, 2, 2)) == Ints{0, 1, 2, 3});
  REQUIRE(counting({2, 5}).unfold(1, 2, 3).shape() == Shape{2, 2, 2});
  REQUIRE(error_of([&] { x.unfold(0, 6, 1); }) ==
          "unfold: window of 6 does not fit dim 0 of shape [5]");
}

TEST_CASE("as_strided stays inside the storage", "[core]") {
  const Array x = counting({6});
  REQUIRE(values(x.as_strided({2, 2}, {1, 2}, 1)) == Ints{1, 3, 2, 4});
  REQUIRE(x.as_strided({0, 9}, {1, 1}).shape() == Shape{0, 9});
  REQUIRE(
      error_of([&] {
        x.as_strided({2, 3}, {3, 1}, 1);
      }) ==
      "as_strided: shape [2, 3] with strides [3, 1] at offset 1 reaches beyond the storage of 6 "
      "elements");
  REQUIRE(error_of([&] {
            x.as_strided({2}, {1, 1});
          }) == "as_strided: shape [2] and strides [1, 1] differ in length");
  REQUIRE(error_of([&] { x.as_strided({2}, {-1}, 3); }) != "");
  REQUIRE(error_of([&] { x.as_strided({3}, {INT64_MAX}); }) ==
          "as_strided: shape [3] with strides [9223372036854775807] overflows");
}

TEST_CASE("a view writes into the array it was taken from", "[core]") {
  const Array x = Array::zeros({2, 3});
  backend(kCpu).run(call::Fill{x.select(1, 1), 7});
  REQUIRE(x.to_vector<float>() == std::vector<float>{0, 7, 0, 0, 7, 0});
  const Array copy = x.clone();
  backend(kCpu).run(call::Fill{copy, 1});
  REQUIRE(x.to_vector<float>() == std::vector<float>{0, 7, 0, 0, 7, 0});
}

TEST_CASE("contiguous returns itself where it can", "[core]") {
  const Array x = counting({2, 3});
  REQUIRE(shares(x.contiguous(), x));
  REQUIRE(shares(x.slice(0, 1).contiguous(), x));
  REQUIRE_FALSE(shares(x.t().contiguous(), x));
  REQUIRE(x.t().contiguous().is_contiguous());
  REQUIRE(counting({3, 1}).t().is_contiguous());  // a size of one has no stride that matters
}

TEST_CASE("arrays of no elements and no dimensions are ordinary", "[core]") {
  const Array none = Array::zeros({3, 0, 2}), number = Array::full({}, 5);
  REQUIRE(none.numel() == 0);
  REQUIRE(none.is_contiguous());
  REQUIRE(none.to_vector<float>().empty());
  REQUIRE(none.clone().shape() == none.shape());
  REQUIRE(number.ndim() == 0);
  REQUIRE(number.numel() == 1);
  REQUIRE(number.item<int32_t>() == 5);
  REQUIRE(error_of([&] { none.item(); }) ==
          "item: needs exactly one element: array has shape [3, 0, 2]");
}

TEST_CASE("sizes, dtypes and devices are checked when arrays are made and read", "[core]") {
  REQUIRE(error_of([] { Array::zeros({2, -1}); }) == "empty: negative size in shape [2, -1]");
  REQUIRE(error_of([] { Array::zeros({INT64_MAX, 2}); }) != "");
  REQUIRE(error_of([] {
            Array::from(std::vector<float>{1, 2}, {3});
          }) == "from: 2 values do not fill shape [3]");
  REQUIRE(error_of([] { Array::zeros({1}).data<double>(); }) ==
          "data: array is float32, asked for float64");
  REQUIRE(error_of([] { Array().bytes(); }) == "data: the array is undefined");
  REQUIRE(Array::zeros({2, 3}).size(-1) == 3);
  REQUIRE(error_of([] {
            Array::zeros({2, 3}).size(2);
          }) == "size: dim out of range: 2 for 2 dimensions; use -2 to 1");
  REQUIRE(error_of([] {
            Array::zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0);
          }) == "shape: more than 8 dimensions");
}

}  // namespace
