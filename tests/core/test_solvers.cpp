// Factors and systems of many sizes and layouts, ill-conditioned, singular and of extreme size.
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.h"
#include "support/matrices.h"

#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/ledger.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

Array wide(const Array& x) { return x.to(kFloat64); }

double epsilon_of(const Array& x) { return x.dtype() == kFloat64 ? 0x1p-52 : 0x1p-23; }

Array definite(int64_t n, DType dtype) {
  const Array x = noise({n, n}, kFloat64, 5);
  return map<kernels::Add>(matmul(x, x.t()), identity(n)).to(dtype);
}

// Largest sum of a row's magnitudes.
double norm_of(const Array& a) {
  double largest = 0.0;
  for (int64_t i = 0; i < a.size(0); ++i) {
    double sum = 0.0;
    for (const double value : a.select(0, i).to_vector<double>()) sum += std::abs(value);
    largest = std::max(largest, sum);
  }
  return largest;
}

// |a x - b| in units of roundings of what it is made of: a backward error.
double error_of_solution(const Array& a, const Array& x, const Array& b) {
  const double found = apart(matmul(wide(a), wide(x)), b);
  return found / (epsilon_of(a) * (norm_of(wide(a)) * largest_of(wide(x)) + largest_of(wide(b))));
}

const int64_t kSizes[] = {1, 2, 3, 7, 15, 16, 17, 31, 33, 48, 70, 129, 300};

// The same matrix by rows, by columns and with gaps.
std::vector<Array> layouts_of(const Array& a) { return {a, a.t().clone().t(), awkward(a)}; }

TEST_CASE("solve is backward stable in every size and layout", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int64_t n : kSizes) {
      for (const int64_t columns : {1, 3, 17, 150}) {
        const Array b = noise({n, columns}, dtype, 2);
        for (const Array& a : layouts_of(noise({n, n}, dtype))) {
          INFO(name(dtype) << " " << n << " " << columns);
          LU lu;
          const Array x = solve(a, awkward(b), &lu);
          CHECK(error_of_solution(a, x, b) <= 8.0);
          CHECK(error_of_solution(a.t(), solve_factored(lu, b, true), b) <= 8.0);
          CHECK(same(x, solve_factored(lu, b, false)));
        }
      }
    }
  }
}

TEST_CASE("solve of ill-conditioned and badly scaled matrices is backward stable", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array b = noise({40, 3}, dtype, 2);
    const Array hilbert = make(
        {40, 40}, [](int64_t i) { return 1.0 / static_cast<double>(i / 40 + i % 40 + 1); }, dtype);
    CHECK(error_of_solution(hilbert, solve(hilbert, b), b) <= 8.0);
    const Array steps = make(
        {40, 1}, [](int64_t i) { return std::pow(10.0, -static_cast<double>(i) / 2); }, kFloat64);
    const Array graded = map<kernels::Mul>(noise({40, 40}, kFloat64), steps).to(dtype);
    CHECK(error_of_solution(graded.t(), solve(graded.t(), b), b) <= 8.0);
    // A diagonal of zeros: nothing without exchanges.
    const Array holes = noise({40, 40}, dtype);
    backend(kCpu).run(call::Fill{holes.diagonal(), 0});
    CHECK(error_of_solution(holes, solve(holes, b), b) <= 8.0);
  }
}

TEST_CASE("solve exchanges rows as LAPACK does: the first of the largest", "[core]") {
  const Array a = Array::from(std::vector<double>{1, 2, 0, -4, 1, 1, 4, 3, 5}, {3, 3});
  LU lu;
  solve(a, identity(3), &lu);
  CHECK(lu.pivots.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 2});
  CHECK(lu.factors.to_vector<double>() ==
        std::vector<double>{-4, 1, 1, -1, 4, 6, -0.25, 0.5625, -3.125});
}

TEST_CASE("one matrix for many right sides, and many for one", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array a = noise({2, 3, 20, 20}, dtype), b = noise({2, 3, 20, 4}, dtype, 2);
    const Array one = a.select(0, 0).select(0, 0), side = b.select(0, 0).select(0, 0);
    const Array x = solve(one, b), y = solve(a, side), z = solve(a, b);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const auto at = [&](const Array& array) { return array.select(0, i).select(0, j); };
        CHECK(same(at(x).clone(), solve(one, at(b))));
        CHECK(same(at(y).clone(), solve(at(a), side)));
        CHECK(same(at(z).clone(), solve(at(a), at(b))));
      }
    }
    // Batches that broadcast in both directions, of matrices that are there once.
    const Array few = a.slice(1, 0, 1), many = noise({5, 1, 3, 20, 1}, dtype, 7);
    Ledger ledger;
    const LedgerScope scope(ledger);
    const Array broadcast = solve_triangular(few, many, {.upper = true});
    CHECK(ledger.peak() < 2 * few.nbytes());
    CHECK(broadcast.shape() == Shape{5, 2, 3, 20, 1});
    for (int64_t i = 0; i < 2; ++i) {
      CHECK(same(broadcast.select(0, 4).select(0, i).select(0, 2).clone(),
                 solve_triangular(few.select(0, i).select(0, 0),
                                  many.select(0, 4).select(0, 0).select(0, 2), {.upper = true})));
    }
    const Array turned = solve_triangular(a.t(), side, {.upper = true});
    CHECK(same(turned.select(0, 1).select(0, 2).clone(),
               solve_triangular(a.select(0, 1).select(0, 2).t(), side, {.upper = true})));
  }
}

