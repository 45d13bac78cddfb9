// Masks as indices, and the corners of indexing and shape operations: single numbers, empty
// tensors, and what must be refused.
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Values = std::vector<double>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid(bool requires_grad = false) {
  const Tensor x = arange(6.0).reshape({2, 3}).detach();
  x.requires_grad_(requires_grad);
  return x;
}

// The places of a mask as numbers, by hand.
std::vector<Tensor> as_numbers(const Tensor& mask) {
  const Tensor places = nonzero(mask);
  std::vector<Tensor> lists;
  for (int i = 0; i < mask.ndim(); ++i) lists.push_back(places.select(1, i));
  return lists;
}

}  // namespace

TEST_CASE("a mask indexes as many dimensions as it has") {
  const Tensor x = grid(), first = tensor({true, false}), both = tensor({true, true});
  const Tensor rows = index(x, {first});
  CHECK(rows.shape() == Shape{1, 3});
  CHECK(rows.to_vector<double>() == Values{0, 1, 2});
  const Tensor whole = tensor({{true, false, true}, {false, false, true}});
  CHECK(index(x, {whole}).to_vector<double>() == Values{0, 2, 5});
  CHECK(index(x, {tensor({false, false})}).shape() == Shape{0, 3});
  // Beside numbers and other masks, with which its places broadcast.
  CHECK(index(x, {first, tensor({2})}).to_vector<double>() == Values{2});
  CHECK(index(x, {first, tensor({2, 0})}).to_vector<double>() == Values{2, 0});
  CHECK(index(x, {first, tensor(1)}).to_vector<double>() == Values{1});
  CHECK(index(x, {both, tensor({2, 0})}).to_vector<double>() == Values{2, 3});
  CHECK(index(x, {both, tensor({true, false, true})}).to_vector<double>() == Values{0, 5});
  CHECK(index(x, {tensor({0, 1}), tensor({true, false, true})}).to_vector<double>() ==
        Values{0, 5});
}

