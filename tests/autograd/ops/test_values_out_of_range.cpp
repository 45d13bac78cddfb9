// Values and derivatives that are in range where numbers on the way to them are not, and what
// operations say of numbers that they cannot take.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/ledger.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

using Numbers = std::vector<double>;

void near(const Tensor& found, const Numbers& wanted) {
  const Numbers values = found.detach().to(kFloat64).reshape({-1}).to_vector<double>();
  REQUIRE(values.size() == wanted.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i, values[i], wanted[i]);
    CHECK((values[i] == wanted[i] ||
           std::fabs(values[i] - wanted[i]) <= 2e-5 * std::fabs(wanted[i])));
  }
}

// f(x) and the gradient of its sum.
void check_at(const std::function<Tensor(const Tensor&)>& f, const Numbers& x, const Numbers& value,
              const Numbers& slope, DType dtype = kFloat32) {
  const Tensor at = tensor(x, {.dtype = dtype}).requires_grad_();
  near(f(tensor(x, {.dtype = dtype})), value);
  const Tensor y = f(at);
  near(y, value);
  sum(y).backward();
  near(at.grad(), slope);
}

Tensor doubles(const Numbers& x) { return tensor(x, {.dtype = kFloat64}); }
Tensor running(const Tensor& x) { return cumprod(x, 0); }
Tensor whole(const Tensor& x) { return prod(x); }

}  // namespace

TEST_CASE("products of float32 whose parts are out of range") {
  check_at(whole, {1e30, 1e30, 1e-30, 1e-30}, {1}, {1e-30, 1e-30, 1e30, 1e30});
  check_at(whole, {1e-30, 1e-30, 1e30, 1e30}, {1}, {1e30, 1e30, 1e-30, 1e-30});
  check_at(whole, {1e30, 1e30, 0, 1e-30, 1e-30}, {0}, {0, 0, 1, 0, 0});
  check_at(running, {1e-30, 1e-30, 1e30, 1e30}, {1e-30, 0, 1e-30, 1},
           {1e30 + 2, 1e30 + 1, 1e-30, 1e-30});
}

TEST_CASE("products whose parts are out of range of float64") {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  check_at(whole, {1e200, 1e200, 1e-200, 1e-200}, {1}, {1e-200, 1e-200, 1e200, 1e200}, kFloat64);
  check_at(whole, {1e-200, 1e-200, 1e200, 1e200}, {1}, {1e200, 1e200, 1e-200, 1e-200}, kFloat64);
  check_at(whole, {1e200, -1e200, 0, 1e-300}, {0}, {0, 0, -1e100, 0}, kFloat64);
  check_at(whole, {1e200, 1e200, 1e-300, 0, 0}, {0}, {0, 0, 0, 0, 0}, kFloat64);
  check_at(whole, {1e200, 1e200, 2}, {kInfinite}, {2e200, 2e200, kInfinite}, kFloat64);
  check_at(whole, {1e-200, 1e-200, 2}, {0}, {2e-200, 2e-200, 0}, kFloat64);
  // On the way through denormals digits would be lost.
  check_at(whole, {1e-160, 1e-160, 3e160, 1e160}, {3}, {3e160, 3e160, 1e-160, 3e-160}, kFloat64);
  near(whole(tensor(Numbers{1e-30, 1e-14, 3e30}).to(kFloat32)), {3e-14});
  near(running(doubles({1e200, 1e200, 1e-200, 1e-200})), {1e200, kInfinite, 1e200, 1});
  near(running(doubles({1e-160, 1e-160, 3e160, 1e160})), {1e-160, 1e-320, 3e-160, 3});
  // An infinite factor is one, also beside a product that is too small; beside a zero it is NaN.
  near(whole(doubles({1e-200, 1e-200, kInfinite})), {kInfinite});
  CHECK(std::isnan(whole(doubles({0, 1e300, kInfinite})).item()));
  CHECK(std::isnan(whole(doubles({1e300, NAN, 1e300, 0})).item()));
}

TEST_CASE("products of very many factors, of lines that lie anywhere") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    constexpr int64_t kHalf = 3000;
    const double large = dtype == kFloat32 ? 1e30 : 1e300;
    // Rows that overflow on the way, that underflow, and that do neither.
    const Tensor up = full({kHalf}, large, {.dtype = dtype}), down = 1.0 / up;
    const Tensor one = ones({kHalf}, dtype);
    const Tensor x = stack({cat({up, down}, 0), cat({down, up}, 0), cat({one, one * 1.001}, 0)});
    const double third = std::pow(dtype == kFloat32 ? double{1.001F} : 1.001, kHalf);
    const auto close = [&](const Tensor& found) {
      const Numbers values = found.to(kFloat64).to_vector<double>();
      REQUIRE(values.size() == 3);
      for (const int row : {0, 1}) CHECK(std::fabs(values[row] - 1) < 1e-3);
      CHECK(std::fabs(values[2] - third) < 1e-3 * third);
    };
    const Tensor turned = x.t().contiguous(), apart = stack({x, x}, 2).select(2, 1);
    close(prod(x, 1));
    close(prod(turned, 0));
    close(prod(turned.t(), 1));
    close(prod(apart, 1));
    close(prod(x.reshape({3, 2, kHalf}), {1, 2}));
    close(select(cumprod(x, 1), 1, -1));
    close(select(cumprod(turned, 0), 0, -1));
    close(select(cumprod(apart, 1), 1, -1));
    CHECK(prod(stack({x.slice(0, 0, 1), 1.0 / x.slice(0, 0, 1)})).item() == Approx(1).margin(1e-3));
  }
}

