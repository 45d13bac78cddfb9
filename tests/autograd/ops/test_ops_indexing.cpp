#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;

namespace {

Tensor counting(int64_t rows, int64_t columns) {
  return arange(0.0, static_cast<double>(rows * columns), 1.0, {.dtype = kFloat64})
      .reshape({rows, columns})
      .detach()
      .requires_grad_();
}

Values total_gradient(const Tensor& y, const Tensor& x) {
  return grad(sum(y), x).to_vector<double>();
}

}  // namespace

TEST_CASE("embedding reads rows and gives its padding row no gradient") {
  const Tensor weight = counting(3, 2);
  const Tensor index = tensor({2, 0, 2, 1});
  const Tensor y = embedding(weight, index, -1);
  CHECK(y.to_vector<double>() == Values{4, 5, 0, 1, 4, 5, 2, 3});
  CHECK(total_gradient(y, weight) == Values{1, 1, 1, 1, 0, 0});
  CHECK(total_gradient(embedding(weight, index), weight) == Values{1, 1, 1, 1, 2, 2});
  CHECK(to_string(embedding(weight, tensor({{1, 2}}).to(kInt32)).shape()) == "[1, 2, 2]");
  CHECK_THROWS_WITH(embedding(weight, tensor({3})),
                    ContainsSubstring("index 3 at position [0] is out of range"));
}

TEST_CASE("scatter with equal indices keeps the last value and gives only it a gradient") {
  const Tensor x = counting(1, 3);
  const Tensor src = tensor({10.0, 20.0, 30.0}, {.dtype = kFloat64}).reshape({1, 3}).detach();
  src.requires_grad_();
  const Tensor y = scatter(x, 1, tensor({{0, 0, 2}}), src);
  CHECK(y.to_vector<double>() == Values{20, 1, 30});
  CHECK(total_gradient(y, src) == Values{0, 1, 1});
  CHECK(total_gradient(scatter(x, 1, tensor({{0, 0, 2}}), src), x) == Values{0, 1, 0});
}

TEST_CASE("index and index_put broadcast their indices and count negative ones from the end") {
  const Tensor x = counting(3, 4);
  const std::vector<Tensor> corners = {tensor({0, -1}).unsqueeze(1), tensor({0, -1})};
  CHECK(index(x, corners).to_vector<double>() == Values{0, 3, 8, 11});
  const Tensor marked = index_put(x, corners, tensor(-1.0, {.dtype = kFloat64}));
  CHECK(marked.to_vector<double>() == Values{-1, 1, 2, -1, 4, 5, 6, 7, -1, 9, 10, -1});
  const Tensor rows = index_put(zeros({2, 2}), {tensor({1, 1, 1})}, tensor({1.0, 2.0}), true);
  CHECK(rows.to_vector<double>() == Values{0, 0, 3, 6});
  CHECK_THROWS_WITH(index(x, {tensor({3})}), ContainsSubstring("index: index 3"));
  CHECK_THROWS_WITH(index_put(x, {tensor({0.0})}, x), ContainsSubstring("index 0 is float32"));
}

TEST_CASE("masked_select broadcasts and nonzero lists positions") {
  const Tensor x = counting(2, 2);
  const Tensor mask = tensor({true, false});
  CHECK(masked_select(x, mask).to_vector<double>() == Values{0, 2});
  CHECK(total_gradient(masked_select(x, mask), x) == Values{1, 0, 1, 0});
  CHECK(nonzero(x > 1).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1, 1});
  CHECK(to_string(nonzero(tensor(1.0)).shape()) == "[1, 0]");
  CHECK_THROWS_WITH(masked_select(x, x), ContainsSubstring("masked_select: the mask is float64"));
}

