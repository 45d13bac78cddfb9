// Members and operators of Tensor, and second ways to call functions: each gives what the function
// of ops.h gives.
#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Pair2 {
  std::string name;
  std::function<Tensor(const Tensor&)> member, function;
};

Tensor sample() { return tensor({{0.5, 0.25, 0.75}, {0.125, 0.875, 0.625}}); }

// The same values, of which NaN may be some.
bool same_values(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  const auto same = [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); };
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
}

void check_all(const std::vector<Pair2>& pairs, const Tensor& x) {
  for (const Pair2& pair : pairs) {
    INFO(pair.name);
    const Tensor a = pair.member(x), b = pair.function(x);
    CHECK(a.dtype() == b.dtype());
    CHECK(a.shape() == b.shape());
    CHECK(same_values(a, b));
  }
}

#define HERO_TEST_MEMBER(name)                                                                     \
  {                                                                                                \
#name, [](const Tensor& x) { return x.name(); }, [](const Tensor& x) { return hero::name(x); } \
  }

// Functions of integers and bools alone.
bool takes_integers(const std::string& name) {
  return name.starts_with("bitwise_") || name == "gcd" || name == "lcm";
}

}  // namespace

TEST_CASE("elementwise functions are members") {
  const Tensor x = sample() * 4.0 - 1.5, y = tensor({{0.75, 0.5, 0.25}, {0.5, 0.25, 0.125}});
  const Tensor m = tensor({{12, -3, 7}, {0, 5, 9}}), n = tensor({{3, 4, 1}, {2, 6, 3}});
  const auto check_member = [&](const std::string& name, auto&& member, auto&& function) {
    const bool whole = takes_integers(name);
    const Tensor second = whole ? n : y;
    check_all({{name, [&](const Tensor& t) { return member(t, second); },
                [&](const Tensor& t) { return function(t, second); }}},
              whole ? m : x);
  };
#define HERO_UNARY(f)                                           \
  check_member(                                                 \
      #f, [](const Tensor& t, const Tensor&) { return t.f(); }, \
      [](const Tensor& t, const Tensor&) { return hero::f(t); });
#define HERO_BINARY(f, a, b)                                       \
  check_member(                                                    \
      #f, [](const Tensor& t, const Tensor& s) { return t.f(s); }, \
      [](const Tensor& t, const Tensor& s) { return hero::f(t, s); });
#define HERO_NUMBER(f, a, b)                                     \
  check_member(                                                  \
      #f, [](const Tensor& t, const Tensor&) { return t.f(3); }, \
      [](const Tensor& t, const Tensor&) { return hero::f(t, 3); });
#include <hero/autograd/ops/elementwise/elementwise_list.h>
}

TEST_CASE("functions of one tensor are members") {
  check_all({HERO_TEST_MEMBER(sum),     HERO_TEST_MEMBER(mean),     HERO_TEST_MEMBER(prod),
             HERO_TEST_MEMBER(amax),    HERO_TEST_MEMBER(amin),     HERO_TEST_MEMBER(any),
             HERO_TEST_MEMBER(all),     HERO_TEST_MEMBER(norm),     HERO_TEST_MEMBER(var),
             HERO_TEST_MEMBER(std),     HERO_TEST_MEMBER(max),      HERO_TEST_MEMBER(min),
             HERO_TEST_MEMBER(argmax),  HERO_TEST_MEMBER(argmin),   HERO_TEST_MEMBER(squeeze),
             HERO_TEST_MEMBER(flatten), HERO_TEST_MEMBER(tril),     HERO_TEST_MEMBER(triu),
             HERO_TEST_MEMBER(argsort), HERO_TEST_MEMBER(diagonal), HERO_TEST_MEMBER(contiguous),
             HERO_TEST_MEMBER(clone),   HERO_TEST_MEMBER(nonzero)},
            sample() * 4.0 - 1.5);
}

#undef HERO_TEST_MEMBER

