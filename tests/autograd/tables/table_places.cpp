#include <algorithm>
#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

OpRow of_values(OpRow row) {
  row.meta = false;
  return row;
}

Tensor list(const std::vector<int64_t>& values, const Tensor& like) {
  return tensor(values).to(like.device());
}

Rows reading_rows() {
  return {
      sized(
          "take", {{{2, 3}}},
          [](const Tensors& x) {
            return take(x[0], reshape(list({0, -1, 2, 2}, x[0]), {2, 2}));
          },
          [](const Tensors& x) {
            const auto v = x[0].to_vector<double>();
            return std::vector<double>{v[0], v[5], v[2], v[2]};
          }),
      sized(
          "put", {{{2, 3}}, {{2}}},
          [](const Tensors& x) {
            return put(x[0], list({1, -1}, x[0]), x[1]);
          },
          [](const Tensors& x) {
            auto v = x[0].to_vector<double>();
            const auto s = x[1].to_vector<double>();
            v[1] = s[0];
            v[5] = s[1];
            return v;
          }),
      sized("put (accumulate)", {{{2, 3}}, {{2}}},
            [](const Tensors& x) {
              return put(x[0], list({1, 1}, x[0]), x[1], true);
            }),
      sized(
          "take_along_dim", {{{2, 3}}},
          [](const Tensors& x) {
            return take_along_dim(x[0], reshape(list({2, 0}, x[0]), {1, 2}), 1);
          },
          [](const Tensors& x) {
            const auto v = x[0].to_vector<double>();
            return std::vector<double>{v[2], v[0], v[5], v[3]};
          }),
      sized("take_along_dim (flat)", {{{2, 3}}},
            [](const Tensors& x) {
              return take_along_dim(x[0], list({5, 1}, x[0]));
            }),
      of_values(sized(
          "where (one condition)", {{{2, 3}, {-2.0, 2.0, {0.0}}}},
          [](const Tensors& x) { return index(x[0], where(x[0] > 0)); },
          [](const Tensors& x) {
            std::vector<double> kept;
            for (double v : x[0].to_vector<double>()) {
              if (v > 0) kept.push_back(v);
            }
            return kept;
          })),
  };
}

Rows writing_rows() {
  return {
      sized(
          "index_fill", {{{2, 3}}},
          [](const Tensors& x) {
            return index_fill(x[0], 1, list({0, -1}, x[0]), 7);
          },
          [](const Tensors& x) {
            auto v = x[0].to_vector<double>();
            v[0] = v[2] = v[3] = v[5] = 7;
            return v;
          }),
      sized("index_fill (a tensor)", {{{2, 3}}, {{}}},
            [](const Tensors& x) {
              return index_fill(x[0], 1, list({0, -1}, x[0]), x[1]);
            }),
      sized(
          "index_copy", {{{2, 3}}, {{2, 2}}},
          [](const Tensors& x) {
            return index_copy(x[0], 1, list({2, 0}, x[0]), x[1]);
          },
          [](const Tensors& x) {
            auto v = x[0].to_vector<double>();
            const auto s = x[1].to_vector<double>();
            v[2] = s[0], v[0] = s[1], v[5] = s[2], v[3] = s[3];
            return v;
          }),
      sized(
          "scatter (a number)", {{{2, 3}}},
          [](const Tensors& x) {
            return scatter(x[0], 1, reshape(list({1, 2}, x[0]), {2, 1}), 7.0);
          },
          [](const Tensors& x) {
            auto v = x[0].to_vector<double>();
            v[1] = v[5] = 7;
            return v;
          }),
      of_values(sized(
          "masked_scatter", {{{2, 3}, {-2.0, 2.0, {0.0}}}, {{7}}},
          [](const Tensors& x) { return masked_scatter(x[0], x[0] > 0, x[1]); },
          [](const Tensors& x) {
            auto v = x[0].to_vector<double>();
            const auto s = x[1].to_vector<double>();
            size_t next = 0;
            for (double& value : v) {
              if (value > 0) value = s[next++];
            }
            return v;
          })),
      sized(
          "scatter (a number, multiplied)", {{{2, 3}}},
          [](const Tensors& x) {
            return scatter(x[0], 1, reshape(list({1, 2}, x[0]), {2, 1}), 7.0, ScatterReduce::prod);
          }),
      sized("select_scatter", {{{2, 3}}, {{2}}},
            [](const Tensors& x) { return select_scatter(x[0], x[1], 1, -1); }),
      sized("slice_scatter", {{{2, 3}}, {{2, 2}}},
            [](const Tensors& x) { return slice_scatter(x[0], x[1], 1, 0, kEnd, 2); }),
      sized("diagonal_scatter", {{{2, 3}}, {{2}}},
            [](const Tensors& x) { return diagonal_scatter(x[0], x[1], 1); }),
  };
}

