// Options of operations that came later: splits by tensors, scatter with a rule, losses of logits
// that are not kept, rows that renorm leaves.
#include <cmath>

#include "support/close.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;
using test::check_near, test::waves;

namespace {

const TensorOptions kWide{.dtype = kFloat64};
const double kNaN = std::nan("");

std::vector<int64_t> sizes(const std::vector<Tensor>& parts) {
  std::vector<int64_t> result;
  for (const Tensor& part : parts) result.push_back(part.size(0));
  return result;
}

}  // namespace

TEST_CASE("tensor_split takes its indices, or their number, from a tensor") {
  const Tensor x = arange(6);
  CHECK(sizes(tensor_split(x, tensor({1, 4}))) == std::vector<int64_t>{1, 3, 2});
  CHECK(sizes(x.tensor_split(tensor(4))) == std::vector<int64_t>{2, 2, 1, 1});
  CHECK(sizes(tensor_split(x, tensor({-2}, {.dtype = kInt32}))) == std::vector<int64_t>{4, 2});
  CHECK_THROWS_WITH(tensor_split(x, tensor({1.0})), ContainsSubstring("must be integers"));
  CHECK_THROWS_WITH(tensor_split(x, ones({1, 1}, kInt64)), ContainsSubstring("one or a vector"));
  CHECK_THROWS_WITH(tensor_split(x, zeros({2}, {.dtype = kInt64, .device = kMeta})),
                    ContainsSubstring("are on meta"));
}

TEST_CASE("scatter of a number adds or multiplies") {
  const Tensor index = tensor({{0, 0}, {0, 2}});
  CHECK(scatter(full({3, 2}, 2.0), 0, index, 3.0, ScatterReduce::prod)
            .equal(tensor({{18.0, 6.0}, {2.0, 2.0}, {2.0, 6.0}})));
  const Tensor x = ones({3, 2});
  x.scatter_(0, index, 3.0, ScatterReduce::sum);
  CHECK(x.equal(tensor({{7.0, 4.0}, {1.0, 1.0}, {1.0, 4.0}})));
  CHECK(ones({3}, kInt64)
            .scatter(0, tensor({1, 1}), 5, ScatterReduce::amax)
            .equal(tensor({1, 5, 1})));
  CHECK_THROWS_WITH(scatter(ones({3}, kUInt8), 0, tensor({1}), 300, ScatterReduce::sum),
                    ContainsSubstring("scatter: 300 does not fit uint8"));
}

TEST_CASE("linear_cross_entropy takes probabilities and weights of classes, in chunks too") {
  const Tensor target = softmax(waves({5, 4}, 1.3), 1), classes = tensor({0, 3, -100, 2, 1});
  const Tensor weight = tensor({0.5, 1.0, 2.0, 0.25}, kWide);
  const auto check_loss = [](const Tensor& to, LinearCrossEntropyOptions options,
                             const std::vector<double>& expected) {
    for (const int64_t rows : {1, 2, 100}) {
      const Tensor x = waves({5, 3}, 0.1).requires_grad_(), w = waves({4, 3}, 0.5).requires_grad_();
      const Tensor b = waves({4}, 0.9).requires_grad_();
      options.linear_bias = b;
      options.batch_chunk_size = rows;
      const Tensor loss = linear_cross_entropy(x, w, to, options);
      loss.backward();
      check_near(stack({loss, abs(x.grad()).sum(), abs(w.grad()).sum(), abs(b.grad()).sum()}),
                 expected);
    }
  };
  check_loss(target, {},
             {1.8549686832496064, 1.1488701082430928, 1.126411156600047, 0.22558527321599267});
  check_loss(target, {.weight = weight, .label_smoothing = 0.1},
             {1.8297933757250853, 1.5001306824918512, 1.2504411128244175, 0.5749853654043728});
  check_loss(classes, {.weight = weight},
             {2.0302916236591324, 2.599272844353381, 1.9557687587553636, 1.0464674680373347});
  check_loss(classes, {.weight = weight, .reduction = Reduction::sum, .label_smoothing = 0.1},
             {7.670700576098689, 8.893573182095356, 6.962057825698835, 3.860862800183404});
}

TEST_CASE("linear_cross_entropy of one row, of halves, and what does not fit") {
  const Tensor w = waves({4, 3}, 0.5), target = softmax(waves({5, 4}, 1.3), 1);
  const Tensor x = waves({5, 3}, 0.1);
  CHECK(std::fabs(linear_cross_entropy(x[0], w, target[0]).item() -
                  cross_entropy(linear(x[0], w), target[0]).item()) < 1e-12);
  const Tensor half = linear_cross_entropy(x.to(kBFloat16), w.to(kBFloat16), target.to(kBFloat16));
  CHECK(half.dtype() == kBFloat16);
  CHECK(std::fabs(half.item() - linear_cross_entropy(x, w, target).item()) < 0.05);
  CHECK_THROWS_WITH(linear_cross_entropy(x, w, target.slice(1, 0, 3)),
                    ContainsSubstring("it should be [5, 4]"));
  CHECK_THROWS_WITH(
      linear_cross_entropy(x, w, tensor({0, 1, 2, 3, 0}), {.weight = ones({3}, kWide)}),
      ContainsSubstring("weights of classes should be [4]"));
}

TEST_CASE("renorm leaves rows with NaN, and their gradient") {
  const Tensor x =
      tensor({{1.0, kNaN}, {3.0, 4.0}, {0.1, 0.1}, {0.0, 0.0}}, kWide).requires_grad_();
  const Tensor y = renorm(x, 2.0, 0, 1.0);
  check_near(y, {1.0, kNaN, 0.6, 0.8, 0.1, 0.1, 0.0, 0.0}, 1e-7);
  y.sum().backward();
  check_near(x.grad(), {1, 1, 0.032, -0.024, 1, 1, 1, 1}, 1e-7);
}

TEST_CASE("histc puts what lies on an edge where PyTorch does") {
  const Tensor x = tensor({0.1, 0.3, 0.7, 1.1}, kWide);
  CHECK(histc(x, 3, 0.1, 0.7).equal(tensor({1.0, 1.0, 1.0}, kWide)));
  CHECK(histc(x.to(kFloat32), 3, 0.1, 0.7).equal(tensor({1.0, 1.0, 1.0})));
}