TEST_CASE("functions with arguments are members") {
  const Tensor y = tensor({{0.75, 0.5, 0.25}, {0.5, 0.25, 0.125}}), mask = y > 0.3;
  const Tensor index = tensor({{0, 2}, {1, 0}});
  const Tensor rows = tensor({1, 0});
  check_all(
      {{"lerp", [&](auto& x) { return x.lerp(y, 0.25).lerp(y, y); },
        [&](auto& x) { return lerp(lerp(x, y, 0.25), y, y); }},
       {"addcmul", [&](auto& x) { return x.addcmul(y, y, 0.5); },
        [&](auto& x) { return addcmul(x, y, y, 0.5); }},
       {"addcdiv", [&](auto& x) { return x.addcdiv(y, y, 0.5); },
        [&](auto& x) { return addcdiv(x, y, y, 0.5); }},
       {"clamp", [&](auto& x) { return x.clamp(0.3, {}); },
        [&](auto& x) { return clamp(x, 0.3, {}); }},
       {"masked_fill", [&](auto& x) { return x.masked_fill(mask, 2.0); },
        [&](auto& x) { return masked_fill(x, mask, 2.0); }},
       {"isclose", [&](auto& x) { return x.isclose(y, 0.5); },
        [&](auto& x) { return isclose(x, y, 0.5); }},
       {"softmax", [&](auto& x) { return x.softmax(-1); }, [&](auto& x) { return softmax(x, -1); }},
       {"log_softmax", [&](auto& x) { return x.log_softmax(0); },
        [&](auto& x) { return log_softmax(x, 0); }},
       {"cumsum", [&](auto& x) { return x.cumsum(1).cumprod(0); },
        [&](auto& x) { return cumprod(cumsum(x, 1), 0); }},
       {"sort", [&](auto& x) { return x.sort(1, true).values; },
        [&](auto& x) { return sort(x, 1, true).values; }},
       {"topk", [&](auto& x) { return x.topk(2).indices; },
        [&](auto& x) { return topk(x, 2).indices; }},
       {"max", [&](auto& x) { return x.max(-1, true).values; },
        [&](auto& x) { return max(x, -1, true).values; }},
       {"argmax", [&](auto& x) { return x.argmax(-1); }, [&](auto& x) { return argmax(x, -1); }},
       {"narrow", [&](auto& x) { return x.narrow(1, 1, 2); },
        [&](auto& x) { return narrow(x, 1, 1, 2); }},
       {"unfold", [&](auto& x) { return x.unfold(1, 2, 1); },
        [&](auto& x) { return unfold(x, 1, 2, 1); }},
       {"flip",
        [&](auto& x) {
          return x.flip(1).flip({0, 1});
        },
        [&](auto& x) {
          return flip(flip(x, {1}), {0, 1});
        }},
       {"roll", [&](auto& x) { return x.roll({1}, {0}); },
        [&](auto& x) { return roll(x, {1}, {0}); }},
       {"repeat",
        [&](auto& x) {
          return x.repeat({2, 1}).repeat_interleave(2, 0);
        },
        [&](auto& x) {
          return repeat_interleave(repeat(x, {2, 1}), 2, 0);
        }},
       {"split", [&](auto& x) { return x.split(1)[1] + x.chunk(2)[0] + x.unbind()[0]; },
        [&](auto& x) { return split(x, 1)[1] + chunk(x, 2)[0] + unbind(x)[0]; }},
       {"gather", [&](auto& x) { return x.gather(1, index); },
        [&](auto& x) { return gather(x, 1, index); }},
       {"scatter", [&](auto& x) { return x.scatter(1, index, y).scatter_add(1, index, y); },
        [&](auto& x) { return scatter_add(scatter(x, 1, index, y), 1, index, y); }},
       {"index_select", [&](auto& x) { return x.index_select(0, rows).index_add(0, rows, y); },
        [&](auto& x) { return index_add(index_select(x, 0, rows), 0, rows, y); }},
       {"index", [&](auto& x) { return x.index({rows}).index_put({rows}, y); },
        [&](auto& x) { return index_put(hero::index(x, {rows}), {rows}, y); }},
       {"masked_select", [&](auto& x) { return x.masked_select(mask); },
        [&](auto& x) { return masked_select(x, mask); }},
       {"mm", [&](auto& x) { return x.mm(y.t()); }, [&](auto& x) { return mm(x, y.t()); }},
       {"dot", [&](auto& x) { return x[0].dot(y[0]).add(x[0].outer(y[0])); },
        [&](auto& x) { return dot(x[0], y[0]) + outer(x[0], y[0]); }}},
      sample());
  CHECK(sample().allclose(sample()));
  CHECK(sample().equal(sample()));
  CHECK(sample().dim() == 2);
}

