#include "autograd/tables/op_table.h"
#include "support/catch.h"

namespace hero::test {

namespace {

Rows view_rows() {
  return {
      of("reshape", {2, 3, 2},
         [](const Tensor& x) {
           return reshape(x, {x.size(1), -1});
         }),
      of("permute", {2, 3, 2},
         [](const Tensor& x) {
           return permute(x, {2, 0, 1});
         }),
      of("transpose", {2, 3, 2}, [](const Tensor& x) { return transpose(x, 0, -1); }),
      of("expand", {2, 1},
         [](const Tensor& x) {
           return expand(x, {4, -1, 3});
         }),
      of("squeeze", {2, 1, 3}, [](const Tensor& x) { return squeeze(x, 1); }),
      of("squeeze", {2, 1, 1}, [](const Tensor& x) { return squeeze(x); }),
      of("unsqueeze", {2, 3}, [](const Tensor& x) { return unsqueeze(x, -2); }),
      of("flatten", {2, 3, 2}, [](const Tensor& x) { return flatten(x, 1); }),
      of("slice", {5, 3}, [](const Tensor& x) { return slice(x, 0, 1, -1, 2); }),
      of("narrow", {2, 3}, [](const Tensor& x) { return narrow(x, 1, x.size(1) - 1, 1); }),
      of("select", {2, 3}, [](const Tensor& x) { return select(x, 1, -1); }),
      of("diagonal", {3, 4}, [](const Tensor& x) { return diagonal(x, 1); }),
      of("diagonal", {2, 3, 4}, [](const Tensor& x) { return diagonal(x, -1, 2, 0); }),
      of("diag", {3}, [](const Tensor& x) { return diag(x, -1); }),
      of("diag", {3, 4}, [](const Tensor& x) { return diag(x); }),
      of("unfold", {2, 7}, [](const Tensor& x) { return unfold(x, 1, x.size(1) / 2, 2); }),
      sized(of("unfold", {5, 2}, [](const Tensor& x) { return unfold(x, 0, 3, 1); })),
      sized(of("as_strided", {8},
               [](const Tensor& x) {
                 return as_strided(contiguous(x), {3, 3}, {2, 1}, 1);
               })),
      of("contiguous", {2, 3}, [](const Tensor& x) { return contiguous(x); }),
      of("clone", {2, 3}, [](const Tensor& x) { return clone(x); }),
  };
}

Rows moving_rows() {
  return {
      of("flip", {2, 3, 2},
         [](const Tensor& x) {
           return flip(x, {0, -1});
         }),
      of("flip", {2, 3}, [](const Tensor& x) { return flip(x, {1}); }),
      of("roll", {2, 3},
         [](const Tensor& x) {
           return roll(x, {-1, 4}, {0, 1});
         }),
      of("roll", {2, 3}, [](const Tensor& x) { return roll(x, {2}, {}); }),
      of("repeat", {2, 3},
         [](const Tensor& x) {
           return repeat(x, {3, 1, 2});
         }),
      of("repeat", {2, 3},
         [](const Tensor& x) {
           return repeat(x, {2, 0});
         }),
      of("repeat_interleave", {2, 3}, [](const Tensor& x) { return repeat_interleave(x, 2, 1); }),
      of("tril", {3, 4}, [](const Tensor& x) { return tril(x, 1); }),
      of("triu", {2, 3, 3}, [](const Tensor& x) { return triu(x); }),
      of("pad", {2, 3},
         [](const Tensor& x) {
           return pad(x, {1, 2, 0, 1}, PadMode::constant, 3);
         }),
      of("pad", {2, 3},
         [](const Tensor& x) {
           return pad(x, {1, -1});
         }),
      of("pad (replicate)", {2, 3},
         [](const Tensor& x) {
           return pad(x, {2, 1}, PadMode::replicate);
         }),
      sized(of("pad (reflect)", {3, 4},
               [](const Tensor& x) {
                 return pad(x, {3, 1, 0, 2}, PadMode::reflect);
               })),
  };
}

Rows joining_rows() {
  const auto parts = [](const Tensor& x) { return split(x, x.size(1) - 1, 1); };
  return {
      {"cat", {{{2, 3}}, {{2, 1}}, {{2, 2}}}, [](const Tensors& x) { return cat(x, 1); }},
      {"cat", {{{2, 3}}, {{1, 3}}}, [](const Tensors& x) { return cat(x); }},
      {"stack", {{{2, 3}}, {{2, 3}}}, [](const Tensors& x) { return stack(x, -1); }},
      {"stack (of the same)",
       {{{2, 3}}},
       [](const Tensors& x) {
         return stack({x[0], x[0]});
       }},
      {.name = "split",
       .inputs = {{{2, 5}}},
       .call = [parts](const Tensors& x) { return parts(x[0]); },
       .skip = {{Layout::single, kSomeSizes}}},
      of("split", {4, 2},
         [](const Tensor& x) {
           return split(x, std::vector<int64_t>{x.size(0) / 2, 0, x.size(0) - x.size(0) / 2});
         }),
      of("chunk", {5, 2}, [](const Tensor& x) { return chunk(x, 3); }),
      of("unbind", {2, 3}, [](const Tensor& x) { return unbind(x, 1); }),
  };
}

}  // namespace

Rows shape_rows() {
  Rows rows = view_rows();
  for (const Rows& part : {moving_rows(), joining_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("views, moves and joins: layouts and derivatives") { check_rows(shape_rows()); }

}  // namespace hero::test