// Sorted rows and the place of each value by counting.
std::vector<double> counted(const Tensor& sorted, const Tensor& values, bool right) {
  const auto numbers = sorted.to_vector<double>();
  std::vector<double> places;
  for (double v : values.to_vector<double>()) {
    places.push_back(static_cast<double>(std::count_if(
        numbers.begin(), numbers.end(), [&](double n) { return right ? n <= v : n < v; })));
  }
  return places;
}

Tensor coarse(const Tensor& x) { return round(x * 2.0); }

Rows search_rows() {
  return {
      constant(sized(
          "searchsorted", {{{6}}, {{2, 3}}},
          [](const Tensors& x) { return searchsorted(sort(coarse(x[0]), 0).values, coarse(x[1])); },
          [](const Tensors& x) { return counted(coarse(x[0]), coarse(x[1]), false); })),
      constant(sized(
          "searchsorted (right)", {{{6}}, {{2, 3}}},
          [](const Tensors& x) {
            return searchsorted(sort(coarse(x[0]), 0).values, coarse(x[1]), {.right = true});
          },
          [](const Tensors& x) { return counted(coarse(x[0]), coarse(x[1]), true); })),
      constant(sized("searchsorted (rows)", {{{2, 4}}, {{2, 3}}},
                     [](const Tensors& x) { return searchsorted(sort(x[0], 1).values, x[1]); })),
      constant(sized(
          "bucketize", {{{2, 3}}, {{5}}},
          [](const Tensors& x) { return bucketize(coarse(x[0]), sort(coarse(x[1]), 0).values); },
          [](const Tensors& x) { return counted(coarse(x[1]), coarse(x[0]), false); })),
      constant(sized(
          "isin", {{{2, 3}}, {{4}}},
          [](const Tensors& x) { return isin(coarse(x[0]), coarse(x[1])); },
          [](const Tensors& x) {
            const auto tests = coarse(x[1]).to_vector<double>();
            std::vector<double> found;
            for (double v : coarse(x[0]).to_vector<double>()) {
              found.push_back(std::count(tests.begin(), tests.end(), v) > 0 ? 1 : 0);
            }
            return found;
          })),
  };
}

Rows counting_rows() {
  return {
      of_values(constant(sized(
          "unique", {{{4, 5}}},
          [](const Tensors& x) {
            const Unique u = unique(coarse(x[0]), {.return_inverse = true, .return_counts = true});
            return Tensors{u.values, u.inverse, u.counts};
          },
          [](const Tensors& x) {
            auto v = coarse(x[0]).to_vector<double>();
            std::sort(v.begin(), v.end());
            v.erase(std::unique(v.begin(), v.end()), v.end());
            return v;
          }))),
      of_values(constant(sized("unique (rows)", {{{6, 2}}},
                               [](const Tensors& x) {
                                 const Unique u =
                                     unique(round(x[0] * 0.5), {.return_inverse = true, .dim = 0});
                                 return Tensors{u.values, u.inverse};
                               }))),
      of_values(constant(sized(
          "unique_consecutive", {{{12}}},
          [](const Tensors& x) {
            const Unique u = unique_consecutive(coarse(x[0] * 0.5), {.return_counts = true});
            return Tensors{u.values, u.counts};
          },
          [](const Tensors& x) {
            auto v = coarse(x[0] * 0.5).to_vector<double>();
            v.erase(std::unique(v.begin(), v.end()), v.end());
            return v;
          }))),
      of_values(constant(sized(
          "bincount", {{{8}}},
          [](const Tensors& x) { return bincount(abs(coarse(x[0])).to(kInt64), {}, 6); },
          [](const Tensors& x) {
            std::vector<double> counts(6, 0.0);
            for (double v : abs(coarse(x[0])).to_vector<double>()) {
              counts[static_cast<size_t>(v)] += 1.0;
            }
            return counts;
          }))),
      of_values(constant(
          sized("bincount (weights)", {{{8}}},
                [](const Tensors& x) { return bincount(abs(coarse(x[0])).to(kInt64), x[0], 6); }))),
      of_values(constant(sized(
          "histc", {{{3, 4}}}, [](const Tensors& x) { return histc(x[0], 4, -1.0, 1.0); },
          [](const Tensors& x) {
            std::vector<double> counts(4, 0.0);
            for (double v : x[0].to_vector<double>()) {
              if (v < -1.0 || v > 1.0) continue;
              counts[static_cast<size_t>(std::min(3.0, std::floor((v + 1.0) * 2.0)))] += 1.0;
            }
            return counts;
          }))),
  };
}

}  // namespace

Rows place_rows() {
  Rows rows = reading_rows();
  for (const Rows& part : {writing_rows(), search_rows(), counting_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("places, searches and counts: values, layouts and derivatives") {
  check_rows(place_rows());
}

}  // namespace hero::test