TEST_CASE("reductions take one dimension, a list or none, as members and functions") {
  const Tensor x = sample();
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && equal(a, b);
  };
  const Dims first{0};
  CHECK(same(x.sum(-1), sum(x, {1})));
  CHECK(same(x.sum(1, true), sum(x, {1}, true)));
  CHECK(same(x.sum({0, 1}), sum(x)));
  CHECK(same(x.sum({}, true), sum(x, {}, true)));
  CHECK(same(x.sum(first), sum(x, first)));
  CHECK(same(sum(x, 1, true), sum(x, {1}, true)));
  CHECK(same(sum(x, size_t{1}), sum(x, {1})));
  CHECK(same(mean(x, -1), x.mean({1})));
  CHECK(same(prod(x, 0), x.prod({0})));
  CHECK(same(amax(x, 0), x.amax(0)));
  CHECK(same(amin(x, 0), x.amin(0)));
  CHECK(same(any(x > 0.7, 1), (x > 0.7).any({1})));
  CHECK(same(all(x > 0.2, 1), (x > 0.2).all(1)));
  CHECK(same(logsumexp(x, 1), logsumexp(x, {1})));
  CHECK(same(x.logsumexp(1), logsumexp(x, {1})));
  CHECK(same(norm(x, 2.0, -1, true), norm(x, 2.0, {1}, true)));
  CHECK(same(x.norm(2.0, -1), norm(x, 2.0, {1})));
}

// PyTorch's second argument of these says whether they are unbiased, ours of other reductions
// keepdim.
template <class T>
concept TakesBool = requires(const T& x) {
  x.var(0, false);
}
|| requires(const T& x) { x.std({0}, false); }
|| requires(const T& x) { var(x, 0, false); }
|| requires(const T& x) { stddev(x, 0, true); };
static_assert(!TakesBool<Tensor>);

TEST_CASE("var and std take dimensions as the other reductions do") {
  const Tensor x = sample();
  const Tensor rows = var(x, {.dims = {1}}), kept = var(x, {.dims = {1}, .keepdim = true});
  const Dims last{1};
  CHECK(equal(var(x, -1), rows));
  CHECK(equal(var(x, {1}), rows));
  CHECK(equal(var(x, last), rows));
  CHECK(equal(x.var(-1), rows));
  CHECK(equal(x.var({0, 1}), var(x)));
  CHECK(equal(x.var({.dims = {1}, .unbiased = false}), var(x, {.dims = {1}, .unbiased = false})));
  CHECK(equal(hero::std(x, -1), sqrt(rows)));
  CHECK(equal(hero::std(x, {0, 1}), x.std()));
  CHECK(equal(x.std({.dims = 1, .keepdim = true}), sqrt(kept)));
  // `std(x)` after `using namespace hero` names the namespace too; these do not
  CHECK(equal(stddev(x), x.std()));
  CHECK(equal(stddev(x, -1), x.std(-1)));
  CHECK(equal(stddev(x, {0, 1}), x.std()));
  CHECK(equal(stddev(x, {.unbiased = false}), x.std({.unbiased = false})));
  std::vector<int> standard;  // and std:: stays what it is
  CHECK(standard.empty());
}

