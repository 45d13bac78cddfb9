#include <cmath>

#include "support/catch.h"

#include <hero/autograd/ops.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

// In place on clones of x and of what came from a leaf: the values and the gradient of `other`.
template <class InPlace, class Other>
void check_same(const Tensor& x, InPlace&& in_place, Other&& other) {
  const Tensor plain = x.clone();
  CHECK(is_same(in_place(plain), plain));
  CHECK(equal(plain, other(x).to(x.dtype())));
  const Tensor a = x.clone(), b = x.clone();
  a.requires_grad_();
  b.requires_grad_();
  const Tensor written = a * 1.0;
  in_place(written);
  sum(written * x).backward();
  sum(other(b * 1.0) * x).backward();
  // Functions that are constant almost everywhere have none.
  REQUIRE(a.grad().defined() == b.grad().defined());
  if (a.grad().defined()) CHECK(equal(a.grad(), b.grad()));
}

const TensorOptions kDouble{.dtype = kFloat64};

const Tensor& positive() {
  static const Tensor x = tensor({{0.3, 0.7, 0.1}, {0.9, 0.5, 0.2}}, {.dtype = kFloat64});
  return x;
}

}  // namespace

TEST_CASE("elementwise functions in place have the values and gradients of their counterparts") {
  // With gradients where the function has any; without on integers and masks.
  const auto check_form = [](const std::string& name, auto&& in_place, auto&& function) {
    INFO(name);
    const bool whole = name.starts_with("bitwise_") || name == "gcd" || name == "lcm";
    const Tensor floats = name == "acosh" ? positive() + 1.0 : positive();
    const Tensor x = whole ? tensor({{12, -3, 7}, {0, 5, 9}}) : floats;
    const Tensor y = whole ? tensor({{3, 4, 1}, {2, 6, 3}}) : floats.flip({1}) + 0.4;
    if (!whole && function(x.clone().requires_grad_(), y).requires_grad()) {
      return check_same(
          x, [&](const Tensor& t) -> const Tensor& { return in_place(t, y); },
          [&](const Tensor& t) { return function(t, y); });
    }
    const Tensor written = x.clone();
    CHECK(is_same(in_place(written, y), written));
    CHECK(equal(written, function(x, y).to(x.dtype())));
  };
#define HERO_UNARY_IN_PLACE(f)                                                      \
  check_form(                                                                       \
      #f, [](const Tensor& x, const Tensor&) -> const Tensor& { return x.f##_(); }, \
      [](const Tensor& x, const Tensor&) { return hero::f(x); });
#define HERO_BINARY_IN_PLACE(f, a, b)                                                  \
  check_form(                                                                          \
      #f, [](const Tensor& x, const Tensor& y) -> const Tensor& { return x.f##_(y); }, \
      [](const Tensor& x, const Tensor& y) { return hero::f(x, y); });
#define HERO_NUMBER_IN_PLACE(f, a, b)                                                  \
  check_form(                                                                          \
      #f, [](const Tensor& x, const Tensor&) -> const Tensor& { return x.f##_(0.3); }, \
      [](const Tensor& x, const Tensor&) { return hero::f(x, 0.3); });
#include <hero/autograd/ops/elementwise/elementwise_list.h>
}

