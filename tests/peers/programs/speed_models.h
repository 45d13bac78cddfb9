#pragma once
// Operators with the shapes of models among those of speed_operators.h.
#include "speed_maps.h"

namespace peers {

template <class Side>
Operators<Side> models() {
  using List = const std::vector<typename Side::Tensor>&;
  const std::vector<std::vector<int64_t>> one = {{4'000'000}}, matrix = {{4096, 1024}};
  const std::vector<std::vector<int64_t>> images = {{8, 320, 32, 32}, {320}, {320}};
  const std::vector<std::vector<int64_t>> halves = {{4096, 1024}, {4096, 1024}};
  const auto groups = [](List x) { return Side::group_norm(x[0], x[1], x[2]); };
  const auto rows = [](List x) { return Side::layer_norm(x[0], x[1], x[2]); };
  const auto table = [](List x) { return Side::embedding(x[0], 4096); };
  const auto classes = [](List x) { return log_softmax(x[0], 1); };
  return {
      {"dropout", one, [](List x) { return dropout(x[0], 0.1, true); }},
      {"groups_320", images, groups},
      {"groups_320_bf16", images, groups, true, true},
      {"instances", {{8, 320, 32, 32}}, [](List x) { return Side::instance_norm(x[0]); }},
      {"rows_768", {{2048, 768}, {768}, {768}}, rows},
      {"rows_1000", {{2048, 1000}, {1000}, {1000}}, rows},
      {"rows_4097", {{512, 4097}, {4097}, {4097}}, rows},
      {"gather_first", matrix, [](List x) { return gather(x[0], 0, Side::places(x[0])); }},
      {"gather_last",
       {{4096, 1024}},
       [](List x) { return gather(x[0], 1, remainder(Side::places(x[0]), 1024)); }},
      {"scatter_add_first", halves,
       [](List x) { return scatter_add(x[0], 0, Side::places(x[1]), x[1]); }},
      {"index_add",
       {{4096, 1024}, {2048, 1024}},
       [](List x) { return Side::index_add(x[0], x[1]); }},
      {"embedding_bf16", {{32000, 768}}, table, true, true},
      {"log_softmax_bf16", {{256, 32000}}, classes, true, true},
      {"gelu_bf16", one, [](List x) { return gelu(x[0]); }, true, true},
      {"silu_bf16", one, [](List x) { return silu(x[0]); }, true, true},
      {"einsum_rows",
       {{64, 256, 128}, {64, 256, 128}},
       [](List x) {
         return Side::einsum("bij,bij->bi", {x[0], x[1]});
       }},
      {"sum_turned", matrix, [](List x) { return Side::transposed(x[0]).sum(); }},
      {"sum_turned_rows", matrix, [](List x) { return Side::transposed(x[0]).sum({1}); }},
      {"sum_expanded",
       {{4096, 1}},
       [](List x) {
         return x[0].expand({4096, 1024}).sum({0});
       }},
  };
}

}  // namespace peers
