// Borders at which PyTorch was asked: infinities, empty batches, sizes of 1, numbers without
// dimensions, and dtypes narrower than sums.
#include <cmath>
#include <functional>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

using Values = std::vector<double>;
using Integers = std::vector<int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Values gradient_at(const Tensor& x, const std::function<Tensor(const Tensor&)>& of) {
  const Tensor leaf = x.detach().requires_grad_();
  return grad(sum(of(leaf)), leaf).to_vector<double>();
}

}  // namespace

TEST_CASE("a weight of 1 interpolates to the end itself, however far the beginning is") {
  const Tensor a = tensor({1e8, 1.0, -2.0}), b = tensor({1.0, 3.0, 6.0});
  CHECK(lerp(a, b, 1.0).to_vector<double>() == Values{1, 3, 6});
  CHECK(lerp(a, b, 0.0).to_vector<double>() == Values{1e8, 1, -2});
  CHECK(lerp(a, b, tensor({1.0, 0.75, 0.25})).to_vector<double>() == Values{1, 2.5, 0});
  CHECK(a.clone().lerp_(b, 1.0).to_vector<double>() == Values{1, 3, 6});
  const Tensor half = tensor({1000.0}).to(kFloat16), end = tensor({0.1}).to(kFloat16);
  CHECK(equal(lerp(half, end, 1.0), end));
  const Tensor weight = tensor({1.0, 0.75, 0.25}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor x = a.to(kFloat64).requires_grad_(), y = b.to(kFloat64).requires_grad_();
  CHECK(gradcheck([](const auto& in) { return lerp(in[0], in[1], in[2]); }, {x * 1e-7, y, weight}));
}

TEST_CASE("quantiles between an infinity and a number") {
  CHECK(quantile(tensor({-kInf, 2.0}), 0.5).item() == -kInf);
  CHECK(quantile(tensor({-kInf, 2.0}), 0.3, {.interpolation = Quantile::midpoint}).item() == -kInf);
  CHECK(quantile(tensor({-kInf, 0.0, 2.0}), 0.5).item() == 0.0);
}

TEST_CASE("the greatest of zeros is 0 and not -0") {
  const Tensor zeros_norm = norm(zeros({3}), kInf);
  CHECK_FALSE(std::signbit(zeros_norm.item()));
  CHECK_FALSE(std::signbit(norm(tensor({-0.0, -0.0}), kInf).item()));
  CHECK_FALSE(std::signbit(cdist(ones({1, 2}), ones({1, 2}), kInf).item()));
  CHECK(norm(tensor({-3.0, 2.0}), kInf).item() == 3.0);
}

TEST_CASE("the derivative of logit is infinite at 0 and 1 and NaN outside of them") {
  const Values slopes =
      gradient_at(tensor({0.0, 1.0, 0.5, -1.0, 2.0}), [](const Tensor& x) { return logit(x); });
  CHECK(slopes[0] == kInf);
  CHECK(slopes[1] == kInf);
  CHECK(slopes[2] == 4.0);
  CHECK(std::isnan(slopes[3]));
  CHECK(std::isnan(slopes[4]));
  CHECK(gradient_at(tensor({0.25, 0.5}), [](const Tensor& x) { return x.clone().logit_(); }) ==
        gradient_at(tensor({0.25, 0.5}), [](const Tensor& x) { return logit(x); }));
}

TEST_CASE("of two NaN the first has the gradient of fmax and fmin") {
  const Tensor a = tensor({kNan, 1.0, kNan, 1.0}, {.requires_grad = true});
  const Tensor b = tensor({kNan, kNan, 1.0, 1.0}, {.requires_grad = true});
  for (const Tensor& y : {fmax(a, b), fmin(a, b)}) {
    CHECK(std::isnan(y.to_vector<double>()[0]));
    CHECK(slice(y, 0, 1).to_vector<double>() == Values{1, 1, 1});
    const std::vector<Tensor> slopes = grad({sum(y)}, {a, b});
    CHECK(slopes[0].to_vector<double>() == Values{1, 1, 0, 0.5});
    CHECK(slopes[1].to_vector<double>() == Values{0, 0, 1, 0.5});
  }
}

TEST_CASE("integers far apart are not close") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor a = tensor(Integers{kMost, kLeast, 0, 5, 7}),
               b = tensor(Integers{kLeast, kMost, kLeast, 6, 7});
  CHECK(isclose(a, b).to_vector<bool>() == std::vector<bool>{false, false, false, false, true});
  const Tensor narrow_a = tensor({2147483647, 0}).to(kInt32),
               narrow_b = tensor(Integers{-2147483648LL, -2147483648LL}).to(kInt32);
  CHECK_FALSE(any(isclose(narrow_a, narrow_b)).item<bool>());
  // Their difference is lost in double.
  const Tensor great = tensor(Integers{int64_t{1} << 53}),
               next = tensor(Integers{(int64_t{1} << 53) + 1});
  CHECK_FALSE(allclose(great, next, 0.0, 0.0));
  CHECK(allclose(great, next, 0.0, 1.0));
}

