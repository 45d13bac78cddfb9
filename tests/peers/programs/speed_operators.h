#pragma once
// Operators that both sides of tests/peers/run time, written once: a Side names the tensor, and the
// functions that the two libraries spell differently.
#include "speed_maps.h"
#include "speed_models.h"

namespace peers {

template <class Side>
Operators<Side> moves() {
  using List = const std::vector<typename Side::Tensor>&;
  return {
      {"flip_lines", {{32, 3, 224, 224}}, [](List x) { return x[0].flip({3}); }},
      {"flip_planes", {{32, 3, 224, 224}}, [](List x) { return x[0].flip({2}); }},
      {"flip_both",
       {{32, 3, 224, 224}},
       [](List x) {
         return x[0].flip({2, 3});
       }},
      {"roll_lines", {{32, 56, 56, 96}}, [](List x) { return x[0].roll({3}, {3}); }},
      {"roll_windows",
       {{32, 56, 56, 96}},
       [](List x) {
         return x[0].roll({3, 3}, {1, 2});
       }},
      {"repeat",
       {{64, 1, 4096}},
       [](List x) {
         return x[0].repeat({1, 16, 1});
       }},
      {"repeat_lines",
       {{1024, 256}},
       [](List x) {
         return x[0].repeat({1, 8});
       }},
      {"repeat_interleave", {{8, 4, 512, 64}}, [](List x) { return x[0].repeat_interleave(4, 1); }},
      {"repeat_interleave_last",
       {{1024, 1024}},
       [](List x) { return x[0].repeat_interleave(4, 1); }},
      {"pad_zeros", {{32, 64, 56, 56}}, [](List x) { return Side::pad_zeros(x[0]); }},
      {"pad_reflect", {{32, 64, 56, 56}}, [](List x) { return Side::pad_reflect(x[0]); }},
      {"pad_replicate", {{32, 64, 56, 56}}, [](List x) { return Side::pad_replicate(x[0]); }},
      {"transpose", {{4096, 1024}}, [](List x) { return Side::contiguous(x[0].t()); }},
      {"heads",
       {{8, 512, 12, 64}},
       [](List x) {
         return Side::contiguous(x[0].permute({0, 2, 1, 3}));
       }},
      {"nchw_nhwc",
       {{32, 64, 56, 56}},
       [](List x) {
         return Side::contiguous(x[0].permute({0, 2, 3, 1}));
       }},
      {"cat_channels",
       {{32, 64, 28, 28}, {32, 64, 28, 28}},
       [](List x) { return Side::cat(x, 1); }},
      {"cat_last", {{4096, 256}, {4096, 256}}, [](List x) { return Side::cat(x, 1); }},
      {"stack_last", {{1024, 1024}, {1024, 1024}}, [](List x) { return Side::stack(x, 2); }},
      {"pixel_shuffle", {{8, 256, 64, 64}}, [](List x) { return pixel_shuffle(x[0], 2); }},
      {"tril", {{64, 512, 512}}, [](List x) { return x[0].tril(0); }},
      {"masked_fill",
       {{64, 512, 512}, {512, 512}},
       [](List x) { return x[0].masked_fill(x[1] > 0, -1e9); }},
      {"where",
       {{64, 512, 512}, {64, 512, 512}},
       [](List x) { return where(x[0] > 0, x[0], x[1]); }},
      {"select_steps",
       {{64, 256, 128}},
       [](List x) {
         auto sum = x[0].select(1, 0);
         for (int64_t t = 1; t < 256; ++t) sum = sum + x[0].select(1, t);
         return sum;
       }},
      {"embedding", {{32000, 512}}, [](List x) { return Side::embedding(x[0], 8192); }},
      {"index_select", {{32000, 512}}, [](List x) { return Side::index_select(x[0], 8192); }},
      {"grid_sample",
       {{8, 32, 64, 64}, {8, 64, 64, 2}},
       [](List x) { return Side::grid_sample(x[0], x[1] * 0.25); }},
      {"unfold", {{16, 64, 28, 28}}, [](List x) { return Side::unfold(x[0]); }},
  };
}

template <class Side>
Operators<Side> reductions() {
  using List = const std::vector<typename Side::Tensor>&;
  const std::vector<std::vector<int64_t>> matrix = {{4096, 1024}}, volume = {{32, 64, 56, 56}};
  return {
      {"softmax_channels", volume, [](List x) { return softmax(x[0], 1); }},
      {"log_softmax_channels", volume, [](List x) { return log_softmax(x[0], 1); }},
      {"softmax_short", {{100'000, 10}}, [](List x) { return softmax(x[0], 1); }},
      {"logsumexp_last", matrix, [](List x) { return x[0].logsumexp(1); }},
      {"logsumexp_channels", volume, [](List x) { return x[0].logsumexp(1); }},
      {"cumsum_last", matrix, [](List x) { return x[0].cumsum(1); }},
      {"cumsum_first", matrix, [](List x) { return x[0].cumsum(0); }},
      {"cumprod_last", matrix, [](List x) { return (x[0] * 0.1 + 1.0).cumprod(1); }},
      {"cumprod_first", matrix, [](List x) { return (x[0] * 0.1 + 1.0).cumprod(0); }},
      {"logcumsumexp", matrix, [](List x) { return logcumsumexp(x[0], 1); }},
      {"mean_planes", volume,
       [](List x) {
         return x[0].mean({2, 3});
       }},
      {"mean_channels", volume, [](List x) { return x[0].mean({1}); }},
      {"sum_outer", volume,
       [](List x) {
         return x[0].sum({0, 2, 3});
       }},
      {"var_last", matrix, [](List x) { return x[0].var(1); }},
      {"std_first", matrix, [](List x) { return x[0].std(0); }},
      {"norm_2", matrix, [](List x) { return x[0].norm(2.0, 1); }},
      {"amax_last", matrix, [](List x) { return x[0].amax({1}); }},
      {"amax_channels", volume, [](List x) { return x[0].amax({1}); }},
      {"prod_last", matrix, [](List x) { return (x[0] * 0.1 + 1.0).prod(1); }},
      {"argmax_last", matrix, [](List x) { return x[0].argmax(1); }, false},
      {"argmax_channels", volume, [](List x) { return x[0].argmax(1); }, false},
      {"median_last", matrix, [](List x) { return Side::median(x[0], 1); }},
      {"median_all", {{1'000'000}}, [](List x) { return x[0].median(); }},
      {"kthvalue", matrix, [](List x) { return Side::kthvalue(x[0], 100, 1); }},
      {"sort_last", matrix, [](List x) { return Side::sort(x[0], 1); }},
      {"sort_all", {{1'000'000}}, [](List x) { return Side::sort(x[0], 0); }},
      {"topk", {{64, 32'000}}, [](List x) { return Side::topk(x[0], 50); }},
      {"quantile", {{1'000'000}}, [](List x) { return quantile(x[0], 0.9); }},
      {"histc", {{1'000'000}}, [](List x) { return x[0].histc(100, -4.0, 4.0); }, false},
      {"bincount", {{1'000'000}}, [](List x) { return Side::bincount(x[0]); }, false},
      {"nonzero", {{2048, 2048}}, [](List x) { return (x[0] > 2.0).nonzero(); }, false},
      {"masked_select", {{2048, 2048}}, [](List x) { return x[0].masked_select(x[0] > 2.0); }},
      {"cross_entropy", {{4096, 1000}}, [](List x) { return Side::cross_entropy(x[0]); }},
      {"nll_channels",
       {{8, 21, 128, 128}},
       [](List x) { return Side::cross_entropy_planes(x[0]); }},
      {"layer_norm", {{4096, 768}}, [](List x) { return Side::layer_norm(x[0]); }},
      {"group_norm", volume, [](List x) { return group_norm(x[0], 8); }},
      {"max_pool", volume, [](List x) { return Side::max_pool(x[0]); }},
      {"avg_pool", volume, [](List x) { return Side::avg_pool(x[0]); }},
      {"cdist", {{1024, 64}, {1024, 64}}, [](List x) { return cdist(x[0], x[1]); }},
      {"cosine", {{4096, 256}, {4096, 256}}, [](List x) { return Side::cosine(x[0], x[1]); }},
  };
}

template <class Side>
Operators<Side> algebra() {
  using List = const std::vector<typename Side::Tensor>&;
  const auto definite = [](const auto& a) {
    return matmul(a, Side::transposed(a)) + Side::eye(a.size(-1));
  };
  return {
      {"solve_256", {{256, 256}, {256, 64}}, [](List x) { return Side::solve(x[0], x[1]); }},
      {"solve_batch",
       {{512, 16, 16}, {512, 16, 4}},
       [](List x) { return Side::solve(x[0], x[1]); }},
      {"inverse_256", {{256, 256}}, [](List x) { return Side::inverse(x[0]); }},
      {"cholesky_256", {{256, 256}}, [=](List x) { return Side::cholesky(definite(x[0])); }},
      {"eigh_128", {{128, 128}}, [=](List x) { return Side::eigh(definite(x[0])); }},
      {"eigh_batch", {{256, 16, 16}}, [=](List x) { return Side::eigh(definite(x[0])); }},
      {"qr_256", {{256, 128}}, [](List x) { return Side::qr(x[0]); }},
      {"det_64", {{32, 64, 64}}, [](List x) { return Side::det(x[0]); }},
      {"einsum_heads",
       {{8, 12, 128, 64}, {8, 12, 128, 64}},
       [](List x) {
         return Side::einsum("bhqd,bhkd->bhqk", {x[0], x[1]});
       }},
      {"einsum_mixed",
       {{8, 128, 12, 64}, {8, 128, 12, 64}},
       [](List x) {
         return Side::einsum("bqhd,bkhd->bhqk", {x[0], x[1]});
       }},
      {"einsum_small",
       {{16, 32}, {32, 24}},
       [](List x) {
         return Side::einsum("ij,jk->ik", {x[0], x[1]});
       }},
      {"einsum_bilinear",
       {{256, 32}, {64, 32, 32}, {256, 32}},
       [](List x) {
         return Side::einsum("bi,oij,bj->bo", {x[0], x[1], x[2]});
       }},
      {"bmm_small", {{1024, 16, 16}, {1024, 16, 16}}, [](List x) { return matmul(x[0], x[1]); }},
      {"matvec", {{4096, 4096}, {4096}}, [](List x) { return matmul(x[0], x[1]); }},
      {"conv_dilated",
       {{16, 64, 56, 56}, {64, 64, 3, 3}},
       [](List x) { return Side::conv_dilated(x[0], x[1]); }},
      {"conv1d", {{32, 64, 1024}, {64, 64, 5}}, [](List x) { return Side::conv1d(x[0], x[1]); }},
  };
}

template <class Side>
Operators<Side> operators() {
  Operators<Side> all = moves<Side>();
  for (const auto& more : {functions<Side>(), activations<Side>(), pairs<Side>(),
                           reductions<Side>(), algebra<Side>(), models<Side>()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace peers
