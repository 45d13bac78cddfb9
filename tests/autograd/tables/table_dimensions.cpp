#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// Values of the result at every index, by the element of x that is to be there.
using Places = std::vector<int64_t> (*)();

OpRow placed(OpRow row, Places places) {
  row.naive = [places](const Tensors& x) {
    const std::vector<double> values = x[0].to_vector<double>();
    std::vector<double> expected;
    for (int64_t at : places()) {
      expected.push_back(at < 0 ? 0.0 : values[static_cast<size_t>(at)]);
    }
    return expected;
  };
  return sized(std::move(row));
}

Rows named_rows() {
  return {
      placed(of("movedim", {2, 3, 2}, [](const Tensor& x) { return movedim(x, 0, -1); }),
             [] { return std::vector<int64_t>{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}; }),
      of("movedim", {2, 3, 2},
         [](const Tensor& x) {
           return movedim(x, {0, 2}, {1, 0});
         }),
      of("moveaxis", {2, 3, 2}, [](const Tensor& x) { return moveaxis(x, -1, 0); }),
      of("swapaxes", {2, 3, 2}, [](const Tensor& x) { return swapaxes(x, 0, 2); }),
      of("swapdims", {2, 3}, [](const Tensor& x) { return swapdims(x, 0, 1); }),
      of("squeeze", {2, 1, 3, 1},
         [](const Tensor& x) {
           return squeeze(x, std::vector<int64_t>{1, -1});
         }),
      sized(of("unflatten", {2, 6},
               [](const Tensor& x) {
                 return unflatten(x, 1, {3, -1});
               })),
      of("ravel", {2, 3}, ravel),
      of("expand_as", {2, 1},
         [](const Tensor& x) {
           return expand_as(x, expand(x, {2, -1, 3}));
         }),
      of("view_as", {2, 3},
         [](const Tensor& x) {
           return view_as(clone(x), reshape(x, {x.size(1), x.size(0)}));
         }),
      of("reshape_as", {2, 3}, [](const Tensor& x) { return reshape_as(x, x.t()); }),
      of("broadcast_to", {2, 1},
         [](const Tensor& x) {
           return broadcast_to(x, {3, x.size(0), 2});
         }),
      {"broadcast_tensors",
       {{{2, 1}}, {{1, 3}}},
       [](const Tensors& x) { return broadcast_tensors(x); },
       {{2, 1}, {1, 0}}},
      of("atleast_1d", {3}, atleast_1d),
      of("atleast_2d", {3}, atleast_2d),
      of("atleast_3d", {2, 3}, atleast_3d),
  };
}