TEST_CASE("the gradient of cumprod ends at the first zero behind a factor") {
  check_at(running, {0, 0, 1e30, 1e30}, {0, 0, 0, 0}, {1, 0, 0, 0});
  check_at(running, {0, 0, 1e200, 1e200}, {0, 0, 0, 0}, {1, 0, 0, 0}, kFloat64);
  check_at(running, {2, 0, 1e200, 1e-200, 0, 1e200, 1e200}, {2, 0, 0, 0, 0, 0, 0},
           {1, 2 + 2e200 + 2, 0, 0, 0, 0, 0}, kFloat64);
  check_at(running, {0, 3, 0, 1e200, 1e200}, {0, 0, 0, 0, 0}, {4, 0, 0, 0, 0}, kFloat64);
}

TEST_CASE("the gradient of norm is in range where the norm is a denormal") {
  const auto length = [](const Tensor& x) { return norm(x, 2.0); };
  const double root = std::sqrt(5.0);
  const Tensor x = tensor(Numbers{1e-40, 2e-40}).to(kFloat32).requires_grad_();
  length(x).backward();
  CHECK(std::fabs(x.grad()[0].item() - 1 / root) < 1e-4);
  CHECK(std::fabs(x.grad()[1].item() - 2 / root) < 1e-4);
  check_at(length, {1.4012984643e-45, 0}, {1.4012984643e-45}, {1, 0});
  check_at(length, {0, 0}, {0}, {0, 0});
  check_at(length, {3, 4}, {5}, {0.6, 0.8});
}

TEST_CASE("cosine_similarity of vectors whose products are out of range") {
  const auto similar = [](const Tensor& x) {
    return cosine_similarity(reshape(x, {1, 2}), full({1, 2}, 1e30, {.dtype = x.dtype()}));
  };
  near(similar(tensor(Numbers{1e30, 1e30}).to(kFloat32)), {1});
  const Tensor x = tensor(Numbers{1e30, 0}).to(kFloat32).requires_grad_();
  const Tensor y = similar(x);
  near(y, {std::sqrt(0.5)});
  y.backward();
  near(x.grad()[1], {std::sqrt(0.5) * 1e-30});
}

TEST_CASE("lp_pool of powers that float32 does not hold") {
  const auto pooled = [](const Tensor& x) { return lp_pool1d(reshape(x, {1, 1, -1}), 3, 2); };
  const double root = std::cbrt(2.0);
  check_at(pooled, {1e-20, 1e-20, 1e20, 1e20}, {root * 1e-20, root * 1e20},
           {root / 2, root / 2, root / 2, root / 2});
  const auto squares = [](const Tensor& x) { return lp_pool1d(reshape(x, {1, 1, -1}), 2, 2); };
  check_at(squares, {3e-30, 4e-30, 3e30, 4e30, 0, 0}, {5e-30, 5e30, 0}, {0.6, 0.8, 0.6, 0.8, 0, 0});
}

TEST_CASE("ctc_loss of no steps, and of targets that are no classes") {
  const Tensor logits =
      log_softmax(arange(18).to(kFloat64).reshape({3, 2, 3}) * 0.1, 2).detach().requires_grad_();
  const auto loss = [&](const std::vector<int64_t>& steps, const std::vector<int64_t>& labels,
                        bool zero_infinity) {
    return ctc_loss(logits, tensor({{1, 2}, {2, 1}}), tensor(steps), tensor(labels),
                    {.reduction = Reduction::none, .zero_infinity = zero_infinity});
  };
  const Tensor none = loss({0, 3}, {0, 2}, false);
  CHECK(none[0].item() == 0.0);
  CHECK(std::isfinite(none[1].item()));
  sum(none).backward();
  CHECK(all(isfinite(logits.grad())).item<bool>());
  CHECK(equal(logits.grad().select(1, 0), zeros({3, 3}, {.dtype = kFloat64})));
  CHECK(loss({0, 3}, {1, 2}, false)[0].item() == HUGE_VAL);
  logits.set_grad({});
  const Tensor some = loss({0, 3}, {1, 2}, true);
  CHECK(some[0].item() == 0.0);
  sum(some).backward();
  CHECK(equal(logits.grad().select(1, 0), zeros({3, 3}, {.dtype = kFloat64})));
  const auto with = [&](const Tensor& targets) {
    return ctc_loss(logits, targets, tensor({3, 3}), tensor({2, 1}));
  };
  CHECK_THROWS_WITH(with(tensor({{1, 7}, {2, 1}})),
                    ContainsSubstring("ctc_loss: target 7 is none of the 3 classes"));
  CHECK_THROWS_WITH(with(tensor({1, -2, 1})),
                    ContainsSubstring("ctc_loss: target -2 is none of the 3 classes"));
  CHECK(std::isfinite(with(tensor({{1, 2}, {2, 7}})).item()));  // beyond its length
}

