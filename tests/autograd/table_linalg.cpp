#include "autograd/op_table.h"
#include "support/catch.h"

#include <hero/autograd/creation.h>
#include <hero/autograd/linalg.h>

namespace hero::test {

namespace {

const char* const kSquare = "the sizes are tied together; see the tests of linalg";
const char* const kRank = "equal rows have no rank, and where a pivot changes sides no derivative";

Tensor unit(const Tensor& like) {
  return eye(like.size(-1), {.dtype = kFloat64, .device = like.device()});
}

// Away from singular matrices: 3 on the diagonal is more than the others in a row add up to.
Tensor dominant(const Tensor& x) { return x * 0.5 + unit(x) * 3.0; }

// Symmetric and positive definite.
Tensor definite(const Tensor& x) { return matmul(x, x.t()) + unit(matmul(x, x.t())) * 0.5; }

OpRow solver(const char* name, std::vector<Input> inputs, Call call) {
  OpRow row{name, std::move(inputs), std::move(call)};
  row.skip = {{Layout::empty, kSquare}};
  return row;
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
      solver("lstsq", {{{5, 3}}, {{5, 2}}}, squares),
      solver("lstsq (batches)", {{{2, 1, 3, 2}}, {{2, 3, 1}}}, squares),
  };
  for (OpRow& row : rows) {
    if (row.name.starts_with("qr") || row.name == "lstsq") {
      if (row.inputs[0].shape.size() == 2) row.skip[Layout::broadcast] = kRank;
    }
  }
  return rows;
}

TEST_CASE("solvers and decompositions: layouts and derivatives") { check_rows(linalg_rows()); }

}  // namespace hero::test
