// Operations on shapes and indices and their like with the largest and the smallest integers.
#include "autograd/ops/extremes.h"

#include <hero/autograd/ops.h>

namespace {

using namespace hero;
using namespace hero::ends;

using D = Device;
using N = const Numbers&;

Tensor positions(int64_t at) { return tensor(std::vector<int64_t>{0, at}); }

// x, changed in place.
template <class F>
Results changed(Tensor x, F&& f) {
  f(x);
  return {x};
}

std::vector<Case> shapes() {
  return {
      {"movedim", {0, 1}, [](N n, D d) { return Results{movedim(matrix(d), n[0], n[1])}; }},
      {"squeeze of dims",
       {0, 1},
       [](N n, D d) {
         return Results{squeeze(matrix(d), Numbers{n[0], n[1]})};
       }},
      {"unflatten",
       {1, 2, 2},
       [](N n, D d) {
         return Results{unflatten(matrix(d), n[0], {n[1], n[2]})};
       }},
      {"broadcast_to",
       {2, 3, 4},
       [](N n, D d) {
         return Results{broadcast_to(matrix(d), {n[0], n[1], n[2]})};
       }},
      {"tile",
       {2, 3, 1},
       [](N n, D d) {
         return Results{tile(matrix(d), {n[0], n[1], n[2]})};
       }},
      {"rot90",
       {1, 0, 1},
       [](N n, D d) {
         return Results{rot90(matrix(d), n[0], {n[1], n[2]})};
       }},
      {"repeat_interleave of all",
       {2},
       [](N n, D d) { return Results{list(d).repeat_interleave(n[0])}; }},
      {"diag_embed",
       {1, -2, -1},
       [](N n, D d) { return Results{diag_embed(list(d), n[0], n[1], n[2])}; }},
      {"diagflat", {1}, [](N n, D d) { return Results{diagflat(list(d), n[0])}; }},
      {"pixel_shuffle",
       {2},
       [](N n, D d) {
         return Results{pixel_shuffle(ones({1, 4, 2, 2}, {.device = d}), n[0])};
       }},
      {"pixel_unshuffle",
       {2},
       [](N n, D d) {
         return Results{pixel_unshuffle(ones({1, 1, 4, 4}, {.device = d}), n[0])};
       }},
      {"channel_shuffle", {2}, [](N n, D d) { return Results{channel_shuffle(image(d), n[0])}; }},
      {"tensor_split", {2, 0}, [](N n, D d) { return tensor_split(matrix(d), n[0], n[1]); }},
      {"tensor_split at indices",
       {1, 2, 0},
       [](N n, D d) {
         return tensor_split(matrix(d), Numbers{n[0], n[1]}, n[2]);
       }},
      {"hsplit", {2}, [](N n, D d) { return hsplit(matrix(d), n[0]); }},
      {"combinations", {2}, [](N n, D) { return Results{combinations(list(kCpu), n[0])}; }},
      {"combinations with replacement",
       {2},
       [](N n, D) { return Results{combinations(list(kCpu), n[0], true)}; }},
      {"combinations of one element",
       {2},
       [](N n, D) { return Results{combinations(ones({1}), n[0], true)}; }},
      {"tril_indices",
       {3, 4, 0},
       [](N n, D d) { return Results{tril_indices(n[0], n[1], n[2], d)}; }},
      {"triu_indices",
       {3, 4, 0},
       [](N n, D d) { return Results{triu_indices(n[0], n[1], n[2], d)}; }},
      {"logspace", {5}, [](N n, D d) { return Results{logspace(0, 1, n[0], 10, {.device = d})}; }},
      {"vander", {3}, [](N n, D d) { return Results{vander(list(d), n[0])}; }},
      {"x({..})",
       {1, 0, 3, 2},
       [](N n, D d) {
         return Results{matrix(d)({n[0], Slice(n[1], n[2], n[3])})};
       }},
      {"x({..}) backwards",
       {1, 3, 0, -2},
       [](N n, D d) {
         return Results{matrix(d)({n[0], Slice(n[1], n[2], n[3])})};
       }},
      {"circular pad",
       {1, 2},
       [](N n, D d) {
         return Results{pad(line(d), {n[0], n[1]}, PadMode::circular)};
       }},
  };
}

std::vector<Case> indices() {
  return {
      {"take", {1}, [](N n, D) { return Results{take(matrix(kCpu), positions(n[0]))}; }},
      {"put", {1}, [](N n, D) { return Results{put(matrix(kCpu), positions(n[0]), zeros({2}))}; }},
      {"take_along_dim",
       {1, 0},
       [](N n, D) { return Results{take_along_dim(list(kCpu), positions(n[0]), n[1])}; }},
      {"index_fill",
       {0, 1},
       [](N n, D) { return Results{index_fill(matrix(kCpu), n[0], positions(n[1]), 2)}; }},
      {"index_copy",
       {0, 1},
       [](N n, D) {
         return Results{index_copy(matrix(kCpu), n[0], positions(n[1]), zeros({2, 4}))};
       }},
      {"scatter",
       {0, 1},
       [](N n, D) { return Results{scatter(list(kCpu), n[0], positions(n[1]), zeros({2}))}; }},
      {"scatter_reduce",
       {0, 1},
       [](N n, D) {
         return Results{
             scatter_reduce(list(kCpu), n[0], positions(n[1]), zeros({2}), ScatterReduce::mean)};
       }},
      {"select_scatter",
       {0, 1},
       [](N n, D) { return Results{select_scatter(matrix(kCpu), zeros({4}), n[0], n[1])}; }},
      {"slice_scatter",
       {0, 0, 2, 1},
       [](N n, D) {
         return Results{slice_scatter(matrix(kCpu), zeros({2, 4}), n[0], n[1], n[2], n[3])};
       }},
      {"diagonal_scatter",
       {0, 0, 1},
       [](N n, D) {
         return Results{diagonal_scatter(matrix(kCpu), zeros({3}), n[0], n[1], n[2])};
       }},
      {"embedding_bag",
       {1, 0, 0},
       [](N n, D) {
         return Results{embedding_bag(matrix(kCpu), positions(n[0]),
                                      {.offsets = tensor(Numbers{0, n[1]}), .padding_idx = n[2]})};
       }},
      {"bincount", {1, 4}, [](N n, D) { return Results{bincount(positions(n[0]), {}, n[1])}; }},
      {"histc", {5}, [](N n, D) { return Results{histc(list(kCpu), n[0])}; }},
      {"unique", {0}, [](N n, D) { return Results{unique(matrix(kCpu), {.dim = n[0]}).values}; }},
      {"kthvalue",
       {2, 0},
       [](N n, D d) { return Results{kthvalue(matrix(d), n[0], n[1]).values}; }},
      {"median", {0}, [](N n, D d) { return Results{median(matrix(d), n[0]).values}; }},
      {"mode", {0}, [](N n, D d) { return Results{mode(matrix(d), n[0]).values}; }},
      {"quantile", {0}, [](N n, D d) { return Results{quantile(matrix(d), 0.5, {.dim = n[0]})}; }},
      {"cummax", {0}, [](N n, D d) { return Results{cummax(matrix(d), n[0]).values}; }},
      {"diff", {1, 0}, [](N n, D d) { return Results{diff(matrix(d), n[0], n[1])}; }},
      {"multinomial", {3}, [](N n, D) { return Results{multinomial(list(kCpu), n[0])}; }},
      {"multinomial with replacement",
       {3},
       [](N n, D) { return Results{multinomial(list(kCpu), n[0], true)}; }},
      {"random_",
       {0, 5},
       [](N n, D d) {
         return changed(list(d).to(kInt64), [&](Tensor& x) { x.random_(n[0], n[1]); });
       }},
  };
}

std::vector<Case> numbers_and_products() {
  return {
      {"polygamma", {2}, [](N n, D d) { return Results{polygamma(n[0], list(d))}; }},
      {"round", {2}, [](N n, D d) { return Results{round(list(d), n[0])}; }},
      {"shifts",
       {5, 2},
       [](N n, D) {
         const Tensor x = tensor(Numbers{n[0]});
         return Results{x << n[1], x >> n[1]};
       }},
      {"quotients",
       {5, 2},
       [](N n, D) {
         const Tensor x = tensor(Numbers{n[0]});
         return Results{floor_divide(x, n[1]), div(x, n[1], Rounding::trunc), fmod(x, n[1]),
                        floor_divide(n[1], x), x % n[1]};
       }},
      {"tensordot",
       {1},
       [](N n, D d) {
         return Results{tensordot(matrix(d), ones({4, 2}, {.device = d}), n[0])};
       }},
      {"tensordot over dims",
       {1, 0},
       [](N n, D d) {
         return Results{tensordot(matrix(d), ones({4, 2}, {.device = d}), Dims{n[0]}, Dims{n[1]})};
       }},
      {"cross", {0}, [](N n, D d) { return Results{cross(matrix(d), matrix(d), n[0])}; }},
      {"matrix_power", {3}, [](N n, D) { return Results{matrix_power(eye(3) * 0.5, n[0])}; }},
      {"local_response_norm",
       {3},
       [](N n, D d) { return Results{local_response_norm(image(d), n[0])}; }},
      {"normalize", {1}, [](N n, D d) { return Results{normalize(matrix(d), 2.0, n[0])}; }},
  };
}

TEST_CASE("further shapes survive extreme integers", "[autograd]") { try_cases(shapes()); }
TEST_CASE("further indices survive extreme integers", "[autograd]") { try_cases(indices()); }
TEST_CASE("further numbers survive extreme integers", "[autograd]") {
  try_cases(numbers_and_products());
}

TEST_CASE("lists of a triangle take the room of their elements", "[autograd]") {
  const auto both = [](int64_t rows, int64_t columns, int64_t offset) {
    for (const bool upper : {false, true}) {
      INFO(rows << " " << columns << " " << offset << " " << upper);
      std::vector<int64_t> row, column;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          if (upper ? j - i < offset : j - i > offset) continue;
          row.push_back(i);
          column.push_back(j);
        }
      }
      const Tensor got =
          upper ? triu_indices(rows, columns, offset) : tril_indices(rows, columns, offset);
      REQUIRE(got.shape() == Shape{2, static_cast<int64_t>(row.size())});
      REQUIRE(got[0].to_vector<int64_t>() == row);
      REQUIRE(got[1].to_vector<int64_t>() == column);
      const Tensor planned = upper ? triu_indices(rows, columns, offset, kMeta)
                                   : tril_indices(rows, columns, offset, kMeta);
      REQUIRE(planned.shape() == got.shape());
    }
  };
  for (int64_t rows = 0; rows < 5; ++rows) {
    for (int64_t columns = 0; columns < 5; ++columns) {
      for (int64_t offset = -6; offset <= 6; ++offset) both(rows, columns, offset);
    }
  }
  // A list of few elements of a large matrix.
  REQUIRE(triu_indices(kMost, 3, 1).to_vector<int64_t>() == Numbers{0, 0, 1, 1, 2, 2});
  REQUIRE(tril_indices(2, kMost, 0).to_vector<int64_t>() == Numbers{0, 1, 1, 0, 0, 1});
  REQUIRE(triu_indices(kMost, 0, kLeast).shape() == Shape{2, 0});
  REQUIRE(tril_indices(kMost, 1, -(kMost - 1)).to_vector<int64_t>() == Numbers{kMost - 1, 0});
}

TEST_CASE("combinations are those of Pascal's triangle, in order", "[autograd]") {
  const Tensor x = arange(4);
  REQUIRE(combinations(x, 3).to_vector<int64_t>() == Numbers{0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3});
  REQUIRE(combinations(x.slice(0, 0, 2), 3, true).to_vector<int64_t>() ==
          Numbers{0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1});
  REQUIRE(combinations(x, 7).shape() == Shape{0, 7});
  REQUIRE(combinations(x.slice(0, 0, 0), 2, true).shape() == Shape{0, 2});
  REQUIRE(combinations(x.slice(0, 0, 1), 100000, true).shape() == Shape{1, 100000});
}

}  // namespace
