#include "support/catch.h"

#include <hero/autograd/creation.h>
#include <hero/autograd/gradcheck.h>
#include <hero/autograd/index.h>
#include <hero/autograd/shape_ops.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

Tensor numbers(const Shape& shape) { return arange(shape.numel()).reshape(shape); }

std::vector<int64_t> values(const Tensor& x) { return x.to_vector<int64_t>(); }
using List = std::vector<int64_t>;

}  // namespace

TEST_CASE("slices, None, Ellipsis and numbers give views") {
  const Tensor x = numbers({2, 3, 4});
  CHECK(values(x({0, 1, -1})) == List{7});
  CHECK(values(x({1, Slice(None, 2), Slice(1, None, 2)})) == List{13, 15, 17, 19});
  CHECK(values(x({Slice(), 0, Slice(-2)})) == List{2, 3, 14, 15});
  CHECK(values(x({Ellipsis, 0})) == List{0, 4, 8, 12, 16, 20});
  CHECK(values(x({0, Ellipsis, 3})) == List{3, 7, 11});
  CHECK(to_string(x({None, Slice(), None, Ellipsis, None}).shape()) == "[1, 2, 1, 3, 4, 1]");
  CHECK(to_string(x({Slice(), Slice(5, 9)}).shape()) == "[2, 0, 4]");
  CHECK(is_same(x({}), x));
  const Tensor y = x.clone();
  y({Slice(), 1}).fill_(0);
  CHECK(values(y.select(1, 1)) == List(8, 0));
}

TEST_CASE("negative steps go backwards in a copy, as Python's") {
  const Tensor x = numbers({5});
  CHECK(values(x({Slice(None, None, -1)})) == List{4, 3, 2, 1, 0});
  CHECK(values(x({Slice(3, 0, -2)})) == List{3, 1});
  CHECK(values(x({Slice(-1, None, -3)})) == List{4, 1});
  CHECK(values(x({Slice(9, -4, -1)})) == List{4, 3, 2});
  CHECK(values(x({Slice(1, 3, -1)})).empty());
  CHECK(values(x({Slice(2, -9, -1)})) == List{2, 1, 0});
  CHECK_THROWS_WITH(x({Slice(0, 2, 0)}), ContainsSubstring("step of a slice is 0"));
}

TEST_CASE("masks and positions in brackets") {
  const Tensor x = numbers({3, 2});
  CHECK(values(x[x > 2]) == List{3, 4, 5});
  CHECK(values(x[tensor({true, false, true})]) == List{0, 1, 4, 5});
  CHECK(values(x[tensor({-1, 0})]) == List{4, 5, 0, 1});
  CHECK(values(x[1]) == List{2, 3});
}

TEST_CASE("tensors beside slices and numbers stand where PyTorch has them") {
  const Tensor x = numbers({2, 3, 4}), i = tensor({2, 0}), j = tensor({1, 3});
  CHECK(to_string(x({Slice(), i}).shape()) == "[2, 2, 4]");
  CHECK(values(x({0, i, j})) == List{9, 3});
  CHECK(values(x({Slice(), i, j})) == List{9, 3, 21, 15});
  CHECK(to_string(x({None, Slice(), i, j}).shape()) == "[1, 2, 2]");
  // Apart: the common dimensions come first.
  const Tensor first = tensor({{1}, {0}, {1}});
  CHECK(to_string(x({first, Slice(), j}).shape()) == "[3, 2, 3]");
  CHECK(values(x({tensor({1, 0}), Slice(), j})) == List{13, 17, 21, 3, 7, 11});
  CHECK(to_string(x({Ellipsis, tensor({{0, 1, 2}})}).shape()) == "[2, 3, 1, 3]");
  const Tensor mask = tensor({true, false, true});
  CHECK(values(x({1, mask, 0})) == List{12, 20});
  CHECK(to_string(x({Slice(), mask}).shape()) == "[2, 2, 4]");
  CHECK(to_string(x({true}).shape()) == "[1, 2, 3, 4]");
  CHECK(to_string(x({false}).shape()) == "[0, 2, 3, 4]");
}

TEST_CASE("indices that do not fit are refused") {
  const Tensor x = numbers({2, 3});
  CHECK_THROWS_WITH(x({0, 0, 0}), ContainsSubstring("index: 3 indices for an array of shape"));
  CHECK_THROWS_WITH(x({Ellipsis, Ellipsis}), ContainsSubstring("more than one Ellipsis"));
  CHECK_THROWS_WITH(x({Slice(), 3}), ContainsSubstring("select"));
  CHECK_THROWS_WITH(x[tensor({true, false, true})], ContainsSubstring("does not fit dim 0"));
  CHECK_THROWS_WITH(x[tensor({2})], ContainsSubstring("index"));
}

TEST_CASE("indexing has derivatives of any order") {
  const Tensor x = rand({3, 4, 2}, {.dtype = kFloat64, .requires_grad = true});
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor picked = in[0]({Slice(None, None, -2), tensor({1, 1, 3}), None, -1});
    return std::vector<Tensor>{picked * picked * picked};
  };
  CHECK_NOTHROW(gradcheck(f, {x}));
  CHECK_NOTHROW(gradgradcheck(f, {x}));
}

TEST_CASE("a position that is a tensor without dimensions counts as a number") {
  const Tensor x = numbers({2, 3, 4}), one = tensor(1), last = tensor(-1).to(kInt32);
  CHECK(values(x({one, 0})) == List{12, 13, 14, 15});
  CHECK(values(x({0, last, Slice(1, 3)})) == List{9, 10});
  // It stands beside no other tensor, so the dimension of these stays where it is.
  const Tensor two = tensor({0, 3});
  CHECK(to_string(x({one, Slice(0, 3), two}).shape()) == "[3, 2]");
  CHECK(values(x({one, Slice(1, 2), two})) == List{16, 19});
  CHECK(to_string(x({two.slice(0, 0, 1), Slice(), one}).shape()) == "[1, 3]");
  const Tensor written = x.clone();
  written[one].zero_();  // a view
  CHECK(values(written[1]) == List(12, 0));
  CHECK(values(written[0]) == values(x[0]));
  const Tensor planned = zeros({2, 3}, {.device = kMeta});
  CHECK(planned({zeros({}, {.dtype = kInt64, .device = kMeta})}).shape() == Shape{3});
  CHECK_THROWS_WITH(x({tensor(2)}), ContainsSubstring("2"));
  CHECK_THROWS_WITH(x({tensor(1.0)}), ContainsSubstring("index: a position is float32"));
}
