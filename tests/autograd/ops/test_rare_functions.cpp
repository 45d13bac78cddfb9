// Rare functions: dtypes, errors and digits. Their values and derivatives are in the op table and
// in golden/ops_rare.
#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("rare functions take every dtype") {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    INFO(name(dtype));
    const Tensor x = tensor({0.25, 1.5, 9.0}).to(dtype), wide = x.to(kFloat64);
    for (const auto f :
         {i0, i0e, i1, i1e, bessel_j0, bessel_j1, bessel_y0, bessel_y1, erfcx, log_ndtr}) {
      CHECK(f(x).dtype() == dtype);
      // computed in double and rounded: of halves the float32 value once more
      const DType once = dtype == kFloat64 ? kFloat64 : kFloat32;
      CHECK(equal(f(x), f(wide).to(once).to(dtype)));
    }
    CHECK(equal(gammainc(x, x),
                gammainc(wide, wide).to(dtype == kFloat64 ? kFloat64 : kFloat32).to(dtype)));
    CHECK(frexp(x).mantissa.dtype() == dtype);
    CHECK(equal(frexp(x).exponent, tensor({-1, 1, 4}).to(kInt32)));
    CHECK(equal(frexp(x).mantissa, tensor({0.5, 0.75, 0.5625}).to(dtype)));
  }
  for (const DType dtype : {kInt64, kInt32, kUInt8}) {
    const Tensor a = tensor({12, 7, 0}).to(dtype), b = tensor({18, 14, 5}).to(dtype);
    CHECK(i0(a).dtype() == kFloat32);
    CHECK(gcd(a, b).dtype() == dtype);
    CHECK(equal(gcd(a, b), tensor({6, 7, 5}).to(dtype)));
    CHECK(equal(lcm(a, b), tensor({36, 14, 0}).to(dtype)));
  }
  CHECK(equal(gcd(tensor({-12}), tensor({18})), tensor({6})));
  CHECK(gcd(tensor({4}).to(kInt32), tensor({6})).dtype() == kInt64);
}

TEST_CASE("nextafter steps by the digits of the dtype") {
  const double infinity = std::numeric_limits<double>::infinity();
  struct Format {
    DType dtype;
    double epsilon, least, largest;
  };
  for (const Format& f : {Format{kFloat64, 0x1p-52, 0x1p-1074, std::numeric_limits<double>::max()},
                          Format{kFloat32, 0x1p-23, 0x1p-149, 0x1.fffffep127},
                          Format{kBFloat16, 0x1p-7, 0x1p-133, 0x1.fep127},
                          Format{kFloat16, 0x1p-10, 0x1p-24, 65504.0}}) {
    INFO(name(f.dtype));
    const auto next = [&](double x, double y) {
      return nextafter(full({}, x, kFloat64).to(f.dtype), full({}, y, kFloat64).to(f.dtype))
          .item<double>();
    };
    CHECK(next(1.0, 2.0) == 1.0 + f.epsilon);
    CHECK(next(1.0, -2.0) == 1.0 - f.epsilon / 2.0);
    CHECK(next(0.0, -1.0) == -f.least);
    CHECK(next(f.least, 0.0) == 0.0);
    CHECK(next(f.largest, infinity) == infinity);
    CHECK(next(-infinity, 0.0) == -f.largest);
    CHECK(next(3.0, 3.0) == 3.0);
    CHECK(std::isnan(next(1.0, std::nan(""))));
  }
}