TEST_CASE("slices along a dimension of one are unique") {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).reshape({2, 1, 2});
  for (const bool all_of_it : {true, false}) {
    const UniqueOptions options{.return_inverse = true, .return_counts = true, .dim = 1};
    const Unique found = all_of_it ? unique(x, options) : unique_consecutive(x, options);
    CHECK(equal(found.values, x));
    CHECK(found.inverse.to_vector<int64_t>() == Integers{0});
    CHECK(found.counts.to_vector<int64_t>() == Integers{1});
  }
}

TEST_CASE("products added to narrow integers and bools keep the dtype") {
  for (const DType dtype : {kUInt8, kInt32, kInt64}) {
    const Tensor sum = addbmm(ones({1, 2}, dtype), ones({2, 1, 1}, dtype), ones({2, 1, 2}, dtype));
    CHECK(sum.dtype() == dtype);
    CHECK(sum.to_vector<int64_t>() == Integers{3, 3});
  }
  const Tensor bits = ones({2, 2}, kBool), row = ones({2}, kBool);
  CHECK(addr(bits, row, row, {.beta = 3, .alpha = 2}).dtype() == kBool);
  CHECK(bits.clone().addr_(row, row, {.beta = 3, .alpha = 2}).equal(bits));
}

TEST_CASE("what is added in multiples is widened first") {
  const Tensor bytes = tensor({3, 2, 5}).to(kUInt8), whole = tensor({4, 5, -6}).to(kInt32);
  CHECK(add(whole, bytes, 300).to_vector<int64_t>() == Integers{904, 605, 1494});
  CHECK(sub(whole, bytes, 2).to_vector<int64_t>() == Integers{-2, 1, -16});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = zeros({3}, dtype);
    const Tensor sum = add(x, bytes, -1);
    CHECK(sum.dtype() == dtype);
    CHECK(sum.to_vector<double>() == Values{-3, -2, -5});
    CHECK(x.clone().add_(bytes, -1).to_vector<double>() == Values{-3, -2, -5});
    const Tensor leaf = zeros({3}, dtype).requires_grad_();
    CHECK(leaf.clone().add_(bytes, -1).to_vector<double>() == Values{-3, -2, -5});
  }
  CHECK(add(bytes, ones({3}, kBool), 2).dtype() == kUInt8);
  const Tensor bits = tensor({true, false});
  CHECK(add(bits, bits, 2).dtype() == kBool);
  CHECK_THROWS_WITH(add(bytes, bytes, 0.5), ContainsSubstring("must be an integer"));
}

TEST_CASE("a number has no dimension 5, of medians neither") {
  CHECK(median(tensor(3.0), 0).values.item() == 3.0);
  CHECK_THROWS_WITH(median(tensor(3.0), 5), ContainsSubstring("median: dim out of range: 5"));
  CHECK_THROWS_WITH(nanmedian(tensor(3.0), -2), ContainsSubstring("nanmedian: dim out of range"));
}

TEST_CASE("logspace of integers cuts its ends first, vander of integers is int64") {
  CHECK(logspace(4.3, 1.2, 2, 10.0, {.dtype = kInt32}).to_vector<int64_t>() == Integers{10000, 10});
  CHECK(logspace(4.3, 2.0, 2, 2.0, {.dtype = kUInt8}).to_vector<int64_t>() == Integers{16, 4});
  const Tensor powers = vander(tensor({20}).to(kUInt8), 4, true);
  CHECK(powers.dtype() == kInt64);
  CHECK(powers.to_vector<int64_t>() == Integers{1, 20, 400, 8000});
}

