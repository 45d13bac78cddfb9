#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops/creation/creation.h>

namespace hero::test {

namespace {

const char* const kNoIndex = "an index needs something to point at";

// Indices of x's shape into its dimension 1.
Tensor along_rows(const Tensor& x) { return indices(x.shape(), x.size(1), x); }

Rows gather_rows() {
  return {
      {"gather", {{{2, 3}}}, [](const Tensors& x) { return gather(x[0], 1, along_rows(x[0])); }},
      {.name = "gather",
       .inputs = {{{3, 2}}},
       .call =
           [](const Tensors& x) {
             return gather(x[0], 0, indices({5, 1}, x[0].size(0), x[0]));
           },
       .skip = {{Layout::empty, kNoIndex}}},
      {"scatter",
       {{{2, 3}}, {{2, 3}}},
       [](const Tensors& x) { return scatter(x[0], 1, along_rows(x[0]), x[1]); }},
      {.name = "scatter (part of the source)",
       .inputs = {{{2, 3}}, {{4, 3}}},
       .call =
           [](const Tensors& x) {
             return scatter(x[0], -1, indices({x[0].size(0), 1}, x[0].size(1), x[0]), x[1]);
           },
       .single = {{1, 1}, {1, 1}}},
      {"scatter_add",
       {{{2, 3}}, {{2, 3}}},
       [](const Tensors& x) { return scatter_add(x[0], 1, along_rows(x[0]), x[1]); }},
      {.name = "scatter_add (part of the source)",
       .inputs = {{{2, 3}}, {{4, 3}}},
       .call =
           [](const Tensors& x) {
             return scatter_add(x[0], -1, indices({x[0].size(0), 1}, x[0].size(1), x[0]), x[1]);
           }},
  };
}

Rows list_rows() {
  const auto five = [](const Tensor& x) { return indices({5}, x.size(1), x); };
  return {
      {"index_select",
       {{{2, 3}}},
       [five](const Tensors& x) { return index_select(x[0], 1, five(x[0])); }},
      {.name = "index_add",
       .inputs = {{{2, 3}}, {{2, 5}}},
       .call = [five](const Tensors& x) { return index_add(x[0], 1, five(x[0]), x[1], 0.7); },
       .single = {{1, 1}, {1, 5}}},
      {.name = "embedding",
       .inputs = {{{4, 3}}},
       .call =
           [](const Tensors& x) {
             return embedding(x[0], indices({2, 3}, x[0].size(0), x[0]));
           },
       .empty = {{4, 0}}},
  };
}

Rows point_rows() {
  const auto pair = [](const Tensor& x) {
    return Tensors{indices({2, 1}, x.size(0), x), indices({3}, x.size(1), x) - x.size(1)};
  };
  return {
      {.name = "index",
       .inputs = {{{3, 4, 2}}},
       .call = [pair](const Tensors& x) { return index(x[0], pair(x[0])); },
       .empty = {{3, 4, 0}}},
      {.name = "index_put",
       .inputs = {{{3, 4, 2}}, {{3, 2}}},
       .call = [pair](const Tensors& x) { return index_put(x[0], pair(x[0]), x[1]); },
       .empty = {{3, 4, 0}, {3, 0}}},
      {.name = "index_put (accumulate)",
       .inputs = {{{3, 4, 2}}, {{2, 1, 1}}},
       .call = [pair](const Tensors& x) { return index_put(x[0], pair(x[0]), x[1], true); },
       .empty = {{3, 4, 0}, {2, 1, 0}}},
      {.name = "masked_select",
       .inputs = {{{2, 3}, {-2.0, 2.0, {0.0}}}, {{2, 1}}},
       .call = [](const Tensors& x) { return masked_select(x[1], x[0] > 0); },
       .meta = false},
      {.name = "nonzero",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return nonzero(x[0] > 0); },
       .differentiable = false,
       .meta = false},
  };
}

}  // namespace

Rows indexing_rows() {
  Rows rows = gather_rows();
  for (const Rows& part : {list_rows(), point_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("indexing: layouts and derivatives") { check_rows(indexing_rows()); }

}  // namespace hero::test