TEST_CASE("Bessel functions have their limits") {
  const Tensor x = tensor({0.0, std::numeric_limits<double>::infinity()}).to(kFloat64);
  CHECK(equal(bessel_j0(x), tensor({1.0, 0.0}).to(kFloat64)));
  CHECK(equal(bessel_j1(x), tensor({0.0, 0.0}).to(kFloat64)));
  CHECK(equal(i0e(x), tensor({1.0, 0.0}).to(kFloat64)));
  CHECK(std::isinf(i1(x)[1].item<double>()));
  const Tensor zero = zeros({1}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(grad(sum(i1(zero)), zero).item<double>() == 0.5);
  CHECK(grad(sum(bessel_j1(zero)), zero).item<double>() == 0.5);
}

TEST_CASE("incomplete gamma functions hold for large and small arguments") {
  // mpmath.gammainc(a, x, mpmath.inf, regularized=True)
  const auto upper = [](double a, double x) {
    return gammaincc(full({}, a, kFloat64), full({}, x, kFloat64)).item<double>();
  };
  CHECK(std::fabs(upper(1e10, 1e10) - 0.49999867019239870) < 1e-15);
  CHECK(std::fabs(upper(99.0, 100.0) - 0.44684020491170380) < 1e-15);
  CHECK(std::fabs(upper(1e-10, 0.5) / 5.5977359480549876e-11 - 1.0) < 1e-14);
  CHECK(upper(5.0, 1e40) == 0.0);
}

TEST_CASE("what rare functions refuse") {
  const Tensor x = ones({2}, {.requires_grad = true}), n = tensor({1, 2});
  CHECK_THROWS_WITH(gammainc(x, x), ContainsSubstring("gammainc: has no derivative in its first"));
  CHECK_THROWS_WITH(zeta(x, 2.0), ContainsSubstring("zeta: has no derivative in its first"));
  CHECK_THROWS_WITH(gcd(x, n),
                    ContainsSubstring("gcd: float32 and int64; the operands must be integers"));
  CHECK_THROWS_WITH(lcm(n > 1, n > 1), ContainsSubstring("lcm: bool and bool"));
  CHECK_THROWS_WITH(frexp(n), ContainsSubstring("frexp: x is int64; it must be floating"));
  CHECK_THROWS_WITH(nextafter(n, n), ContainsSubstring("nextafter: x is int64"));
  CHECK_THROWS_WITH(multigammaln(x, 0), ContainsSubstring("multigammaln: the dimension p"));
  CHECK_THROWS_WITH(i0(Tensor()), ContainsSubstring("i0"));
  CHECK_THROWS_WITH(gammainc(ones({2}), ones({3})), ContainsSubstring("gammainc"));
}

TEST_CASE("LU factors: errors, singular matrices and large ones of any shape") {
  CHECK_THROWS_WITH(lu_factor(zeros({2, 2})),
                    ContainsSubstring("lu_factor: the matrix is singular"));
  CHECK_THROWS_WITH(lu_factor(zeros({3, 2, 2})),
                    ContainsSubstring("lu_factor: matrix 0 of the batch"));
  CHECK_THROWS_WITH(lu(ones({2}, kFloat16)), ContainsSubstring("lu: "));
  const LUFactors found = lu_factor(tensor({{1.0, 2.0}, {3.0, 4.0}}));
  CHECK(found.pivots.dtype() == kInt32);
  CHECK(equal(found.pivots, tensor({2, 2}).to(kInt32)));
  CHECK_THROWS_WITH(lu_solve(found.lu, found.pivots, ones({3, 1})),
                    ContainsSubstring("lu_solve: rows differ"));
  CHECK_THROWS_WITH(lu_solve(found.lu, tensor({2, 3}), ones({2, 1})),
                    ContainsSubstring("pivot 3 is not between 1 and 2"));
  CHECK_THROWS_WITH(lu_unpack(found.lu, ones({2})), ContainsSubstring("lu_unpack: pivots of"));
  CHECK(!lu_unpack(found.lu, found.pivots, {.data = false}).l.defined());
  CHECK(std::isinf(cond(tensor({{1.0, 2.0}, {2.0, 4.0}}), MatrixNorm::one).item<double>()));
  for (const Shape& shape : {Shape{70, 70}, Shape{90, 33}, Shape{33, 90}, Shape{9, 3}, Shape{3, 9},
                             Shape{200, 5}, Shape{0, 3}}) {
    INFO(to_string(shape));
    const Tensor a = randn(shape, kFloat64);
    const PLU parts = lu(a);
    CHECK(allclose(matmul(parts.p, matmul(parts.l, parts.u)), a, 1e-12, 1e-12));
    CHECK(equal(parts.l, tril(parts.l)));
    CHECK(equal(parts.u, triu(parts.u)));
    if (a.numel() > 0) CHECK(abs(parts.l).max().item<double>() == 1.0);
  }
}

TEST_CASE("ndtri is NaN outside [0, 1], however close") {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    const double least = dtype == kFloat64 ? 5e-324 : dtype == kFloat32 ? 1e-45 : 1e-40;
    const double above = 1.0 + (dtype == kFloat64 ? 0x1p-52 : dtype == kFloat32 ? 0x1p-23 : 0x1p-7);
    for (const double p : {-1e-20, -1e-16, -least, -0.5, -HUGE_VAL, above, 1.5, HUGE_VAL}) {
      INFO(name(dtype) << " " << p);
      CHECK(std::isnan(ndtri(tensor(p, {.dtype = dtype})).item()));
    }
    CHECK(ndtri(tensor({0.0, -0.0, 1.0}, {.dtype = dtype})).to_vector<double>() ==
          std::vector<double>{-HUGE_VAL, -HUGE_VAL, HUGE_VAL});
    CHECK(std::isfinite(ndtri(tensor(least, {.dtype = dtype})).item()));
  }
}

