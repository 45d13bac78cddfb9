#include <cmath>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/random/random.h>

namespace hero::test {

namespace {

const char* const kSquare = "the sizes are tied together; see the tests of linalg";
const char* const kRank = "equal rows have no rank, and where a pivot changes sides no derivative";

Tensor unit(const Tensor& like) {
  return eye(like.size(-1), {.dtype = kFloat64, .device = like.device()});
}

// Symmetric and positive definite.
Tensor definite(const Tensor& x) { return matmul(x, x.t()) + unit(matmul(x, x.t())) * 0.5; }

OpRow solver(const char* name, std::vector<Input> inputs, Call call) {
  OpRow row{name, std::move(inputs), std::move(call)};
  row.skip = {{Layout::empty, kSquare}};
  return row;
}

// What does not depend on the signs of singular vectors.
Tensors singular_parts(const Tensors& x) {
  const SVD found = svd(x[0]);
  return {found.s, matmul(found.u * unsqueeze(sin(found.s), -2), found.vh)};
}
Tensors symmetric_parts(const Tensors& x) {
  const Eigh found = eigh((x[0] + x[0].t()) / 2.0);
  const Tensor v = found.eigenvectors;
  return {found.eigenvalues, matmul(v * unsqueeze(sin(found.eigenvalues), -2), v.t())};
}

// Largest first, the roots of a^T a's characteristic polynomial.
std::vector<double> singular_values_of_two(const Tensors& x) {
  const auto a = x[0].to_vector<double>();
  double p = 0.0, q = 0.0, r = 0.0;
  for (size_t i = 0; i < a.size(); i += 2) {
    p += a[i] * a[i];
    q += a[i] * a[i + 1];
    r += a[i + 1] * a[i + 1];
  }
  const double middle = (p + r) / 2.0, off = std::hypot((p - r) / 2.0, q);
  return {std::sqrt(middle + off), std::sqrt(middle - off)};
}

Rows decomposition_rows() {
  const auto triangular = [](const TriangularOptions& options) {
    return [options](const Tensors& x) { return solve_triangular(dominant(x[0]), x[1], options); };
  };
  OpRow values = solver("svd", {{{3, 2}}}, singular_parts);
  values.naive = singular_values_of_two;
  Rows rows = {
      values,
      solver("svd (tall)", {{{2, 4, 3}}}, singular_parts),
      solver("svd (wide)", {{{2, 3}}}, singular_parts),
      solver("svdvals", {{{3, 3}}}, [](const Tensors& x) { return svdvals(x[0]); }),
      solver("eigh", {{{2, 3, 3}}}, symmetric_parts),
      solver("eigvalsh", {{{3, 3}}},
             [](const Tensors& x) { return eigvalsh((x[0] + x[0].t()) / 2.0); }),
      solver("pinv", {{{4, 2}}}, [](const Tensors& x) { return pinv(x[0]); }),
      solver("pinv (hermitian)", {{{3, 3}}},
             [](const Tensors& x) { return pinv(definite(x[0]), {.hermitian = true}); }),
      solver("cholesky_ex", {{{2, 3, 3}}},
             [](const Tensors& x) {
               const CholeskyEx found = cholesky_ex(definite(x[0]));
               return Tensors{found.l, found.info};
             }),
      solver("inv_ex", {{{2, 3, 3}}},
             [](const Tensors& x) {
               const InvEx found = inv_ex(dominant(x[0]));
               return Tensors{found.inverse, found.info};
             }),
      solver("solve_ex", {{{3, 3}}, {{3, 2}}},
             [](const Tensors& x) {
               const SolveEx found = solve_ex(dominant(x[0]), x[1]);
               return Tensors{found.result, found.info};
             }),
      solver("lu_factor_ex", {{{3, 3}}},
             [](const Tensors& x) {
               const LUFactorsEx found = lu_factor_ex(dominant(x[0]));
               return Tensors{found.lu, found.info};
             }),
      solver("svd_lowrank", {{{4, 3}}},
             [](const Tensors& x) {
               manual_seed(1);
               const LowRank found = svd_lowrank(x[0], 3);
               return Tensors{found.s, matmul(found.u * unsqueeze(sin(found.s), -2), found.v.t())};
             }),
      solver("pca_lowrank", {{{3, 4}}},
             [](const Tensors& x) {
               manual_seed(1);
               return pca_lowrank(x[0], {.q = 3, .center = false}).s;
             }),
      solver("pinv (wide)", {{{2, 2, 3}}}, [](const Tensors& x) { return pinv(x[0]); }),
      solver("solve_triangular", {{{3, 3}}, {{3, 2}}}, triangular({})),
      solver("solve_triangular (lower, from the right)", {{{2, 3, 3}}, {{2, 2, 3}}},
             triangular({.upper = false, .left = false})),
      solver("solve_triangular (ones)", {{{3, 3}}, {{2, 3, 2}}},
             triangular({.upper = false, .unitriangular = true})),
      solver("cholesky (upper)", {{{3, 3}}},
             [](const Tensors& x) { return cholesky(definite(x[0]), Triangle::upper); }),
      solver("cholesky_solve", {{{3, 3}}, {{3, 2}}},
             [](const Tensors& x) { return cholesky_solve(x[1], cholesky(definite(x[0]))); }),
      solver("cholesky_inverse", {{{3, 3}}},
             [](const Tensors& x) { return cholesky_inverse(cholesky(definite(x[0]))); }),
      solver("logdet", {{{3, 3}}}, [](const Tensors& x) { return logdet(definite(x[0])); }),
      solver("matrix_norm", {{{2, 3, 2}}}, [](const Tensors& x) { return matrix_norm(x[0]); }),
      solver("matrix_norm (nuc)", {{{3, 2}}},
             [](const Tensors& x) { return matrix_norm(x[0], MatrixNorm::nuc); }),
      solver("matrix_norm (two)", {{{3, 2}}},
             [](const Tensors& x) { return matrix_norm(x[0], MatrixNorm::two); }),
  };
  for (OpRow& row : rows) {
    row.skip[Layout::broadcast] = kRank;
    row.skip[Layout::single] = kSquare;
  }
  return rows;
}

}  // namespace

Rows linalg_rows() {
  const auto system = [](const Tensors& x) { return solve(dominant(x[0]), x[1]); };
  const auto squares = [](const Tensors& x) { return lstsq(x[0], x[1]); };
  const auto decomposition = [](const Tensors& x) {
    const QR result = qr(x[0]);
    return Tensors{result.q, result.r};
  };
  Rows rows = {
      solver("solve", {{{3, 3}}, {{3, 2}}}, system),
      solver("solve (vector)", {{{3, 3}}, {{3}}}, system),
      solver("solve (batches)", {{{2, 1, 2, 2}}, {{3, 2, 1}}}, system),
      solver("inv", {{{2, 3, 3}}}, [](const Tensors& x) { return inv(dominant(x[0])); }),
      solver("det", {{{2, 3, 3}}}, [](const Tensors& x) { return det(x[0]); }),
      solver("slogdet", {{{3, 3}}},
             [](const Tensors& x) {
               const SignLogDet result = slogdet(dominant(x[0]));
               return Tensors{result.logabsdet, result.sign};
             }),
      solver("cholesky", {{{2, 3, 3}}}, [](const Tensors& x) { return cholesky(definite(x[0])); }),
      solver("qr", {{{2, 4, 3}}}, decomposition),
      solver("qr (square)", {{{3, 3}}}, decomposition),
      solver("qr (wide)", {{{2, 4}}}, decomposition),
      solver("qr (complete)", {{{2, 4}}},
             [](const Tensors& x) {
               const QR result = qr(x[0], QRMode::complete);
               return Tensors{result.q, result.r};
             }),
      solver("solve (from the right)", {{{2, 3, 3}}, {{2, 1, 3}}},
             [](const Tensors& x) { return solve(dominant(x[0]), x[1], SolveSide::right); }),
      solver("lstsq", {{{5, 3}}, {{5, 2}}}, squares),
      solver("lstsq (batches)", {{{2, 1, 3, 2}}, {{2, 3, 1}}}, squares),
  };
  for (OpRow& row : rows) {
    if (row.name.starts_with("qr") || row.name == "lstsq") {
      if (row.inputs[0].shape.size() == 2) row.skip[Layout::broadcast] = kRank;
    }
  }
  for (const OpRow& row : decomposition_rows()) rows.push_back(row);
  return rows;
}

TEST_CASE("solvers and decompositions: layouts and derivatives") { check_rows(linalg_rows()); }

}  // namespace hero::test
