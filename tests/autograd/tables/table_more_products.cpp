#include <cmath>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// beta input + alpha a b, input [N], a [M, K], b [K, N].
Values sum_of(const Tensors& x) {
  const Values i = x[0].to_vector<double>(), a = x[1].to_vector<double>(),
               b = x[2].to_vector<double>();
  const auto m = static_cast<size_t>(x[1].size(0)), k = static_cast<size_t>(x[1].size(1)),
             n = static_cast<size_t>(x[2].size(1));
  Values out;
  for (size_t r = 0; r < m; ++r) {
    for (size_t c = 0; c < n; ++c) {
      double total = 0.0;
      for (size_t j = 0; j < k; ++j) total += a[r * k + j] * b[j * n + c];
      out.push_back(0.5 * i[c] - 2.0 * total);
    }
  }
  return out;
}

const AddProduct kScaled{.beta = 0.5, .alpha = -2.0};

Rows summed_rows() {
  return {
      sized(
          "addmm", {{{4}}, {{2, 3}}, {{3, 4}}},
          [](const Tensors& x) { return addmm(x[0], x[1], x[2], kScaled); }, sum_of),
      sized("addmv", {{{2}}, {{2, 3}}, {{3}}},
            [](const Tensors& x) { return addmv(x[0], x[1], x[2], kScaled); }),
      sized("addr", {{{2, 3}}, {{2}}, {{3}}},
            [](const Tensors& x) { return addr(x[0], x[1], x[2], kScaled); }),
      sized("baddbmm", {{{2, 1, 3}}, {{2, 2, 2}}, {{2, 2, 3}}},
            [](const Tensors& x) { return baddbmm(x[0], x[1], x[2], kScaled); }),
      sized("addbmm", {{{2, 3}}, {{2, 2, 2}}, {{2, 2, 3}}},
            [](const Tensors& x) { return addbmm(x[0], x[1], x[2], kScaled); }),
      {.name = "mv",
       .inputs = {{{2, 3}}, {{3}}},
       .call = mv,
       .empty = {{0, 3}, {3}},
       .single = {{1, 1}, {1}}},
      {.name = "inner",
       .inputs = {{{2, 3}}, {{4, 3}}},
       .call = inner,
       .empty = {{0, 3}, {4, 3}},
       .naive =
           [](const Tensors& x) {
             const Values a = x[0].to_vector<double>(), b = x[1].to_vector<double>();
             const auto k = static_cast<size_t>(x[0].size(1));
             Values out;
             for (size_t i = 0; i < a.size(); i += k) {
               for (size_t j = 0; j < b.size(); j += k) {
                 double total = 0.0;
                 for (size_t l = 0; l < k; ++l) total += a[i + l] * b[j + l];
                 out.push_back(total);
               }
             }
             return out;
           }},
      {"vdot", {{{3}}, {{3}}}, vdot},
      sized("tensordot", {{{2, 3, 4}}, {{4, 5, 2}}},
            [](const Tensors& x) {
              return tensordot(x[0], x[1], Dims{2, 0}, Dims{0, 2});
            }),
      sized("tensordot", {{{2, 3}}, {{3, 2}}},
            [](const Tensors& x) { return tensordot(x[0], x[1], 1); }),
  };
}

Rows other_rows() {
  const auto kron_values = [](const Tensors& x) {
    const Values a = x[0].to_vector<double>(), b = x[1].to_vector<double>();
    const int64_t an = x[0].size(1), bm = x[1].size(0), bn = x[1].size(1);
    Values out;
    for (int64_t i = 0; i < x[0].size(0) * bm; ++i) {
      for (int64_t j = 0; j < an * bn; ++j) {
        out.push_back(a[static_cast<size_t>(i / bm * an + j / bn)] *
                      b[static_cast<size_t>(i % bm * bn + j % bn)]);
      }
    }
    return out;
  };
  return {
      {.name = "kron", .inputs = {{{2, 3}}, {{2, 2}}}, .call = kron, .naive = kron_values},
      sized(
          "cross", {{{2, 3}}, {{2, 3}}}, [](const Tensors& x) { return cross(x[0], x[1]); },
          [](const Tensors& x) {
            const Values a = x[0].to_vector<double>(), b = x[1].to_vector<double>();
            Values out;
            for (size_t r = 0; r < a.size(); r += 3) {
              out.push_back(a[r + 1] * b[r + 2] - a[r + 2] * b[r + 1]);
              out.push_back(a[r + 2] * b[r] - a[r] * b[r + 2]);
              out.push_back(a[r] * b[r + 1] - a[r + 1] * b[r]);
            }
            return out;
          }),
      sized("multi_dot", {{{2, 4}}, {{4, 3}}, {{3, 5}}},
            [](const Tensors& x) { return multi_dot(x); }),
      sized(
          "cdist", {{{2, 3, 2}, {-2.0, -1.0}}, {{2, 4, 2}, {0.0, 1.0}}},
          [](const Tensors& x) { return cdist(x[0], x[1]); },
          [](const Tensors& x) {
            const Values a = x[0].to_vector<double>(), b = x[1].to_vector<double>();
            Values out;
            for (size_t batch = 0; batch < 2; ++batch) {
              for (size_t i = 0; i < 3; ++i) {
                for (size_t j = 0; j < 4; ++j) {
                  const size_t at = (batch * 3 + i) * 2, to = (batch * 4 + j) * 2;
                  out.push_back(std::hypot(a[at] - b[to], a[at + 1] - b[to + 1]));
                }
              }
            }
            return out;
          }),
      sized("cdist (by a product)", {{{26, 2}, {-2.0, -1.0}}, {{2, 2}, {0.0, 1.0}}},
            [](const Tensors& x) { return cdist(x[0], x[1]); }),
      sized("cdist (p = 1)", {{{3, 2}, {-2.0, -1.0}}, {{4, 2}, {0.0, 1.0}}},
            [](const Tensors& x) { return cdist(x[0], x[1], 1.0); }),
      sized("matrix_power", {{{2, 3, 3}}}, [](const Tensors& x) { return matrix_power(x[0], 3); }),
      sized("matrix_power (0)", {{{3, 3}}}, [](const Tensors& x) { return matrix_power(x[0], 0); }),
      sized(
          "matrix_exp", {{{2, 2, 2}}}, [](const Tensors& x) { return matrix_exp(x[0]); },
          [](const Tensors& x) {
            // Two rows and columns: exp(s) (cosh(q) I + sinh(q) / q (A - s I)).
            const Values a = x[0].to_vector<double>();
            Values out;
            for (size_t at = 0; at < a.size(); at += 4) {
              const double s = (a[at] + a[at + 3]) / 2.0;
              const double square = (a[at] - s) * (a[at] - s) + a[at + 1] * a[at + 2];
              const double q = std::sqrt(std::fabs(square));
              const double c = square < 0 ? std::cos(q) : std::cosh(q);
              const double d = q == 0 ? 1.0 : (square < 0 ? std::sin(q) : std::sinh(q)) / q;
              const double e = std::exp(s);
              for (size_t k = 0; k < 4; ++k) {
                const bool diagonal = k == 0 || k == 3;
                out.push_back(e * ((diagonal ? c : 0.0) + d * (a[at + k] - (diagonal ? s : 0.0))));
              }
            }
            return out;
          }),
  };
}

}  // namespace

Rows more_product_rows() {
  Rows rows = summed_rows();
  for (const OpRow& row : other_rows()) rows.push_back(row);
  return rows;
}

TEST_CASE("products with summands, over dimensions and of matrices: values and derivatives") {
  check_rows(more_product_rows());
}

}  // namespace hero::test