TEST_CASE("singular matrices are refused, and those with NaN give NaN", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int64_t n : {2, 5, 16, 40}) {
      const Array a = noise({n, n}, dtype);
      backend(kCpu).run(call::Fill{a.slice(1, n / 2, n / 2 + 1), 0});
      CHECK(error_of([&] { solve(a, noise({n, 1}, dtype)); }) == "solve: the matrix is singular");
      CHECK(determinant(a).sign.to_vector<double>() == std::vector<double>{0.0});
      CHECK(determinant(a).value.to_vector<double>() == std::vector<double>{0.0});
      CHECK(std::isinf(determinant(a).logabs.to_vector<double>()[0]));
      const Array b = noise({n, n}, dtype);
      backend(kCpu).run(call::Fill{b.slice(0, n - 1).slice(1, 0, 1), std::nan("")});
      CHECK(std::isnan(largest_of(solve(b, noise({n, 1}, dtype)))));
      CHECK(std::isnan(determinant(b).value.to_vector<double>()[0]));
    }
  }
}

TEST_CASE("triangular systems read one triangle", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int64_t n : kSizes) {
      for (const bool upper : {false, true}) {
        for (const bool unit : {false, true}) {
          INFO(name(dtype) << " " << n << (upper ? " upper" : " lower") << (unit ? " unit" : ""));
          const auto element = [&](int64_t i, double other) {
            const int64_t row = i / n, column = i % n;
            if (row == column) return unit ? other : 2.0 + static_cast<double>(row % 3);
            if ((column > row) != upper) return other;
            return std::sin(static_cast<double>(i)) * 4.0 / static_cast<double>(n);
          };
          // NaN where nothing is read.
          const Array a = make(
              {n, n}, [&](int64_t i) { return element(i, std::nan("")); }, dtype);
          Array read = make(
              {n, n}, [&](int64_t i) { return element(i, 0.0); }, dtype);
          if (unit) backend(kCpu).run(call::Fill{read.diagonal(), 1});
          for (const int64_t columns : {1, 5, 70}) {
            const Array b = noise({n, columns}, dtype, 3);
            for (const Array& layout : layouts_of(a)) {
              const Array x = solve_triangular(layout, b, {.upper = upper, .unit = unit});
              CHECK(error_of_solution(read, x, b) <= 4.0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("cholesky reads the lower triangle and multiplies to the matrix", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int64_t n : kSizes) {
      INFO(name(dtype) << " " << n);
      const Array a = definite(n, dtype), lower = a.clone();
      for (int64_t i = 0; i + 1 < n; ++i) {
        backend(kCpu).run(call::Fill{lower.select(0, i).slice(0, i + 1), std::nan("")});
      }
      for (const Array& layout : layouts_of(lower)) {
        const Array l = cholesky(layout);
        CHECK(apart(matmul(wide(l), wide(l).t()), a) <= 4.0 * epsilon_of(a) * norm_of(wide(a)));
        for (int64_t i = 0; i + 1 < n; ++i) {
          CHECK(largest_of(l.select(0, i).slice(0, i + 1)) == 0.0);
        }
      }
      // The last pivot is below zero, or no number.
      for (const double last : {-1.0, 0.0, std::nan(""), double{INFINITY}}) {
        backend(kCpu).run(call::Fill{lower.diagonal().slice(0, n - 1), last});
        CHECK(error_of([&] { cholesky(lower); }) ==
              "cholesky: the matrix is not positive definite");
      }
    }
  }
}

void check_qr(const Array& a) {
  INFO(name(a.dtype()) << " " << to_string(a.shape()));
  const auto found = qr(a);
  const Array q = wide(found.q), r = wide(found.r);
  const double allowed = 4.0 * epsilon_of(a) * static_cast<double>(a.size(0) + a.size(1));
  CHECK(apart(matmul(q.t(), q), identity(q.size(1))) <= allowed);
  CHECK(apart(matmul(q, r), a) <= allowed * largest_of(wide(a)));
  for (int64_t i = 1; i < r.size(0); ++i) {
    CHECK(largest_of(r.select(0, i).slice(0, 0, std::min(i, r.size(1)))) == 0.0);
  }
}

TEST_CASE("qr multiplies to the matrix, with orthonormal columns", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 9}, Shape{9, 1}, Shape{16, 16}, Shape{17, 17},
                               Shape{40, 33}, Shape{33, 40}, Shape{20, 90}, Shape{130, 65}}) {
      for (const Array& layout : layouts_of(noise(shape, dtype))) check_qr(layout);
    }
    check_qr(Array::zeros({20, 18}, dtype));
    check_qr(Array::ones({20, 30}, dtype));
    check_qr(matmul(noise({50, 3}, dtype), noise({3, 40}, dtype, 2)));
    const double tiny = dtype == kFloat64 ? 0x1p-1000 : 0x1p-110;
    const double huge = dtype == kFloat64 ? 0x1p1020 : 0x1p124;
    check_qr(map<kernels::Mul>(noise({40, 30}, kFloat64), huge).to(dtype));
    // Columns keep their digits, however small they are beside others.
    const double small = dtype == kFloat64 ? 1e-160 : 1e-20;
    const Array lengths = Array::from(std::vector<double>{1, small, small * 1e-5, 1e-3}, {1, 4});
    const Array columns = map<kernels::Mul>(noise({9, 4}, kFloat64), lengths).to(dtype);
    const auto found = qr(columns);
    CHECK(apart(map<kernels::Div>(matmul(wide(found.q), wide(found.r)), lengths),
                map<kernels::Div>(wide(columns), lengths)) <= 100.0 * epsilon_of(columns));
    // R of what is 2^-1000 times as large is exactly 2^-1000 times R.
    const Array a = noise({40, 30}, dtype);
    CHECK(same(qr(map<kernels::Mul>(a, tiny)).r, map<kernels::Mul>(qr(a).r, tiny)));
  }
}

