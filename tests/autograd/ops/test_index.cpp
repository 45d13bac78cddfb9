#include <cmath>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>

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

TEST_CASE("what indexing reads index_put writes, with gradients of both sides") {
  const Tensor mask = tensor({true, false, true}), rows = tensor({2, 0, 2});
  const std::vector<std::vector<Index>> all = {
      {1},
      {Slice(1), 0},
      {Ellipsis, Slice(None, None, -2)},
      {None, mask, Slice(1, 3)},
      {rows},
      {Slice(), tensor({{0}, {-1}}), rows},
      {tensor({1}), Slice(None, None, 2), rows},
      {true, 0, rows},
      {false, 2},
      {Slice(4)},
      {zeros({0}, {.dtype = kInt64}), Ellipsis},
      {tensor(2), None, Ellipsis, 1},
  };
  const Tensor x = randn({3, 4, 3}, {.dtype = kFloat64, .requires_grad = true});
  const auto put = [](const Tensor& to, const std::vector<Index>& at, const Tensor& values,
                      bool accumulate) {
    if (at.size() == 1) return to.index_put({at[0]}, values, accumulate);
    if (at.size() == 2) return to.index_put({at[0], at[1]}, values, accumulate);
    if (at.size() == 3) return to.index_put({at[0], at[1], at[2]}, values, accumulate);
    return to.index_put({at[0], at[1], at[2], at[3]}, values, accumulate);
  };
  const auto read = [](const Tensor& from, const std::vector<Index>& at) {
    if (at.size() == 1) return from({at[0]});
    if (at.size() == 2) return from({at[0], at[1]});
    if (at.size() == 3) return from({at[0], at[1], at[2]});
    return from({at[0], at[1], at[2], at[3]});
  };
  for (size_t i = 0; i < all.size(); ++i) {
    INFO(i);
    // Where each element comes from, and how often it is written to.
    const Tensor ids = read(numbers(x.shape()), all[i]).reshape({-1});
    const Tensor times = bincount(ids, {}, x.numel()).reshape(x.shape());
    const Tensor values =
        randn(read(x, all[i]).shape(), {.dtype = kFloat64, .requires_grad = true});
    const Tensor sum = put(x, all[i], values, true), replaced = put(x, all[i], values, false);
    CHECK(sum.requires_grad());
    for (int64_t e = 0; e < x.numel(); ++e) {
      double added = 0.0, last = x.reshape({-1})[e].item();
      for (int64_t k = 0; k < ids.numel(); ++k) {
        if (ids[k].item<int64_t>() != e) continue;
        last = values.reshape({-1})[k].item();
        added += last;
      }
      CHECK(std::abs(sum.reshape({-1})[e].item() - x.reshape({-1})[e].item() - added) < 1e-12);
      CHECK(replaced.reshape({-1})[e].item() == last);
    }
    const Tensor kept = grad(replaced.sum(), x, {.allow_unused = true});
    CHECK(equal(kept, (times == 0).to(kFloat64)));
    const Tensor number = put(x, all[i], tensor(0.25).to(kFloat64), false);
    CHECK(number.eq(0.25).sum().item() == (times > 0).sum().item());
    // In place it is the same, with history.
    const Tensor y = x * 1.0;
    if (all[i].size() == 2) {
      y.index_put_({all[i][0], all[i][1]}, values, true);
      CHECK(equal(y, sum));
      CHECK(equal(grad(y.sum(), values), ones_like(values)));
    }
  }
}

TEST_CASE("index_put refuses values that do not fit, and takes numbers of the array's kind") {
  const Tensor x = zeros({2, 3}), whole = zeros({3}, {.dtype = kInt64});
  CHECK_THROWS_WITH(x.index_put_({0}, ones({2})), ContainsSubstring("do not broadcast"));
  CHECK_THROWS_WITH(x.index_put_({Ellipsis, 5}, 1.0), ContainsSubstring("out of range"));
  CHECK_THROWS_WITH(x.index_put_({0}, tensor(1)), ContainsSubstring("values are int64"));
  CHECK_THROWS_WITH(zeros({3}, {.dtype = kUInt8}).index_put_({0}, 256),
                    ContainsSubstring("256 does not fit uint8"));
  CHECK_THROWS_WITH(Tensor().index_put_({0}, 1), ContainsSubstring("undefined"));
  CHECK(values(whole.index_put_({Slice(1)}, 7).index_put_({tensor({1, 1})}, 1, true)) ==
        List{0, 9, 7});
  const Tensor leaf = zeros({2}, {.requires_grad = true});
  CHECK_THROWS_WITH(leaf.index_put_({0}, 1.0), ContainsSubstring("leaf"));
}
