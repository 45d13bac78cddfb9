// Solvers beside Eigen's, on matrices that are hard: what is left of a solution, and of a
// factorisation, is no larger than Eigen leaves, in units of the roundings that it is made of.
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

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Wide = Matrix<double>;

template <class T>
Array array_of(const Matrix<T>& m) {
  return Array::from(std::vector<T>(m.data(), m.data() + m.size()), {m.rows(), m.cols()});
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

template <class T>
void solve_beside_eigen(const Wide& wide, DType dtype) {
  const Matrix<T> a = wide.cast<T>();
  const Matrix<T> b = Matrix<T>::Random(a.rows(), 3);
  const auto left = [&](const Wide& x) {
    const Wide rest = a.template cast<double>() * x - b.template cast<double>();
    const double size = wide.cwiseAbs().rowwise().sum().maxCoeff() * x.cwiseAbs().maxCoeff();
    return roundings(rest.cwiseAbs().maxCoeff(), size + 1.0, dtype);
  };
  const Wide ours = wide_of(solve(array_of<T>(a), array_of<T>(b)));
  const Matrix<T> eigens = a.partialPivLu().solve(b);
  check_no_worse(left(ours), left(eigens.template cast<double>()));
}

template <class T>
void qr_beside_eigen(const Wide& wide, DType dtype) {
  const Matrix<T> a = wide.cast<T>();
  const auto left = [&](const Wide& q, const Wide& r) {
    const Wide apart = q * r - a.template cast<double>(), turn = q.transpose() * q;
    return roundings((apart.cwiseAbs().maxCoeff()) / a.cwiseAbs().maxCoeff() +
                         (turn - Wide::Identity(turn.rows(), turn.cols())).cwiseAbs().maxCoeff(),
                     1.0, dtype);
  };
  const QR found = qr(array_of<T>(a));
  const Eigen::HouseholderQR<Matrix<T>> eigens(a);
  const Matrix<T> q = eigens.householderQ();
  const Matrix<T> r = eigens.matrixQR().template triangularView<Eigen::Upper>();
  check_no_worse(left(wide_of(found.q), wide_of(found.r)),
                 left(q.template cast<double>(), r.template cast<double>()));
}

template <class T>
void eigh_beside_eigen(const Wide& wide, DType dtype) {
  const Matrix<T> a = ((wide + wide.transpose()) / 2.0).cast<T>();
  const Wide exact = a.template cast<double>();
  const double size = exact.cwiseAbs().rowwise().sum().maxCoeff();
  const auto left = [&](const Wide& values, const Wide& vectors) {
    const Wide rest = exact * vectors - vectors * values.col(0).asDiagonal();
    const Wide turn = vectors.transpose() * vectors;
    return roundings(rest.cwiseAbs().maxCoeff() / size +
                         (turn - Wide::Identity(turn.rows(), turn.cols())).cwiseAbs().maxCoeff(),
                     1.0, dtype);
  };
  const Eigh found = eigh(array_of<T>(a));
  const Eigen::SelfAdjointEigenSolver<Matrix<T>> eigens(a);
  check_no_worse(left(wide_of(found.values), wide_of(found.vectors)),
                 left(eigens.eigenvalues().template cast<double>(),
                      eigens.eigenvectors().template cast<double>()));
}

template <class T>
void cholesky_beside_eigen(const Wide& wide, DType dtype) {
  const Matrix<T> a =
      (wide * wide.transpose() + Wide::Identity(wide.rows(), wide.rows())).template cast<T>();
  const auto left = [&](const Wide& l) {
    const Wide apart = l * l.transpose() - a.template cast<double>();
    return roundings(apart.cwiseAbs().maxCoeff(), a.cwiseAbs().maxCoeff(), dtype);
  };
  const Matrix<T> eigens = a.llt().matrixL();
  check_no_worse(left(wide_of(cholesky(array_of<T>(a)))), left(eigens.template cast<double>()));
}

}  // namespace

TEST_CASE("solvers leave no more than Eigen's of hard matrices") {
  for (const int n : {2, 5, 16, 21, 50, 97}) {
    for (const auto& [name, a] : hard_matrices(n)) {
      INFO(name << " " << n);
      // Of Hilbert's matrix there are no digits left in float32, and solve() may call it singular.
      if (name != "Hilbert") {
        INFO("solve");
        solve_beside_eigen<double>(a, kFloat64);
        if (name != "nearly singular" && name.find("graded") == std::string::npos &&
            (name != "Kahan" || n < 50)) {
          solve_beside_eigen<float>(a, kFloat32);
        }
      }
      INFO("qr, eigh, cholesky");
      qr_beside_eigen<double>(a, kFloat64);
      qr_beside_eigen<float>(a, kFloat32);
      eigh_beside_eigen<double>(a, kFloat64);
      eigh_beside_eigen<float>(a, kFloat32);
      cholesky_beside_eigen<double>(a, kFloat64);
      cholesky_beside_eigen<float>(a, kFloat32);
    }
  }
}
#endif