TEST_CASE("as_strided and unfold add the gradients of elements that appear more than once") {
  const Tensor x = counting(1, 5).reshape({5}).detach().requires_grad_();
  CHECK(total_gradient(unfold(x, 0, 3, 1), x) == Values{1, 2, 3, 2, 1});
  const Tensor windows = as_strided(x, {2, 3}, {1, 1}, 1);
  CHECK(windows.to_vector<double>() == Values{1, 2, 3, 2, 3, 4});
  CHECK(total_gradient(windows, x) == Values{0, 1, 2, 2, 1});
  CHECK_THROWS_WITH(as_strided(x, {3, 3}, {2, 1}), ContainsSubstring("reaches beyond"));
}

TEST_CASE("joining and taking apart follow PyTorch at the edges") {
  const Tensor x = counting(2, 2);
  CHECK(to_string(cat({tensor(std::vector<double>{}), x.to(kFloat32)}).shape()) == "[2, 2]");
  CHECK(cat({tensor({1, 2}), tensor({0.5})}).dtype() == kFloat32);
  CHECK(chunk(arange(5), 3).size() == 3);
  CHECK(chunk(arange(4), 3).size() == 2);
  CHECK(split(arange(5), 2).back().numel() == 1);
  CHECK(unbind(zeros({0, 2})).empty());
  // Only one part is used: the rest have the gradient zero.
  CHECK(total_gradient(chunk(x, 2, 1)[1], x) == Values{0, 1, 0, 1});
  CHECK_THROWS_WITH(cat({x, zeros({2, 3, 1})}), ContainsSubstring("cat: shapes differ"));
  CHECK_THROWS_WITH(stack({x, zeros({2, 1})}), ContainsSubstring("stack: shapes differ"));
  CHECK_THROWS_WITH(split(x, std::vector<int64_t>{1, 2}), ContainsSubstring("add up to 3"));
}

TEST_CASE("padding cuts, reflects and replicates") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  CHECK(pad(x, {-1, 2}).to_vector<double>() == Values{2, 3, 0, 0});
  CHECK(pad(x, {2, 1}, PadMode::reflect).to_vector<double>() == Values{3, 2, 1, 2, 3, 2});
  CHECK(pad(x, {2, 1}, PadMode::replicate).to_vector<double>() == Values{1, 1, 1, 2, 3, 3});
  CHECK(pad(x, {-4, 4}).to_vector<double>() == Values{0, 0, 0});
  CHECK_THROWS_WITH(pad(x, {3, 0}, PadMode::reflect), ContainsSubstring("pad: reflecting 3"));
  CHECK_THROWS_WITH(pad(x, {1}), ContainsSubstring("give pairs"));
}

TEST_CASE("moves give the same elements as loops would") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  const auto same = [](const Tensor& y, std::vector<int64_t> values) {
    return y.to_vector<int64_t>() == values;
  };
  CHECK(same(flip(x, {0, 1}), {6, 5, 4, 3, 2, 1}));
  CHECK(same(roll(x, {1}, {1}), {3, 1, 2, 6, 4, 5}));
  CHECK(same(roll(x, {1}, {}), {6, 1, 2, 3, 4, 5}));
  CHECK(same(repeat(tensor({1, 2}), {2, 2}), {1, 2, 1, 2, 1, 2, 1, 2}));
  CHECK(same(repeat_interleave(tensor({1, 2}), 2, 0), {1, 1, 2, 2}));
  CHECK(same(tril(x), {1, 0, 0, 4, 5, 0}));
  CHECK(same(triu(x, 1), {0, 2, 3, 0, 0, 6}));
  CHECK(same(diag(tensor({1, 2}), 1), {0, 1, 0, 0, 0, 2, 0, 0, 0}));
  CHECK(triu(x > 0).dtype() == kBool);
}