TEST_CASE("lstsq leaves a residual orthogonal to the columns", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{9, 1}, Shape{16, 16}, Shape{40, 33}, Shape{90, 20}}) {
      for (const int64_t sides : {0, 1, 5}) {
        INFO(name(dtype) << " " << to_string(shape) << " " << sides);
        const Array b = noise({shape[0], sides}, dtype, 2);
        for (const Array& a : layouts_of(noise(shape, dtype))) {
          const Array x = lstsq(a, awkward(b));
          CHECK(x.shape() == Shape{shape[1], sides});
          const Array residual = map<kernels::Sub>(wide(b), matmul(wide(a), wide(x)));
          const double size = norm_of(wide(a)) * largest_of(x) + largest_of(b);
          CHECK(largest_of(matmul(wide(a).t(), residual)) <=
                8.0 * epsilon_of(a) * norm_of(wide(a).t()) * size);
        }
      }
    }
    // Columns of very different length, one of which lies almost in the others.
    const Array scales = Array::from(std::vector<double>{1e-3, 1e3, 1.0}, {1, 3});
    const Array a = map<kernels::Mul>(noise({20, 3}, kFloat64), scales).to(dtype);
    const Array x = Array::from(std::vector<double>{1, 2, -3}, {3, 1});
    CHECK(apart(lstsq(a, matmul(wide(a), x).to(dtype)), x) <= 1e7 * epsilon_of(a));
    const auto refuses = [](const Array& matrix) {
      return error_of([&] {
               lstsq(matrix, noise({matrix.size(0), 1}, matrix.dtype()));
             }) == "lstsq: the matrix is without full column rank";
    };
    CHECK(refuses(matmul(noise({30, 4}, dtype), noise({4, 5}, dtype, 2))));
    CHECK(refuses(Array::zeros({3, 2}, dtype)));
    const Array holes = noise({9, 3}, dtype);
    backend(kCpu).run(call::Fill{holes.slice(0, 4, 5), std::nan("")});
    CHECK(refuses(holes));
    const double huge = dtype == kFloat64 ? 0x1p1018 : 0x1p122;
    const Array large = map<kernels::Mul>(noise({9, 4}, kFloat64), huge).to(dtype);
    const Array one = Array::ones({4, 1}, dtype);
    CHECK(apart(lstsq(large, matmul(large, map<kernels::Mul>(one, 0.125))),
                map<kernels::Mul>(one, 0.125)) <= 1e3 * epsilon_of(large));
    // A solution in range, which times the size of the matrix is not.
    const double part = dtype == kFloat64 ? 0x1p-30 : 0x1p-16;
    const Array parts = Array::from(std::vector<double>{1.0, part, 1.0, 1.0}, {1, 4});
    const Array known = Array::from(std::vector<double>{0.125, 0.125 / part, 0.125, 0.125}, {4, 1});
    const Array uneven = map<kernels::Mul>(wide(large), parts).to(dtype);
    const Array solved = wide(lstsq(uneven, matmul(large, map<kernels::Mul>(one, 0.125))));
    CHECK(largest_of(map<kernels::Sub>(map<kernels::Div>(solved, known), wide(one))) <=
          1e3 * epsilon_of(large));
  }
}