TEST_CASE("a mask stands for the list of its places, in values and in gradients") {
  manual_seed(5);
  const Tensor x = randn({3, 4, 5}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor one = bernoulli(full({3}, 0.6)).to(kBool),
               two = bernoulli(full({3, 4}, 0.5)).to(kBool),
               three = bernoulli(full({3, 4, 5}, 0.5)).to(kBool);
  for (const Tensor& mask : {one, two, three}) {
    const Tensor a = index(x, {mask}), b = index(x, as_numbers(mask));
    CHECK(equal(a, b));
    CHECK(equal(grad(sum(square(a)), x), grad(sum(square(b)), x)));
    const Tensor values = randn(a.shape(), {.dtype = kFloat64});
    for (const bool accumulate : {false, true}) {
      CHECK(equal(index_put(x, {mask}, values, accumulate),
                  index_put(x, as_numbers(mask), values, accumulate)));
    }
  }
}

TEST_CASE("index_put writes where a mask is true") {
  const Tensor first = tensor({true, false}), nine = tensor(9.0);
  CHECK(index_put(grid(), {first}, nine).to_vector<double>() == Values{9, 9, 9, 3, 4, 5});
  CHECK(index_put(grid(), {first}, tensor({7.0, 8.0, 9.0})).to_vector<double>() ==
        Values{7, 8, 9, 3, 4, 5});
  CHECK(index_put(grid(), {first, tensor({2})}, nine).to_vector<double>() ==
        Values{0, 1, 9, 3, 4, 5});
  CHECK(index_put(grid(), {tensor({true, true}), tensor({1, 1})}, tensor({9.0, 10.0}), true)
            .to_vector<double>() == Values{0, 10, 2, 3, 14, 5});
  const Tensor x = grid(true), value = tensor(9.0, {.requires_grad = true});
  sum(index_put(x, {first}, value)).backward();
  CHECK(x.grad().to_vector<double>() == Values{0, 0, 0, 1, 1, 1});
  CHECK(value.grad().item() == 3);
}

TEST_CASE("masks of another shape, without dimensions or too many are refused") {
  const Tensor x = grid();
  CHECK_THROWS_WITH(index(x, {tensor({true})}), ContainsSubstring("mask of shape [1]"));
  CHECK_THROWS_WITH(index(x, {tensor({true, true, true})}),
                    ContainsSubstring("does not fit dim 0"));
  CHECK_THROWS_WITH(index(x, {tensor({0, 1}), tensor({true, true})}),
                    ContainsSubstring("does not fit dim 1"));
  CHECK_THROWS_WITH(index(x, {tensor(true)}), ContainsSubstring("mask of shape []"));
  CHECK_THROWS_WITH(index(x, {ones({2, 3, 1}, {.dtype = kBool})}),
                    ContainsSubstring("does not fit"));
  CHECK_THROWS_WITH(index(x, {tensor({1, 0}, {.dtype = kUInt8})}),
                    ContainsSubstring("int64, int32 or bool"));
}

TEST_CASE("gather and scatter take single numbers beside lines") {
  const Tensor five = tensor(5.0), line = tensor({5.0, 6.0});
  CHECK(gather(five, 0, tensor({0})).shape() == Shape{1});
  CHECK(gather(five, 0, tensor({0, 0})).to_vector<double>() == Values{5, 5});
  CHECK(gather(five, 0, tensor(0)).shape() == Shape{});
  CHECK(gather(line, 0, tensor(1)).shape() == Shape{});
  CHECK(gather(line, 0, tensor(1)).item() == 6);
  CHECK(scatter(five, 0, tensor({0}), tensor({1.0})).shape() == Shape{});
  CHECK(scatter(five, 0, tensor({0, 0}), tensor({1.0, 2.0})).item() == 2);
  CHECK(scatter(line, 0, tensor(1), tensor(1.0)).to_vector<double>() == Values{5, 1});
  CHECK(scatter(line, 0, tensor({1}), tensor(1.0)).to_vector<double>() == Values{5, 1});
  CHECK(scatter_add(five, 0, tensor({0, 0}), tensor({1.0, 1.0})).item() == 7);
  const Tensor leaf = tensor(5.0, {.requires_grad = true});
  sum(gather(leaf, 0, tensor({0, 0}))).backward();
  CHECK(leaf.grad().item() == 2);
  CHECK(leaf.grad().shape() == Shape{});
  CHECK_THROWS_WITH(gather(grid(), 0, tensor(0)), ContainsSubstring("as many dimensions"));
}

TEST_CASE("an index without elements gathers nothing and scatters nothing, whatever its shape") {
  const Tensor x = grid(true);
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 0, 0}, Shape{2, 0}}) {
    for (const DType dtype : {kInt64, kInt32, kUInt8}) {
      const Tensor none = zeros(shape, {.dtype = dtype});
      const Tensor y = gather(x, 0, none);
      CHECK(y.shape() == shape);
      CHECK(y.dtype() == kFloat32);
      CHECK(grad(sum(y), x).to_vector<double>() == Values(6, 0.0));
      CHECK(equal(scatter(x, 0, none, x), x));
      CHECK(equal(scatter_add(x, 1, none, zeros({0})), x));
    }
  }
}

TEST_CASE("narrow counts a negative start from the end") {
  const Tensor x = arange(5);
  CHECK(narrow(x, 0, -3, 2).to_vector<int64_t>() == Integers{2, 3});
  CHECK(narrow(x, 0, -5, 0).numel() == 0);
  CHECK(narrow(x, 0, 5, 0).numel() == 0);
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const auto& [start, length] : std::vector<std::pair<int64_t, int64_t>>{
           {-6, 2}, {-2, 3}, {6, 0}, {0, -1}, {3, most}, {most, 1}, {-most - 1, 1}}) {
    CHECK_THROWS_WITH(narrow(x, 0, start, length), ContainsSubstring("do not lie in dim 0"));
  }
  CHECK_THROWS_WITH(narrow(tensor(5), 0, 0, 1), ContainsSubstring("single number"));
  const Tensor leaf = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  sum(narrow(leaf, 0, -2, 1)).backward();
  CHECK(leaf.grad().to_vector<double>() == Values{0, 1, 0});
}

