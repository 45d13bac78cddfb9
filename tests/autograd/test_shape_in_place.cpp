// Members that change a tensor's shape in place, and members beside them.
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("shapes change in place, for all handles, and views keep theirs") {
  const Tensor x = arange(6, kFloat32).reshape({1, 2, 3}), handle = x, view = x.select(1, 0);
  const Tensor values = x.clone();
  CHECK(is_same(x.squeeze_(), x));
  CHECK(handle.shape() == Shape{2, 3});
  CHECK(view.shape() == Shape{1, 3});
  x.unsqueeze_(-1);
  CHECK(x.shape() == Shape{2, 3, 1});
  x.squeeze_(2).t_();
  CHECK(equal(x, values.squeeze().t()));
  x.transpose_(0, 1).swapaxes_(0, 1).swapdims_(0, -1);
  CHECK(equal(x, values.squeeze()));
  view.zero_();  // the same memory
  CHECK(x[0].sum().item<double>() == 0.0);
  CHECK_THROWS_WITH(x.unsqueeze_(5), ContainsSubstring("unsqueeze"));
  CHECK_THROWS_WITH(Tensor().t_(), ContainsSubstring("undefined"));
}

TEST_CASE("shapes that change in place keep history, saved values and retained gradients") {
  const Tensor leaf = arange(6, kFloat64).reshape({2, 3}).clone().requires_grad_();
  CHECK_THROWS_WITH(leaf.t_(), ContainsSubstring("t_: a leaf of shape [2, 3] that requires grad"));
  const Tensor y = leaf * 2.0;
  y.retain_grad();
  const Tensor before = square(y).sum();  // has saved y
  {
    const NoGrad no_grad;
    y.t_();
  }
  CHECK(y.requires_grad());
  const Tensor weights = arange(6, kFloat64).reshape({3, 2});
  ((y * weights).sum() + before).backward();
  CHECK(equal(y.grad(), weights));  // not what `before` adds to the former shape
  CHECK(equal(leaf.grad(), weights.t() * 2.0 + leaf.detach() * 8.0));
}

TEST_CASE("a version is that of the values, not of the shape") {
  const Tensor x = ones({2, 3}, {.requires_grad = true}) * 3.0;
  const Tensor z = square(x);
  x.t_();
  CHECK_NOTHROW(z.sum().backward());
  const Tensor saved = ones({2, 3}, {.requires_grad = true}) * 3.0;
  const Tensor w = square(saved);
  saved.t_();
  {
    const NoGrad no_grad;
    saved.mul_(2.0);
  }
  CHECK_THROWS_WITH(w.sum().backward(), ContainsSubstring("in place"));
}

TEST_CASE("rare functions are members") {
  const Tensor a = tensor({0.5, 1.5, 2.5}), b = tensor({1.0, 2.0, 3.0});
  const Tensor n = tensor({12, 18, 7}), m = tensor({8, 27, 14});
  CHECK(equal(a.i0(), i0(a)));
  CHECK(equal(a.igamma(b), gammainc(a, b)));
  CHECK(equal(a.igammac(b), gammaincc(a, b)));
  CHECK(equal(b.mvlgamma(1), multigammaln(b, 1)));
  CHECK(equal(n.gcd(m), gcd(n, m)));
  CHECK(equal(n.lcm(m), lcm(n, m)));
  CHECK(equal(a.ldexp(b), ldexp(a, b)));
  CHECK(equal(a.logaddexp2(b), logaddexp2(a, b)));
  CHECK(equal(a.frexp().mantissa, frexp(a).mantissa));
  CHECK(equal(a.nextafter(b), nextafter(a, b)));
  CHECK(equal(a.where(a > 1.0, b), where(a > 1.0, a, b)));
  CHECK(equal(a.sum_to_size({1}), a.sum({0}, true)));
  CHECK(equal(a.clone().i0_(), i0(a)));
  CHECK(equal(a.clone().igamma_(b), gammainc(a, b)));
  CHECK(equal(a.clone().igammac_(b), gammaincc(a, b)));
  CHECK(equal(b.clone().mvlgamma_(2), multigammaln(b, 2)));
  CHECK(equal(b.clone().polygamma_(1), polygamma(1, b)));
  CHECK(equal(n.clone().gcd_(m), gcd(n, m)));
  CHECK(equal(n.clone().lcm_(m), lcm(n, m)));
  CHECK(equal(a.clone().ldexp_(b), ldexp(a, b)));
  CHECK(equal(a.clone().nextafter_(b), nextafter(a, b)));
  CHECK(equal(a.clone().heaviside_(b), heaviside(a, b)));
  CHECK(a.nelement() == 3);
  CHECK(a.ndimension() == 1);
}