void check_eigh(const Array& a) {
  INFO(name(a.dtype()) << " " << to_string(a.shape()));
  const auto found = eigh(a);
  const Array v = wide(found.vectors), values = wide(found.values);
  const int64_t n = a.size(0);
  Array whole = wide(a).clone();
  for (int64_t i = 0; i + 1 < n; ++i) {  // of the lower triangle
    backend(kCpu).run(
        call::Copy{whole.select(1, i).slice(0, i + 1), whole.select(0, i).slice(0, i + 1)});
  }
  const double allowed = 4.0 * epsilon_of(a) * static_cast<double>(2 * n);
  CHECK(apart(matmul(v.t(), v), identity(n)) <= allowed);
  const std::vector<double> list = values.to_vector<double>();
  CHECK(std::is_sorted(list.begin(), list.end()));
  const Array scaled = map<kernels::Mul>(v, values.reshape({1, n}));
  CHECK(apart(matmul(scaled, v.t()), whole) <= allowed * largest_of(values));
}

TEST_CASE("eigh of random, repeated, graded and extreme matrices", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int64_t n : {1, 2, 3, 16, 17, 40, 129}) {
      for (const Array& layout : layouts_of(noise({n, n}, dtype))) check_eigh(layout);
    }
    check_eigh(Array::zeros({5, 5}, dtype));
    check_eigh(Array::ones({30, 30}, dtype));
    check_eigh(identity(20, dtype));
    check_eigh(definite(50, dtype));
    Array swaps = Array::zeros({6, 6}, dtype);
    backend(kCpu).run(call::Fill{swaps.slice(0, 3).slice(1, 0, 3).diagonal(), 1});
    check_eigh(swaps);
    const Array steps = make(
        {20, 1}, [](int64_t i) { return std::pow(10.0, -static_cast<double>(i)); }, kFloat64);
    const Array graded =
        map<kernels::Mul>(map<kernels::Mul>(definite(20, kFloat64), steps), steps.reshape({1, 20}));
    check_eigh(graded.to(dtype));
    // A block of which squares vanish beside the largest element.
    const double low = dtype == kFloat64 ? 1e-200 : 1e-25;
    check_eigh(Array::from(std::vector<double>{0, low, 0, low, 0, 0, 0, 0, 1}, {3, 3}).to(dtype));
    // Tridiagonal, of elements of all sizes in any order.
    std::minstd_rand draw(1);
    const auto element = [&] {
      const int sign = static_cast<int>(draw() % 3) - 1;
      return sign * std::pow(10.0, -static_cast<double>(draw() % (dtype == kFloat64 ? 250 : 30)));
    };
    for (int i = 0; i < 300; ++i) {
      const Array mixed = Array::zeros({10, 10}, dtype);
      backend(kCpu).run(call::Copy{make(
                                       {10}, [&](int64_t) { return element(); }, dtype),
                                   mixed.diagonal()});
      backend(kCpu).run(call::Copy{make(
                                       {9}, [&](int64_t) { return element(); }, dtype),
                                   mixed.diagonal(-1)});
      check_eigh(mixed);
    }
    const double huge = dtype == kFloat64 ? 0x1p1018 : 0x1p122;
    check_eigh(map<kernels::Mul>(noise({9, 9}, kFloat64), huge).to(dtype));
    const Array a = noise({12, 12}, dtype);
    const double tiny = dtype == kFloat64 ? 0x1p-1000 : 0x1p-100;
    CHECK(same(eigh(map<kernels::Mul>(a, tiny)).vectors, eigh(a).vectors));
    CHECK(same(eigh(map<kernels::Mul>(a, tiny)).values, map<kernels::Mul>(eigh(a).values, tiny)));
  }
}

TEST_CASE("solvers have the same bits at any number of threads", "[core][threads]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array a = noise({300, 300}, dtype), b = noise({300, 280}, dtype, 2);
    const Array symmetric = definite(200, dtype);
    const auto hash_at = [&](int threads) {
      const ThreadLimit limit(threads);
      const auto parts = qr(b);
      const auto found = eigh(symmetric);
      return std::vector{
          hash(solve(a, b)),         hash(inverse(a)),    hash(determinant(a).value),
          hash(cholesky(symmetric)), hash(parts.q),       hash(parts.r),
          hash(found.values),        hash(found.vectors), hash(solve_triangular(a, b, {}))};
    };
    const auto expected = hash_at(1);
    CHECK(hash_at(2) == expected);
    CHECK(hash_at(3) == expected);
  }
}

}  // namespace