Rows turned_rows() {
  return {
      of("tile", {2, 3}, [](const Tensor& x) { return tile(x, {2}); }),
      placed(of("fliplr", {2, 3}, fliplr), [] { return std::vector<int64_t>{2, 1, 0, 5, 4, 3}; }),
      placed(of("flipud", {2, 3}, flipud), [] { return std::vector<int64_t>{3, 4, 5, 0, 1, 2}; }),
      placed(of("rot90", {2, 3}, [](const Tensor& x) { return rot90(x); }),
             [] { return std::vector<int64_t>{2, 5, 1, 4, 0, 3}; }),
      of("rot90", {2, 3}, [](const Tensor& x) { return rot90(x, 2); }),
      placed(of("rot90", {2, 3}, [](const Tensor& x) { return rot90(x, -1); }),
             [] { return std::vector<int64_t>{3, 0, 4, 1, 5, 2}; }),
      of("repeat_interleave (flat)", {2, 3},
         [](const Tensor& x) { return repeat_interleave(x, 2); }),
      {.name = "repeat_interleave (by a tensor)",
       .inputs = {{{3, 2}}},
       .call =
           [](const Tensors& x) {
             return repeat_interleave(x[0], tensor({2, 0, 1}).to(x[0].device()), 0);
           },
       .skip = {{Layout::empty, kSomeSizes}, {Layout::single, kSomeSizes}},
       .meta = false,
       .naive =
           [](const Tensors& x) {
             const std::vector<double> v = x[0].to_vector<double>();
             return std::vector<double>{v[0], v[1], v[0], v[1], v[4], v[5]};
           }},
      placed(of("diag_embed", {2, 2}, [](const Tensor& x) { return diag_embed(x, 1); }),
             [] {
               return std::vector<int64_t>{-1, 0, -1, -1, -1, 1, -1, -1, -1,
                                           -1, 2, -1, -1, -1, 3, -1, -1, -1};
             }),
      of("diag_embed", {2, 3}, [](const Tensor& x) { return diag_embed(x, -1, 0, 2); }),
      of("diagflat", {2, 2}, [](const Tensor& x) { return diagflat(x, 1); }),
      {"block_diag", {{{2, 1}}, {{3}}, {{1, 2}}}, [](const Tensors& x) { return block_diag(x); }},
      of("trace", {2, 3}, trace),
      placed(of("pixel_shuffle", {4, 1, 2}, [](const Tensor& x) { return pixel_shuffle(x, 2); }),
             [] { return std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}; }),
      placed(
          of("pixel_unshuffle", {1, 2, 4}, [](const Tensor& x) { return pixel_unshuffle(x, 2); }),
          [] { return std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}; }),
      placed(
          of("channel_shuffle", {1, 6, 1}, [](const Tensor& x) { return channel_shuffle(x, 2); }),
          [] { return std::vector<int64_t>{0, 3, 1, 4, 2, 5}; }),
  };
}

Rows stack_rows() {
  return {
      {"hstack", {{{2, 3}}, {{2, 1}}}, [](const Tensors& x) { return hstack(x); }},
      {"hstack", {{{3}}, {{2}}}, [](const Tensors& x) { return hstack(x); }},
      {"vstack", {{{3}}, {{2, 3}}}, [](const Tensors& x) { return vstack(x); }, {{3}, {0, 3}}},
      {"dstack", {{{2, 3}}, {{2, 3}}}, [](const Tensors& x) { return dstack(x); }},
      {"column_stack", {{{2}}, {{2, 3}}}, [](const Tensors& x) { return column_stack(x); }},
      of("tensor_split", {5, 2}, [](const Tensor& x) { return tensor_split(x, 3); }),
      of("tensor_split", {2, 5},
         [](const Tensor& x) {
           return tensor_split(x, std::vector<int64_t>{1, -1}, 1);
         }),
      sized(of("hsplit", {2, 4}, [](const Tensor& x) { return hsplit(x, 2); })),
      sized(of("vsplit", {4, 2}, [](const Tensor& x) { return vsplit(x, 2); })),
      sized(of("dsplit", {1, 2, 4}, [](const Tensor& x) { return dsplit(x, 2); })),
      {"meshgrid", {{{2}}, {{3}}}, [](const Tensors& x) { return meshgrid(x); }},
      {"meshgrid (xy)", {{{2}}, {{3}}}, [](const Tensors& x) { return meshgrid(x, Indexing::xy); }},
      {"cartesian_prod", {{{2}}, {{3}}}, [](const Tensors& x) { return cartesian_prod(x); }},
      sized(of("combinations", {4}, [](const Tensor& x) { return combinations(x, 2); })),
      sized(of("combinations (with replacement)", {3},
               [](const Tensor& x) { return combinations(x, 2, true); })),
      {"vander", {{{3}, {0.3, 2.0}}}, [](const Tensors& x) { return vander(x[0]); }},
  };
}

}  // namespace

Rows dimension_rows() {
  Rows rows = named_rows();
  for (const Rows& part : {turned_rows(), stack_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("dimensions, stacks and grids: values, layouts and derivatives") {
  check_rows(dimension_rows());
}

}  // namespace hero::test