TEST_CASE("compound assignment with tensors and numbers") {
  const Tensor y = tensor({2.0, 4.0});
  Tensor x = tensor({1.0, 2.0});
  const Tensor same = x;
  x += 1;
  CHECK(x.to_vector<double>() == std::vector<double>{2.0, 3.0});
  x += y;
  x -= 1;
  x -= y;
  CHECK(x.to_vector<double>() == std::vector<double>{1.0, 2.0});
  x *= y;
  x *= 2;
  CHECK(x.to_vector<double>() == std::vector<double>{4.0, 16.0});
  x /= y;
  x /= 2;
  CHECK(x.to_vector<double>() == std::vector<double>{1.0, 2.0});
  CHECK(is_same(x, same));

  const Tensor w = tensor({3.0, 5.0}, {.requires_grad = true});
  Tensor z = w * 1.0;
  z *= w;
  z /= y;
  z += 1;
  sum(z).backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{3.0, 2.5});
  CHECK_THROWS_WITH(w += 1, ContainsSubstring("leaf"));
}

TEST_CASE("masks and integers combine bit by bit by operators, floats are refused") {
  const Tensor a = tensor({true, true, false, false}), b = tensor({true, false, true, false});
  CHECK((a & b).to_vector<bool>() == std::vector<bool>{true, false, false, false});
  CHECK((a | b).to_vector<bool>() == std::vector<bool>{true, true, true, false});
  CHECK((a ^ b).to_vector<bool>() == std::vector<bool>{false, true, true, false});
  CHECK((~a).to_vector<bool>() == std::vector<bool>{false, false, true, true});
  CHECK((a & tensor({true})).dtype() == kBool);
  const Tensor n = tensor({1, 2, 3, 4});
  CHECK((n & 1).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1, 0});
  CHECK((n | a).to_vector<int64_t>() == std::vector<int64_t>{1, 3, 3, 4});
  CHECK((n ^ n).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 0});
  CHECK((~n).to_vector<int64_t>() == std::vector<int64_t>{-2, -3, -4, -5});
  CHECK((~n.to(kUInt8)).to_vector<int>() == std::vector<int>{254, 253, 252, 251});
  CHECK((n << 2).to_vector<int64_t>() == std::vector<int64_t>{4, 8, 12, 16});
  CHECK((n >> n).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 0});
  CHECK((a & 3).dtype() == kInt64);
  CHECK_THROWS_WITH(n & ones({4}),
                    "bitwise_and: float32 has no bits to combine; the operands must be integers or "
                    "bool");
  CHECK_THROWS_WITH(n | 0.5, ContainsSubstring("bitwise_or: 0.5 has no bits"));
  CHECK_THROWS_WITH(~ones({1}), ContainsSubstring("bitwise_not: float32"));
  CHECK((n % 3).to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0, 1});
  CHECK((n % tensor({2, 2, 2, 3})).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1, 1});
  CHECK((7 % n).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1, 3});
}

TEST_CASE("shapes, dtypes, devices and numbers go to streams as to_string has them") {
  std::ostringstream text;
  text << zeros({2, 3}).shape() << ' ' << kInt64 << ' ' << kCpu << ' ' << Scalar(2) << ' '
       << Shape{};
  CHECK(text.str() == "[2, 3] int64 cpu 2 []");
}

TEST_CASE("shapes are made of vectors of any integer type, and tensors with a dtype alone") {
  const std::vector<int> ints{2, 3};
  const std::vector<size_t> sizes{4};
  CHECK(Shape(ints) == Shape{2, 3});
  CHECK(zeros(ints).shape() == Shape{2, 3});
  CHECK(zeros(sizes).shape() == Shape{4});
  CHECK(zeros({2}, kInt64).dtype() == kInt64);
  CHECK(ones({2}, kBool).dtype() == kBool);
  CHECK(empty({2}, kFloat16).dtype() == kFloat16);
  CHECK(full({2}, 3, kFloat64).dtype() == kFloat64);
  CHECK(rand({2}, kFloat64).dtype() == kFloat64);
  CHECK(randn({2}, kBFloat16).dtype() == kBFloat16);
  CHECK(arange(3, kInt32).dtype() == kInt32);
  CHECK(arange(0, 3, 1, kFloat64).dtype() == kFloat64);
  CHECK(eye(2, kInt64).dtype() == kInt64);
  CHECK(zeros({2}, {}).dtype() == kFloat32);
}

