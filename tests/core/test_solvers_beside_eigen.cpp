// Solvers beside Eigen's, on matrices that are hard: what is left of a solution, and of a
// factorisation, is no larger than Eigen leaves, in units of the roundings that it is made of.
// Eigen computes in float64 whichever our type is: its code for float32 would be half of this
// file's compile time, and its roundings are as many.
#if __has_include(<Eigen/Dense>)
#include <cmath>
#include <map>
#include <string>

#include "support/arrays.h"
#include "support/catch.h"
#include <Eigen/Dense>

#include <hero/core/functions/linalg.h>

namespace {

using namespace hero;
using namespace hero::core;

using Wide = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Array array_of(const Wide& m, DType dtype) {
  const std::vector<double> values(m.data(), m.data() + m.size());
  return Array::from(values, {m.rows(), m.cols()}).to(dtype);
}

Wide wide_of(const Array& a) {
  const std::vector<double> values = a.to_vector<double>();
  const int64_t rows = a.size(0), columns = a.ndim() == 2 ? a.size(1) : 1;
  return Eigen::Map<const Wide>(values.data(), rows, columns);
}

// Those of analysis books, with their names.
std::map<std::string, Wide> hard_matrices(int n) {
  std::map<std::string, Wide> all;
  std::srand(7);
  const Wide random = Wide::Random(n, n);
  all["random"] = random;
  all["Hilbert"] =
      Wide::NullaryExpr(n, n, [](auto i, auto j) { return 1.0 / static_cast<double>(i + j + 1); });
  // Elements of partial pivoting double with each column.
  all["Wilkinson's growth"] = Wide::NullaryExpr(n, n, [n](auto i, auto j) {
    return i == j || j == n - 1 ? 1.0 : i > j ? -1.0 : 0.0;
  });
  all["Kahan"] = Wide::NullaryExpr(n, n, [](auto i, auto j) {
    const double s = std::pow(std::sin(1.2), static_cast<double>(i));
    return i == j ? s : i < j ? -s * std::cos(1.2) : 0.0;
  });
  all["graded rows"] = random;
  for (int i = 0; i < n; ++i) all["graded rows"].row(i) *= std::pow(10.0, -12.0 * i / n);
  all["graded columns"] = all["graded rows"].transpose();
  const Wide thin = Wide::Random(n, std::max(1, n / 2));
  all["nearly singular"] = thin * thin.transpose() + 1e-6 * Wide::Identity(n, n);
  return all;
}

double roundings(double error, double size, DType dtype) {
  return error / (size * (dtype == kFloat64 ? 0x1p-52 : 0x1p-23));
}

// Ours may be a few times Eigen's, which is often lucky, and some roundings whatever Eigen's is.
void check_no_worse(double ours, double eigens) { CHECK(ours <= 4.0 * eigens + 8.0); }

// A matrix as it is in a type: what it loses by that is no error of a solver.
Wide rounded(const Wide& m, DType dtype) { return wide_of(array_of(m, dtype)); }

// In T, since elimination grows some matrices beyond T and not beyond float64.
template <class T>
Wide solved_by_eigen(const Wide& a, const Wide& b) {
  const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> x =
      a.cast<T>().eval().partialPivLu().solve(b.cast<T>().eval());
  return x.template cast<double>();
}

void solve_beside_eigen(const Wide& wide, DType dtype) {
  const Wide a = rounded(wide, dtype), b = rounded(Wide::Random(a.rows(), 3), dtype);
  const double row = a.cwiseAbs().rowwise().sum().maxCoeff();
  const auto left = [&](const Wide& x) {
    const Wide rest = a * x - b;
    return roundings(rest.cwiseAbs().maxCoeff(), row * x.cwiseAbs().maxCoeff() + 1.0, dtype);
  };
  const Wide ours = wide_of(solve(array_of(a, dtype), array_of(b, dtype)));
  const bool is_wide = dtype == kFloat64;
  check_no_worse(left(ours),
                 left(is_wide ? solved_by_eigen<double>(a, b) : solved_by_eigen<float>(a, b)));
}

// How far the columns of q are from orthonormal.
double turned(const Wide& q) {
  const Wide turn = q.transpose() * q - Wide::Identity(q.cols(), q.cols());
  return turn.cwiseAbs().maxCoeff();
}

void qr_beside_eigen(const Wide& wide, DType dtype) {
  const Wide a = rounded(wide, dtype);
  const auto left = [&](const Wide& q, const Wide& r, DType computed_in) {
    const Wide apart = q * r - a;
    return roundings(apart.cwiseAbs().maxCoeff() / a.cwiseAbs().maxCoeff() + turned(q), 1.0,
                     computed_in);
  };
  const QR found = qr(array_of(a, dtype));
  const Eigen::HouseholderQR<Wide> eigens(a);
  const Wide r = eigens.matrixQR().triangularView<Eigen::Upper>();
  check_no_worse(left(wide_of(found.q), wide_of(found.r), dtype),
                 left(eigens.householderQ(), r, kFloat64));
}

void eigh_beside_eigen(const Wide& wide, DType dtype) {
  const Wide a = rounded((wide + wide.transpose()) / 2.0, dtype);
  const double size = a.cwiseAbs().rowwise().sum().maxCoeff();
  const auto left = [&](const Wide& values, const Wide& vectors, DType computed_in) {
    const Wide rest = a * vectors - vectors * values.col(0).asDiagonal();
    return roundings(rest.cwiseAbs().maxCoeff() / size + turned(vectors), 1.0, computed_in);
  };
  const Eigh found = eigh(array_of(a, dtype));
  const Eigen::SelfAdjointEigenSolver<Wide> eigens(a);
  check_no_worse(left(wide_of(found.values), wide_of(found.vectors), dtype),
                 left(eigens.eigenvalues(), eigens.eigenvectors(), kFloat64));
}

void cholesky_beside_eigen(const Wide& wide, DType dtype) {
  const Wide a = rounded(wide * wide.transpose() + Wide::Identity(wide.rows(), wide.rows()), dtype);
  const auto left = [&](const Wide& l, DType computed_in) {
    const Wide apart = l * l.transpose() - a;
    return roundings(apart.cwiseAbs().maxCoeff(), a.cwiseAbs().maxCoeff(), computed_in);
  };
  check_no_worse(left(wide_of(cholesky(array_of(a, dtype))), dtype),
                 left(a.llt().matrixL(), kFloat64));
}

}  // namespace

TEST_CASE("solvers leave no more than Eigen's of hard matrices") {
  for (const int n : {2, 5, 16, 21, 50, 97}) {
    for (const auto& [name, a] : hard_matrices(n)) {
      INFO(name << " " << n);
      // Of Hilbert's matrix there are no digits left in float32, and solve() may call it singular.
      if (name != "Hilbert") {
        INFO("solve");
        solve_beside_eigen(a, kFloat64);
        if (name != "nearly singular" && name.find("graded") == std::string::npos &&
            (name != "Kahan" || n < 50)) {
          solve_beside_eigen(a, kFloat32);
        }
      }
      INFO("qr, eigh, cholesky");
      qr_beside_eigen(a, kFloat64);
      qr_beside_eigen(a, kFloat32);
      eigh_beside_eigen(a, kFloat64);
      eigh_beside_eigen(a, kFloat32);
      cholesky_beside_eigen(a, kFloat64);
      cholesky_beside_eigen(a, kFloat32);
    }
  }
}
#endif