TEST_CASE("single numbers and empty tensors pass through shape operations") {
  CHECK(topk(tensor(3.0), 0).values.item() == 3);
  CHECK(topk(tensor(3.0), 1).indices.item() == 0);
  CHECK_THROWS_WITH(topk(tensor(3.0), 2), ContainsSubstring("k = 2"));
  CHECK(roll(zeros({0}), {1}, {}).shape() == Shape{0});
  CHECK(roll(zeros({0}), {1}, {0}).shape() == Shape{0});
  CHECK(roll(zeros({0, 3}), {1}, {0}).shape() == Shape{0, 3});
  CHECK(roll(zeros({0, 3}), {1}, {1}).shape() == Shape{0, 3});
  CHECK(roll(zeros({0, 3}), {1}, {}).shape() == Shape{0, 3});
  CHECK(roll(zeros({2, 0, 3}), {1, 2}, {0, 1}).shape() == Shape{2, 0, 3});
  CHECK(roll(tensor(3.0), {1}, {}).item() == 3);
  CHECK(roll(arange(4), {1, 2}, {0, 0}).to_vector<int64_t>() == Integers{1, 2, 3, 0});
  CHECK_THROWS_WITH(roll(tensor(3.0), {1}, {0}), ContainsSubstring("single number has no dim"));
  CHECK_THROWS_WITH(roll(arange(4), {}, {}), ContainsSubstring("0 shifts"));
  CHECK(tensor(3.0).t().item() == 3);
  CHECK(tensor({1.0, 2.0}).t().to_vector<double>() == Values{1, 2});
  CHECK(ones({2, 3}).t().shape() == Shape{3, 2});
  CHECK(unfold(tensor(3.0), 0, 1, 1).shape() == Shape{1});
  CHECK(unfold(tensor(3.0), 0, 0, 1).shape() == Shape{0});
  for (const int64_t step : {0, -1}) {
    CHECK_THROWS_WITH(unfold(tensor(3.0), 0, 1, step), ContainsSubstring("step must be positive"));
  }
  CHECK_THAT(pairwise_distance(tensor(1.0), tensor(2.0)).item(), WithinAbs(1.0, 1e-5));
  CHECK(pairwise_distance(ones({2, 3}), tensor(1.0)).shape() == Shape{2});
  CHECK(pairwise_distance(tensor(1.0), ones({3})).shape() == Shape{});
}

TEST_CASE("a dimension named twice is refused, of a single number too") {
  const Tensor x = tensor(3.0);
  CHECK(sum(x, {0}).item() == 3);
  CHECK(sum(x, {-1}, true).shape() == Shape{});
  CHECK_THROWS_WITH(sum(x, {0, 0}), ContainsSubstring("appears twice"));
  CHECK_THROWS_WITH(sum(x, {0, -1}), ContainsSubstring("appears twice"));
  CHECK_THROWS_WITH(amax(x, {0, 0}), ContainsSubstring("appears twice"));
  CHECK_THROWS_WITH(flip(x, {0, 0}), ContainsSubstring("appears twice"));
  CHECK(flip(x, {0}).item() == 3);
}

TEST_CASE("multi_margin_loss takes one row with or without its dimension") {
  const Tensor row = tensor({0.1, 0.7, 0.2});
  const MultiMarginOptions none{.reduction = Reduction::none};
  CHECK(multi_margin_loss(row, tensor({1}), none).shape() == Shape{1});
  CHECK(multi_margin_loss(row, tensor(1), none).shape() == Shape{});
  CHECK(multi_margin_loss(row.unsqueeze(0), tensor({1}), none).shape() == Shape{1});
  CHECK(multi_margin_loss(row.unsqueeze(0), tensor(1), none).shape() == Shape{});
  CHECK_THAT(multi_margin_loss(row, tensor({1})).item(), WithinAbs((0.4 + 0.5) / 3, 1e-6));
  CHECK_THROWS_WITH(multi_margin_loss(row, tensor({1, 2})), ContainsSubstring("does not fit"));
  CHECK_THROWS_WITH(multi_margin_loss(ones({2, 3}), tensor(1)), ContainsSubstring("does not fit"));
}