TEST_CASE("losses take their reduction by position and by name") {
  const Tensor x = tensor({{0.2, 0.7}, {0.4, 0.1}}), y = tensor({{0.5, 0.25}, {1.0, 0.0}});
  const Tensor classes = tensor({1, 0}), signs = tensor({{1.0, -1.0}, {-1.0, 1.0}});
  const Reduction all = Reduction::sum;
  CHECK(equal(mse_loss(x, y, {.reduction = all}), mse_loss(x, y, all)));
  CHECK(equal(l1_loss(x, y, {.reduction = all}), l1_loss(x, y, all)));
  CHECK(equal(soft_margin_loss(x, signs, {.reduction = all}), soft_margin_loss(x, signs, all)));
  CHECK(equal(huber_loss(x, y, {.reduction = all, .delta = 0.5}), huber_loss(x, y, 0.5, all)));
  CHECK(equal(huber_loss(x, y, all, 0.5), huber_loss(x, y, 0.5, all)));
  CHECK(equal(smooth_l1_loss(x, y, {.beta = 0.5}), smooth_l1_loss(x, y, 0.5)));
  CHECK(equal(smooth_l1_loss(x, y, all, 0.5), smooth_l1_loss(x, y, 0.5, all)));
  CHECK(equal(cross_entropy(x, classes, all), cross_entropy(x, classes, {.reduction = all})));
  CHECK(equal(cross_entropy(x, classes, {}), cross_entropy(x, classes)));
  CHECK(equal(nll_loss(x, classes, all), nll_loss(x, classes, {.reduction = all})));
  CHECK(equal(binary_cross_entropy(x, y, all), binary_cross_entropy(x, y, {.reduction = all})));
  const Tensor logits = bce_with_logits(x, y, {}, all);
  CHECK(equal(binary_cross_entropy_with_logits(x, y, all), logits));
  CHECK(equal(bce_with_logits(x, y, {.reduction = all}), logits));
  CHECK(
      equal(multi_margin_loss(x, classes, all), multi_margin_loss(x, classes, {.reduction = all})));
  CHECK(equal(poisson_nll_loss(x, y, all), poisson_nll_loss(x, y, {.reduction = all})));
  CHECK(equal(gaussian_nll_loss(x, y, y + 1.0, all),
              gaussian_nll_loss(x, y, y + 1.0, {.reduction = all})));
  CHECK(equal(triplet_margin_loss(x, y, signs, all),
              triplet_margin_loss(x, y, signs, {.reduction = all})));
  CHECK(equal(hinge_embedding_loss(x, signs, all), hinge_embedding_loss(x, signs, 1.0, all)));
  CHECK(equal(hinge_embedding_loss(x, signs, {.reduction = all}),
              hinge_embedding_loss(x, signs, 1.0, all)));
  CHECK(equal(margin_ranking_loss(x, y, signs, {.margin = 0.5, .reduction = all}),
              margin_ranking_loss(x, y, signs, 0.5, all)));
  const Tensor ends = tensor({1.0, -1.0});
  CHECK(equal(cosine_embedding_loss(x, y, ends, {.reduction = all}),
              cosine_embedding_loss(x, y, ends, 0.0, all)));
  CHECK(equal(kl_div(x, y, {.reduction = KlReduction::batchmean}),
              kl_div(x, y, KlReduction::batchmean)));
}

TEST_CASE("grouped heads without enable_gqa name the flag") {
  const Tensor q = rand({1, 4, 3, 8}), k = rand({1, 2, 3, 8});
  CHECK_THROWS_WITH(scaled_dot_product_attention(q, k, k),
                    ContainsSubstring("enable_gqa") && ContainsSubstring("4 heads"));
  CHECK(scaled_dot_product_attention(q, k, k, {.enable_gqa = true}).shape() == q.shape());
  CHECK(scaled_dot_product_attention(q, k.slice(1, 0, 1), k.slice(1, 0, 1)).shape() == q.shape());
}