TEST_CASE("gradients of a split's parts that lie as the parts do are joined without a copy") {
  const Tensor g = arange(0.0, 12.0, 1.0, {.dtype = kFloat32}).reshape({2, 6});
  const Tensor x = zeros({2, 6}).requires_grad_();
  const std::vector<Tensor> parts = split(x, {1, 3, 2}, 1);
  const std::byte* first = nullptr;
  parts[0].register_hook([&](const Tensor& part) {
    first = part.array().bytes();
    return Tensor();
  });
  cat(parts, 1).backward(g);
  CHECK(first == g.array().bytes());  // cat gave views of g
  CHECK(x.grad().array().to_vector<float>() == g.array().to_vector<float>());
  CHECK(x.grad().array().bytes() != first);  // the leaf's is its own

  const Tensor y = zeros({2, 6}).requires_grad_();
  const std::vector<Tensor> others = split(y, {3, 3}, 1);
  cat({others[1], others[0]}, 1).backward(g);  // neighbours in another order
  CHECK(y.grad().array().to_vector<float>() ==
        std::vector<float>{3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8});
}

TEST_CASE("an index before the beginning is named as it was given") {
  const Tensor x = counting(1, 3).reshape({3}), before = tensor({1, -4});
  const auto says = ContainsSubstring("index -4 at position [1] is out of range");
  CHECK_THROWS_WITH(index(x, {before}), says);
  CHECK_THROWS_WITH(x[before], says);
  CHECK_THROWS_WITH(index_put(x, {before}, counting(1, 1).reshape({1})), says);
  CHECK_THROWS_WITH(take(x, before), says);
  CHECK_THROWS_WITH(take_along_dim(x, before, 0), says);
  CHECK_THROWS_WITH(index_fill(x, 0, before, 1), says);
}

TEST_CASE("where nothing is written, or all of it, both sides stay in the graph") {
  const Tensor x = tensor(2.0, {.requires_grad = true});
  const Tensor src = tensor({5.0, 6.0}, {.requires_grad = true}), one = tensor(3.0);
  const Tensor row = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor none = tensor({false, false});
  const Tensor kept = masked_scatter(row, none, src);
  CHECK(kept.to_vector<float>() == std::vector<float>{1, 2});
  const auto of = grad({sum(kept * 3.0)}, {row, src});
  CHECK(of[0].to_vector<float>() == std::vector<float>{3, 3});
  CHECK(of[1].to_vector<float>() == std::vector<float>{0, 0});
  CHECK(masked_scatter(row.detach(), none, src).requires_grad());
  CHECK(masked_scatter(row, none, zeros({0})).to_vector<float>() == std::vector<float>{1, 2});
  CHECK(masked_scatter(tensor({true, false}), none, tensor({true})).to_vector<int>() ==
        std::vector<int>{1, 0});
  const Tensor filled = index_fill(x, 0, tensor({0, 0}), one);
  const Tensor copied = index_copy(x, -1, tensor(0), tensor({4.0}));
  CHECK(filled.shape() == Shape{});
  CHECK(filled.item() == 3.0);
  CHECK(copied.shape() == Shape{});
  CHECK(copied.item() == 4.0);
  CHECK(grad(filled, x).item() == 0.0);
  CHECK(grad(copied, x).item() == 0.0);
  const Tensor table = zeros({2, 2}), places = tensor({{0, 1}});
  CHECK_THROWS_WITH(index_copy(table, 0, places, table), ContainsSubstring("must be a vector"));
  CHECK_THROWS_WITH(index_fill(table, 0, places, one), ContainsSubstring("must be a vector"));
  CHECK_THROWS_WITH(index_fill(table, 0, places, 1.0), ContainsSubstring("must be a vector"));
  CHECK_THROWS_WITH(index_copy(x, 0, tensor({0, 0}), tensor({4.0})), ContainsSubstring("does not"));
}

TEST_CASE("indices are looked at where nothing is read, too") {
  const Tensor x = zeros({3, 0}), none = tensor({false, false, false});
  CHECK_THROWS_WITH(x({tensor({3}), Slice()}), ContainsSubstring("out of range"));
  CHECK_THROWS_WITH(x({none, tensor({0})}), ContainsSubstring("size 0"));
  CHECK(x({tensor({-1, 2, 0}), Slice()}).shape() == Shape{3, 0});
}