TEST_CASE("operations of several tensors in place have the values and gradients of theirs") {
  const Tensor x = positive(), y = x.flip({1}) + 0.4;
  const Tensor mask = x > 0.4, index = tensor({{2, 0}, {1, 1}});
  const Tensor src = tensor({{5.0, 6.0}, {7.0, 8.0}}, {.dtype = kFloat64});
#define HERO_SAME(member, call)                                              \
  check_same(                                                                \
      x, [&](const Tensor& t) -> const Tensor& { return t.member##_ call; }, \
      [&](const Tensor& t) { return t.member call; })
  // One line an operation, called twice: in place and not.
  HERO_SAME(clamp, (0.2, 0.6));
  HERO_SAME(clamp, (y - 0.2, y));
  HERO_SAME(logit, (0.2));
  HERO_SAME(copysign, (y - 1.0));
  HERO_SAME(lerp, (y, 0.3));
  HERO_SAME(lerp, (y, x));
  HERO_SAME(addcmul, (y, y, 2.0));
  HERO_SAME(addcdiv, (y, y, 2.0));
  HERO_SAME(masked_fill, (mask, 3));
  HERO_SAME(masked_fill, (mask, tensor(3.0)));
  HERO_SAME(tril, (0));
  HERO_SAME(triu, (1));
  HERO_SAME(cumsum, (1));
  HERO_SAME(cumprod, (1));
  HERO_SAME(scatter, (1, index, src));
  HERO_SAME(scatter_add, (1, index, src));
  HERO_SAME(index_add, (1, tensor({0, 2}), src, 0.5));
  HERO_SAME(index_put, ({tensor({0, 1})}, y));
  HERO_SAME(scatter, (1, index, 3));
  HERO_SAME(scatter_reduce, (1, index, src, ScatterReduce::prod));
  HERO_SAME(scatter_reduce, (1, index, src, ScatterReduce::mean, false));
  HERO_SAME(masked_scatter, (mask, y));
  HERO_SAME(put, (tensor({5, 0, -2}), src.flatten().slice(0, 1), true));
  HERO_SAME(index_fill, (1, tensor({2, 0}), 7));
  HERO_SAME(index_fill, (1, tensor({2, 0}), tensor(7.0)));
  HERO_SAME(index_copy, (1, tensor({2, 0}), src));
#undef HERO_SAME
}

TEST_CASE("products are added in place with the values and gradients of their counterparts") {
  const Tensor x = positive(), a = ones({2, 2}, kFloat64) * 0.5, b = positive() + 1.0;
  const Tensor u = tensor({2.0, 3.0}, kDouble), v = tensor({1.0, -1.0, 0.5}, kDouble);
  const AddProduct how{.beta = 0.5, .alpha = 2.0};
  const Tensor stack = unsqueeze(x, 0), left = unsqueeze(a, 0), right = unsqueeze(b, 0);
#define HERO_ADDS(self, member, first, second)                                                 \
  check_same(                                                                                  \
      self, [&](const Tensor& t) -> const Tensor& { return t.member##_(first, second); },      \
      [&](const Tensor& t) { return member(t, first, second); });                              \
  check_same(                                                                                  \
      self, [&](const Tensor& t) -> const Tensor& { return t.member##_(first, second, how); }, \
      [&](const Tensor& t) { return member(t, first, second, how); })
  HERO_ADDS(x, addmm, a, b);
  HERO_ADDS(u, addmv, a, u);
  HERO_ADDS(x, addr, u, v);
  HERO_ADDS(stack, baddbmm, left, right);
  HERO_ADDS(x, addbmm, left, right);
#undef HERO_ADDS
}

TEST_CASE("one operation in place over numbers, infinities and bits") {
  const Tensor x = tensor({std::nan(""), -HUGE_VAL, 1.5}, kDouble);
  CHECK(equal(x.clone().nan_to_num_(), nan_to_num(x)));
  CHECK(equal(tensor({1.5, 2.0}, kDouble).acosh_(), acosh(tensor({1.5, 2.0}, kDouble))));
  const Tensor n = tensor({1, 5, -8});
  n.bitwise_left_shift_(tensor({3, 1, 0})).bitwise_right_shift_(tensor({1, 1, 2}));
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{4, 5, -2});
}

TEST_CASE("masks and integers are changed in place") {
  const Tensor m = tensor({true, true, false});
  m.logical_and_(tensor({true, false, true}));
  CHECK(m.to_vector<bool>() == std::vector<bool>{true, false, false});
  m.logical_or_(tensor({false, true, false})).logical_not_();
  CHECK(m.to_vector<bool>() == std::vector<bool>{false, false, true});
  m.logical_xor_(tensor({true, false, true}));
  CHECK(m.to_vector<bool>() == std::vector<bool>{true, false, false});
  const Tensor n = tensor({6, 5, 9});
  n.bitwise_and_(tensor({3, 4, 8})).bitwise_or_(tensor({1, 0, 1}));
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{3, 4, 9});
  n.bitwise_xor_(n).bitwise_not_();
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{-1, -1, -1});
  n.floor_divide_(2);
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{-1, -1, -1});
  CHECK_THROWS_WITH(n.exp_(), ContainsSubstring("exp_: result of float32 cannot be stored"));
}

TEST_CASE("numbers are filled in from tensors and along the diagonal") {
  const Tensor x = zeros({2, 3});
  x.fill_diagonal_(4);
  CHECK(x.to_vector<double>() == std::vector<double>{4, 0, 0, 0, 4, 0});
  x.fill_(tensor(2.5));
  CHECK(sum(x).item() == 15.0);
  const Tensor p = tensor(3.0, {.requires_grad = true});
  const Tensor y = zeros({2, 2});
  y.fill_(p);
  sum(y).backward();
  CHECK(p.grad().item() == 4.0);
  CHECK_THROWS_WITH(x.fill_(ones({2})), ContainsSubstring("without dimensions"));
  CHECK_THROWS_WITH(zeros({3}).expand({2, 3}).exp_(), ContainsSubstring("exp_"));
  CHECK_THROWS_WITH(ones({2}).add(1).tril_(), ContainsSubstring("tril"));
}

TEST_CASE("clamp in place takes one bound alone") {
  CHECK(tensor({-1.0, 2.0}).clamp_(0, {}).to_vector<double>() == std::vector<double>{0, 2});
  CHECK(tensor({-1.0, 2.0}).clamp_({}, 0).to_vector<double>() == std::vector<double>{-1, 0});
}