TEST_CASE("products and matrices are members") {
  const Tensor a = tensor({{2.0, 1.0}, {1.0, 3.0}}), v = tensor({1.0, -1.0});
  const Tensor batch = stack({a, a});
  CHECK(equal(a.addmm(a, a), addmm(a, a, a)));
  CHECK(equal(a.addmm(a, a, {.beta = 2}), addmm(a, a, a, {.beta = 2})));
  CHECK(equal(v.addmv(a, v), addmv(v, a, v)));
  CHECK(equal(a.addr(v, v), addr(a, v, v)));
  CHECK(equal(batch.baddbmm(batch, batch), baddbmm(batch, batch, batch)));
  CHECK(equal(a.addbmm(batch, batch), addbmm(a, batch, batch)));
  CHECK(equal(a.renorm(2.0, 0, 1.0), renorm(a, 2.0, 0, 1.0)));
  CHECK(equal(a.clone().renorm_(2.0, 0, 1.0), renorm(a, 2.0, 0, 1.0)));
  CHECK(equal(a.corrcoef(), corrcoef(a)));
  CHECK(equal(a.det(), det(a)));
  CHECK(equal(a.logdet(), logdet(a)));
  CHECK(equal(a.slogdet().sign, slogdet(a).sign));
  CHECK(equal(a.inverse(), inv(a)));
  CHECK(equal(a.pinverse(), pinv(a)));
  CHECK(equal(a.cholesky(), cholesky(a)));
  CHECK(equal(a.qr().r, qr(a).r));
  CHECK(equal(a.select_scatter(v, 0, 1), select_scatter(a, v, 0, 1)));
  CHECK(equal(a.slice_scatter(v.unsqueeze(0), 0, 1), slice_scatter(a, v.unsqueeze(0), 0, 1)));
  CHECK(equal(a.diagonal_scatter(v), diagonal_scatter(a, v)));
  const Tensor index = tensor({0, 0});
  CHECK(equal(a.index_reduce(0, index, a, ScatterReduce::prod),
              index_reduce(a, 0, index, a, ScatterReduce::prod)));
}

TEST_CASE("draws in place have their distributions") {
  manual_seed(3);
  const Tensor x = empty({20000});
  CHECK(std::fabs(x.log_normal_(0.5, 0.25).log().mean().item<double>() - 0.5) < 0.01);
  x.cauchy_(2.0, 0.5);
  CHECK(std::fabs(x.median().item<double>() - 2.0) < 0.03);
  CHECK(std::fabs((x > 2.5).to(kFloat32).mean().item<double>() - 0.25) < 0.02);
  const Tensor n = empty({20000}, {.dtype = kInt64}).geometric_(0.25);
  CHECK(n.min().item<int64_t>() == 1);
  CHECK(std::fabs(n.to(kFloat32).mean().item<double>() - 4.0) < 0.1);
  CHECK_THROWS_WITH(n.cauchy_(), ContainsSubstring("cauchy_: needs a floating dtype"));
  CHECK_THROWS_WITH(x.geometric_(1.0), ContainsSubstring("geometric_: the probability"));
}