TEST_CASE("one logit without dimensions is a row of one class") {
  const Tensor logit = tensor(5.0, {.requires_grad = true}), first = tensor(0);
  for (const Tensor& loss : {multi_margin_loss(logit, first), multilabel_margin_loss(logit, first),
                             multi_margin_loss(logit, first, Reduction::none),
                             multilabel_margin_loss(logit, first, Reduction::none)}) {
    CHECK(loss.shape() == Shape{});
    CHECK(loss.item() == 0.0);
    CHECK(grad(loss, logit).item() == 0.0);
  }
}

TEST_CASE("a number filled in place has the gradient of what fills it") {
  const Tensor index = tensor({0});
  const Tensor value = tensor(2.0, {.requires_grad = true});
  const Tensor x = tensor(1.0, {.requires_grad = true});
  const Tensor filled = x.clone().index_fill_(0, index, value);
  CHECK(filled.requires_grad());
  CHECK(grad(filled, value).item() == 1.0);
  CHECK(grad(x.clone().index_copy_(0, index, value), value).item() == 1.0);
  // And out of place the result is not the argument itself.
  const Tensor plain = tensor(1.0), none = zeros({0}, kInt64);
  index_fill(plain, 0, none, tensor(7.0)).fill_(9);
  index_copy(plain, 0, index, plain).fill_(9);
  CHECK(plain.item() == 1.0);
}

TEST_CASE("take_along_dim counts negative positions from the end") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  CHECK(take_along_dim(x, tensor({-1, 0}), 0).to_vector<double>() == Values{3, 1});
  CHECK_THROWS_WITH(take_along_dim(x, tensor({-4}), 0), ContainsSubstring("out of range"));
  CHECK_THROWS_WITH(take_along_dim(x, tensor({-1})), ContainsSubstring("out of range"));
}

TEST_CASE("tensordot repeats what has size 1") {
  const Tensor a = tensor({1.0, 2.0}, {.dtype = kFloat64}).reshape({1, 2}).requires_grad_();
  const Tensor b = arange(6, kFloat64).reshape({3, 2}).requires_grad_();
  const Tensor all = tensordot(a, b, Dims{0, 1}, Dims{0, 1});
  CHECK(all.item() == sum(a * b).item());
  CHECK(tensordot(b, a, Dims{0, 1}, Dims{0, 1}).item() == all.item());
  CHECK(gradcheck(
      [](const auto& in) {
        return tensordot(in[0], in[1], Dims{0, 1}, Dims{0, 1});
      },
      {a, b}));
  const Tensor bytes = ones({1, 2}, kUInt8);
  CHECK(tensordot(bytes, ones({3, 2}, kUInt8), Dims{0, 1}, Dims{0, 1}).dtype() == kUInt8);
  CHECK_THROWS_WITH(tensordot(ones({2, 2}), ones({3, 2}), Dims{0}, Dims{0}),
                    ContainsSubstring("sizes differ"));
}

TEST_CASE("a circle that is cut on one side repeats what is left") {
  const Tensor x = arange(1, 6, 1, kFloat64).reshape({1, 1, 5});
  const auto padded = [&x](int64_t before, int64_t after) {
    return pad(x, {before, after}, PadMode::circular).to_vector<double>();
  };
  CHECK(padded(-1, 1) == Values{2, 3, 4, 5, 2});
  CHECK(padded(1, -1) == Values{4, 1, 2, 3, 4});
  CHECK(padded(-2, 3) == Values{3, 4, 5, 3, 4, 5});
  CHECK(padded(-1, -1) == Values{2, 3, 4});
  CHECK(padded(-5, 0).empty());
  CHECK_THROWS_WITH(padded(-4, 2), ContainsSubstring("repeating 2 elements"));
  CHECK_THROWS_WITH(padded(-6, 0), ContainsSubstring("in a frame of -6 and 0 has no size"));
  const Tensor image = arange(16, kFloat64).reshape({1, 1, 4, 4}).requires_grad_();
  CHECK(gradcheck(
      [](const auto& in) {
        return pad(in[0], {-1, 1, 2, -2}, PadMode::circular);
      },
      {image}));
}

