#include "autograd/tables/op_table.h"
#include "support/catch.h"

namespace hero::test {

namespace {

OpRow product(const char* name, const Shape& a, const Shape& b, Call call) {
  return {name, {{a}, {b}}, std::move(call)};
}

// A product of matrices [2, 3] x [3, 4] with its loops.
OpRow plain() {
  OpRow row = product("mm", {2, 3}, {3, 4}, mm);
  row.empty = {{2, 0}, {0, 4}};
  row.naive = [](const Tensors& x) {
    const auto a = x[0].to_vector<double>(), b = x[1].to_vector<double>();
    const auto rows = static_cast<size_t>(x[0].size(0)), inner = static_cast<size_t>(x[0].size(1)),
               columns = static_cast<size_t>(x[1].size(1));
    std::vector<double> values(rows * columns);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < inner; ++k) {
        for (size_t j = 0; j < columns; ++j) {
          values[i * columns + j] += a[i * inner + k] * b[k * columns + j];
        }
      }
    }
    return values;
  };
  return row;
}

Rows matrix_rows() {
  Rows rows = {
      plain(),
      product("matmul", {2, 3}, {3, 4}, matmul),
      product("matmul (vectors)", {3}, {3}, matmul),
      product("matmul (matrix, vector)", {2, 3}, {3}, matmul),
      product("matmul (vector, matrix)", {2}, {2, 3}, matmul),
      product("matmul (batches)", {2, 1, 2, 3}, {4, 3, 2}, matmul),
      product("bmm", {2, 3, 2}, {2, 2, 4}, bmm),
      product("dot", {3}, {3}, dot),
      product("outer", {3}, {2}, outer),
      {"linear",
       {{{2, 3}}, {{4, 3}}, {{4}}},
       [](const Tensors& x) { return linear(x[0], x[1], x[2]); }},
      {"linear (batches)",
       {{{2, 2, 3}}, {{4, 3}}},
       [](const Tensors& x) { return linear(x[0], x[1]); }},
  };
  rows[1].empty = {{0, 3}, {3, 0}};
  rows[3].empty = {{0, 3}, {3}};
  rows[5].empty = {{2, 1, 2, 3}, {0, 3, 2}};
  rows[9].empty = {{0, 3}, {4, 3}, {4}};
  rows[10].empty = {{2, 0, 3}, {4, 3}};
  return rows;
}

OpRow einstein(const std::string& equation, std::vector<Input> inputs) {
  OpRow row{"einsum " + equation, std::move(inputs),
            [equation](const Tensors& x) { return einsum(equation, x); }};
  row.skip = {{Layout::empty, "sizes are tied together; see the test of einsum"}};
  return row;
}

Rows einsum_rows() {
  return {
      einstein("ij,jk->ik", {{{2, 3}}, {{3, 4}}}),
      einstein("ij,jk", {{{2, 3}}, {{3, 4}}}),
      einstein("bij,bkj->bik", {{{2, 2, 3}}, {{2, 4, 3}}}),
      einstein("i,i", {{{3}}, {{3}}}),
      einstein("i,j->ji", {{{3}}, {{2}}}),
      einstein("ij->ji", {{{2, 3}}}),
      einstein("ii->i", {{{3, 3}}}),
      einstein("ii", {{{3, 3}}}),
      einstein("iji->j", {{{2, 3, 2}}}),
      einstein("ij->", {{{2, 3}}}),
      einstein("...ij,...jk->...ik", {{{2, 1, 2, 3}}, {{4, 3, 2}}}),
      einstein("i...,i...", {{{2, 3}}, {{2, 3}}}),
      einstein("ab,bc,cd->ad", {{{2, 3}}, {{3, 2}}, {{2, 4}}}),
      einstein("bi,bj,ij->b", {{{2, 3}}, {{2, 4}}, {{3, 4}}}),
      einstein("ij,ij->ij", {{{2, 3}}, {{2, 1}}}),
  };
}

}  // namespace

Rows product_rows() {
  Rows rows = matrix_rows();
  const Rows more = einsum_rows();
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

TEST_CASE("products and einsum: layouts and derivatives") { check_rows(product_rows()); }

}  // namespace hero::test