TEST_CASE("operations whose shapes are known run on meta, and others say their names") {
  const Tensor x = empty({2, 3}, {.device = kMeta}), v = empty({6}, {.device = kMeta});
  const Tensor mask = empty({2, 3}, {.dtype = kBool, .device = kMeta});
  CHECK(masked_scatter(x, mask, v).shape() == Shape{2, 3});
  CHECK(masked_scatter(x, mask, v).device() == kMeta);
  const Tensor written = empty({2, 3}, {.device = kMeta});
  written.masked_scatter_(mask, v);
  CHECK(written.shape() == Shape{2, 3});
  const Tensor counts = histc(x, 5);
  CHECK(counts.shape() == Shape{5});
  CHECK(counts.device() == kMeta);
  const TensorOptions whole_numbers{.dtype = kInt64, .device = kMeta};
  const Tensor logits = empty({4, 2, 3}, {.device = kMeta}), lengths = empty({2}, whole_numbers);
  for (const Shape& targets : {Shape{2, 2}, Shape{3}}) {
    CHECK(ctc_loss(logits, empty(targets, whole_numbers), lengths, lengths).shape() == Shape{});
    CHECK(ctc_loss(logits, empty(targets, whole_numbers), lengths, lengths,
                   {.reduction = Reduction::none})
              .shape() == Shape{2});
  }
  const Tensor index = empty({2}, whole_numbers);
  CHECK_THROWS_WITH(bincount(index), ContainsSubstring("bincount: ") && ContainsSubstring("meta"));
  CHECK_THROWS_WITH(repeat_interleave(x, index, 0),
                    ContainsSubstring("repeat_interleave: ") && ContainsSubstring("meta"));
  CHECK_THROWS_WITH(equal(x, x), ContainsSubstring("equal: ") && ContainsSubstring("meta"));
}

TEST_CASE("convolutions without a bias name what is wrong with x") {
  const auto of = [](const Shape& shape) { return ones(shape, kInt64); };
  CHECK_THROWS_WITH(conv1d(of({1, 1, 4}), of({1, 1, 2}), {}, PaddingWord::valid),
                    ContainsSubstring("conv1d: x is int64; convert it"));
  CHECK_THROWS_WITH(conv2d(of({1, 1, 4, 4}), of({1, 1, 2, 2}), {}, PaddingWord::same),
                    ContainsSubstring("conv2d: x is int64; convert it"));
  CHECK_THROWS_WITH(conv3d(of({1, 1, 4, 4, 4}), of({1, 1, 2, 2, 2}), {}, PaddingWord::valid),
                    ContainsSubstring("conv3d: x is int64; convert it"));
}

TEST_CASE("unravel_index refuses shapes without elements") {
  const Tensor at = tensor({3});
  CHECK_THROWS_WITH(unravel_index(at, {2, -2}), ContainsSubstring("unravel_index: shape [2, -2]"));
  CHECK_THROWS_WITH(unravel_index(at, {2, 0}), ContainsSubstring("has no elements"));
  CHECK(unravel_index(zeros({0}, kInt64), {2, 0}).size() == 2);
  CHECK(unravel_index(at, {2, 2})[0].item<int64_t>() == 1);
}

TEST_CASE("counts and fills take little memory beside their operands") {
  const auto peak_of = [](const std::function<void()>& body) {
    Ledger ledger;
    const LedgerScope scope(ledger);
    body();
    return ledger.peak();
  };
  constexpr int64_t kCount = int64_t{1} << 22;
  const Tensor bytes = zeros({kCount}, kUInt8);
  CHECK(peak_of([&] { CHECK(bincount(bytes)[0].item<int64_t>() == kCount); }) < kCount / 4);
  const Tensor index = tensor({5});
  CHECK(peak_of([&] { (void)index_fill(bytes, 0, index, 7); }) < 4 * kCount);
  const Tensor mask = bytes == 0;
  CHECK(peak_of([&] { bytes.masked_fill_(mask, 3); }) < kCount / 4);
  CHECK(all(bytes == 3).item<bool>());
  // A mask that lies in the same memory is read before anything is written.
  const Tensor flags = tensor({true, true, false, true});
  flags.slice(0, 1).masked_fill_(flags.slice(0, 0, 3), false);
  CHECK(flags.to_vector<bool>() == std::vector<bool>{true, false, false, true});
}