TEST_CASE("Bessel functions of order 1 have their derivatives among denormals") {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    const double least = dtype == kFloat64   ? 5e-324
                         : dtype == kFloat32 ? 0x1p-149
                         : dtype == kFloat16 ? 0x1p-24
                                             : 0x1p-133;
    for (const double size : {least, 3.0 * least, 100.0 * least, 0.0}) {
      for (const double x : {size, -size}) {
        INFO(name(dtype) << " " << x);
        const Tensor at = tensor(x, {.dtype = dtype, .requires_grad = true});
        // I_1' = 1/2 + 3 x^2 / 16, (e^-|x| I_1)' = 1/2 - |x|, J_1' = 1/2 - 3 x^2 / 16, and so on
        const Tensor half = tensor(0.5, {.dtype = dtype});
        const auto slope = [&](const auto& f) { return grad(f(at), at, {.create_graph = true}); };
        const auto close = [&](const Tensor& found, double expected) {
          return std::abs(found.item() - expected) < 1e-3;  // least is 6e-8 of float16
        };
        CHECK(equal(slope(i1), half));
        CHECK(close(slope(i1e), 0.5));
        CHECK(equal(slope(bessel_j1), half));
        CHECK(close(grad(slope(i1), at), 0.0));
        CHECK(close(grad(slope(i1e), at), x > 0 ? -1.0 : x < 0 ? 1.0 : 0.0));
        CHECK(close(grad(slope(bessel_j1), at), 0.0));
      }
    }
  }
}

TEST_CASE("a quotient whose numerator is 0 has the derivative 0 by a denormal denominator") {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    const double least = dtype == kFloat64 ? 5e-324 : 1e-40;
    for (const double y : {least, -least, 1.0, -1.0}) {
      INFO(name(dtype) << " " << y);
      const Tensor b = tensor(y, {.dtype = dtype, .requires_grad = true});
      const Tensor zero = tensor(0.0, {.dtype = dtype, .requires_grad = true});
      const Tensor slope = grad(zero / b, b);
      CHECK(slope.item() == 0.0);
      CHECK(std::signbit(slope.item()));  // -0 / y^2, as PyTorch's
      CHECK(grad(zero / b, b, {.create_graph = true}).item() == 0.0);
      CHECK(grad(div(Scalar(0.0), b), b).item() == 0.0);
    }
  }
}

TEST_CASE("rounding to decimals has the derivative 0, also where its power of ten is infinite") {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    for (const int64_t decimals : {-400, -100, -2, 2, 100, 400}) {
      INFO(name(dtype) << ", " << decimals << " decimals");
      const Tensor x = tensor({1.5, -20.25, 0.0}, {.dtype = dtype, .requires_grad = true});
      const Tensor y = round(x, decimals);
      CHECK(y.requires_grad());
      CHECK(equal(grad(sum(y), x), zeros_like(x)));
      CHECK(allclose(y, round(x.detach(), decimals), 0.0, 0.0, true));
    }
  }
}

TEST_CASE("a number over x has its derivative where squares of x leave the range") {
  const auto slope = [](double number, double at, double g, DType dtype) {
    const Tensor x = tensor(at, {.dtype = dtype, .requires_grad = true});
    const Tensor y = Scalar(number) / x;
    return grad(y, x, {.grad_outputs = {tensor(g, {.dtype = dtype})}}).item();
  };
  const auto near = [](double found, double expected) {
    return std::abs(found - expected) <= 1e-6 * std::abs(expected);  // roundings of float32
  };
  CHECK(near(slope(3e19, 1e20, 1e20, kFloat32), -3e-1));
  CHECK(near(slope(1e20, 1e20, 1.0, kFloat32), -1e-20));
  CHECK(near(slope(1e-20, 1e-22, 1.0, kFloat32), -1e24));
  CHECK(near(slope(1e-30, 1e-30, 1.0, kFloat32), -1e30));
  CHECK(near(slope(1e200, 1e200, 1.0, kFloat64), -1e-200));
  CHECK(slope(1.0, 0.0, 1.0, kFloat32) == -HUGE_VAL);
  CHECK(slope(1.0, HUGE_VAL, 1.0, kFloat32) == 0.0);
  CHECK(slope(2.0, 4.0, 1.0, kFloat32) == -0.125);
}
