// Singular values of matrices of many shapes, of low rank and of extreme size.
#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/matrices.h"

#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

// |a - u s vh|, and how far u and vh are from orthonormal and s from descending, in units of the
// dtype's rounding and of the largest singular value.
void check_svd(const Array& a) {
  INFO(name(a.dtype()) << " " << to_string(a.shape()));
  const core::SVD found = svd(a);
  const Array u = found.u.to(kFloat64), vh = found.vh.to(kFloat64);
  const std::vector<double> s = found.s.to_vector<double>();
  const int64_t inner = std::min(a.size(0), a.size(1));
  const double epsilon = a.dtype() == kFloat64 ? 0x1p-52 : 0x1p-23;
  // Some roundings in each of at most a dozen sweeps over all pairs of rows.
  const double allowed = 4.0 * epsilon * static_cast<double>(a.size(0) + a.size(1));
  for (size_t i = 0; i < s.size(); ++i) {
    CHECK(s[i] >= 0.0);
    if (i > 0) CHECK(s[i] <= s[i - 1]);
  }
  CHECK(apart(matmul(u.t(), u), identity(inner)) <= allowed);
  CHECK(apart(matmul(vh, vh.t()), identity(inner)) <= allowed);
  const Array scaled = map<kernels::Mul>(u, found.s.to(kFloat64));
  CHECK(apart(matmul(scaled, vh), a) <= allowed * (s.empty() ? 1.0 : s[0]));
}

// Of rank `rank`, or less.
Array low_rank(int64_t rows, int64_t columns, int64_t rank) {
  return matmul(noise({rows, rank}, kFloat64, 3), noise({rank, columns}, kFloat64, 4));
}

Array bidiagonal(const std::vector<double>& diagonal, const std::vector<double>& beside) {
  const auto n = static_cast<int64_t>(diagonal.size());
  const Array out = Array::zeros({n, n}, kFloat64);
  backend(kCpu).run(call::Copy{Array::from(diagonal, {n}), out.diagonal()});
  backend(kCpu).run(call::Copy{Array::from(beside, {n - 1}), out.diagonal(1)});
  return out;
}

TEST_CASE("svd is one: factors multiply to the matrix and are orthonormal", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 7}, Shape{7, 1}, Shape{3, 3}, Shape{17, 16},
                               Shape{9, 40}, Shape{70, 33}, Shape{90, 90}}) {
      check_svd(noise(shape, dtype));
      check_svd(noise(shape, dtype).t());
    }
  }
}

TEST_CASE("svd of matrices without full rank, of repeated and of extreme values", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    check_svd(Array::zeros({4, 6}, dtype));
    check_svd(Array::ones({12, 5}, dtype));
    check_svd(low_rank(30, 20, 3).to(dtype));
    check_svd(low_rank(20, 30, 1).to(dtype));
    check_svd(identity(20).to(dtype));
    Array holes = noise({10, 10}, dtype);
    backend(kCpu).run(call::Fill{holes.slice(0, 3, 5), 0});
    backend(kCpu).run(call::Fill{holes.slice(1, 7, 8), 0});
    check_svd(holes);
    const double tiny = dtype == kFloat64 ? 0x1p-1060 : 0x1p-140;
    const double huge = dtype == kFloat64 ? 0x1p1020 : 0x1p124;
    for (const double scale : {tiny, huge}) {
      const Array a = map<kernels::Mul>(noise({6, 9}, kFloat64), scale).to(dtype);
      const Array s = svd(a).s;
      const Array expected = svd(map<kernels::Div>(a.to(kFloat64), scale)).s;
      const Array found = map<kernels::Div>(s.to(kFloat64), scale);
      // numbers this small have few digits
      CHECK(apart(found, expected) <= (scale == tiny ? 1e-2 : 1e-5));
    }
    // Bidiagonal with zeros on the diagonal, behind which no sweep with a shift goes on.
    for (const Array& gaps : {bidiagonal({2, 2, 2, 0, 1, 2, 2}, {2, 2, 1, 1, 2, 2}),
                              bidiagonal({0, 0, 0, 1, 1, 0, 2, 2}, {0, 1, 0, 2, 2, 2, 2})}) {
      check_svd(gaps.to(dtype));
      check_svd(gaps.to(dtype).t());
    }
    // Rows of lengths from 1 to 1e-30.
    const Array steps = make(
        {16, 1}, [](int64_t i) { return std::pow(10.0, -2.0 * static_cast<double>(i)); }, kFloat64);
    check_svd(map<kernels::Mul>(noise({16, 16}, kFloat64), steps).to(dtype));
  }
}

TEST_CASE("svd has the same bits at any number of threads", "[core][threads]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array a = noise({150, 120}, dtype);
    const auto hash_at = [&](int threads) {
      const ThreadLimit limit(threads);
      const core::SVD found = svd(a);
      return std::vector{hash(found.u), hash(found.s), hash(found.vh)};
    };
    const auto expected = hash_at(1);
    CHECK(hash_at(2) == expected);
    CHECK(hash_at(3) == expected);
  }
}

}  // namespace