TEST_CASE("windows over a batch of no volumes have their shape") {
  const Tensor x = zeros({0, 1, 4, 5, 6}, {.requires_grad = true});
  const Shape pooled{0, 1, 2, 2, 3};
  CHECK(avg_pool3d(x, {2, 2, 2}).shape() == pooled);
  CHECK(max_pool3d(x, {2, 2, 2}).shape() == pooled);
  CHECK(max_pool3d_with_indices(x, {2, 2, 2}).indices.shape() == pooled);
  CHECK(lp_pool3d(x, 2.0, {2, 2, 2}).shape() == pooled);
  CHECK(adaptive_avg_pool3d(x, {3, 2, 5}).shape() == Shape{0, 1, 3, 2, 5});
  CHECK(adaptive_max_pool3d(x, {3, 2, 5}).shape() == Shape{0, 1, 3, 2, 5});
  const Tensor y = conv3d(x, ones({2, 1, 2, 2, 2}), {}, {.stride = {2, 1, 1}});
  CHECK(y.shape() == Shape{0, 2, 2, 4, 5});
  CHECK(grad(sum(y), x).shape() == x.shape());
  CHECK(grad(sum(max_pool3d(x, {2, 2, 2})), x).shape() == x.shape());
}

TEST_CASE("the filling of a scatter_reduce without x has no gradient") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  const Tensor src = tensor({7.0, 7.0, -kInf}, {.requires_grad = true}), index = tensor({0, 0, 1});
  const Tensor y = scatter_reduce(x, 0, index, src, ScatterReduce::amax, false);
  CHECK(y.to_vector<double>() == Values{7, -kInf, 3});
  const std::vector<Tensor> slopes = grad({sum(y)}, {x, src});
  CHECK(slopes[0].to_vector<double>() == Values{0, 0, 1});
  CHECK(slopes[1].to_vector<double>() == Values{0.5, 0.5, 1});
}

TEST_CASE("offsets of bags begin with 0, do not fall and end within the index") {
  const Tensor weight = ones({3, 2}), index = tensor({0, 1, 2});
  const auto of = [&](const Integers& offsets) {
    return embedding_bag(weight, index, {.offsets = tensor(offsets)});
  };
  CHECK(of({0, 3, 3}).shape() == Shape{3, 2});
  CHECK_THROWS_WITH(of({1, 2}), ContainsSubstring("the first offset must be 0: got 1"));
  CHECK_THROWS_WITH(of({0, 2, 1}), ContainsSubstring("offset 1 lies before the one in front"));
  CHECK_THROWS_WITH(of({0, 4}), ContainsSubstring("offset 4 lies behind the end, 3"));
  CHECK_THROWS_WITH(of({-1, 2}), ContainsSubstring("offset -1 lies before"));
}

TEST_CASE("diagonals and choices among one number are memory of their own") {
  const Tensor matrix = zeros({2, 2}), number = tensor(1.0);
  diag(matrix).fill_(7);
  CHECK(sum(matrix).item() == 0.0);
  for (const ValuesIndices& found : {mode(number), median(number, 0), nanmedian(number, 0),
                                     kthvalue(number, 1), max(number, 0), sort(number)}) {
    CHECK(found.values.item() == 1.0);
    found.values.fill_(7);
  }
  CHECK(number.item() == 1.0);
}

TEST_CASE("what a factor of Cholesky makes of a singular matrix has no inverse") {
  const Tensor factor = tensor({{1.0, 0.0}, {2.0, 0.0}});
  CHECK_THROWS_WITH(cholesky_inverse(factor), ContainsSubstring("the matrix is singular"));
  CHECK_THROWS_WITH(cholesky_inverse(ones({2})), ContainsSubstring("needs a matrix"));
  CHECK(cholesky_inverse(tensor({{2.0}})).item() == 0.25);
  CHECK(cholesky_inverse(zeros({0, 0})).shape() == Shape{0, 0});
}

TEST_CASE("windows of padding alone have gradients of zeros") {
  const TensorOptions leaf{.requires_grad = true};
  for (const int64_t inputs : {0, 1, 3}) {
    const Tensor x = ones({1, inputs, 0}, leaf), w = ones({2, inputs, 2}, leaf);
    const Tensor y = conv1d(x, w, {}, {.padding = 1});
    CHECK(y.shape() == Shape{1, 2, 1});
    const std::vector<Tensor> g = grad({sum(y)}, {x, w});
    CHECK((g[0].shape() == x.shape() && g[1].shape() == w.shape()));
    CHECK(sum(abs(g[1])).item() == 0.0);
  }
}
