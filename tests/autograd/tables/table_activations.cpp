// Rows of activations, losses and relatives that are composed of other operations.
#include <algorithm>
#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/random.h>

namespace hero::test {

namespace {

// 1 and -1 by turns.
Tensor signs(const Shape& shape, const Tensor& like) { return indices(shape, 2, like) * 2 - 1; }

Rows activation_rows() {
  const Domain bends{-2.0, 2.0, {0.0}}, steep{-5.0, 5.0, {-3.0, 3.0}};
  Rows rows = {
      one(
          "selu", selu,
          [](double x) {
            const double scale = 1.0507009873554805, alpha = 1.6732632423543772;
            return scale * (x > 0.0 ? x : alpha * std::expm1(x));
          },
          bends),
      one(
          "celu", [](const Tensor& x) { return celu(x, 0.7); },
          [](double x) { return x > 0.0 ? x : 0.7 * std::expm1(x / 0.7); }, bends),
      one(
          "hardsigmoid", hardsigmoid, [](double x) { return std::clamp(x + 3.0, 0.0, 6.0) / 6.0; },
          steep),
      one("tanhshrink", tanhshrink, [](double x) { return x - std::tanh(x); }),
      one(
          "softshrink", [](const Tensor& x) { return softshrink(x, 0.4); },
          [](double x) { return std::fabs(x) > 0.4 ? x - std::copysign(0.4, x) : 0.0; },
          {-2.0, 2.0, {-0.4, 0.4}}),
      one(
          "hardshrink", [](const Tensor& x) { return hardshrink(x, 0.4); },
          [](double x) { return std::fabs(x) > 0.4 ? x : 0.0; }, {-2.0, 2.0, {-0.4, 0.4}}),
      one(
          "threshold", [](const Tensor& x) { return threshold(x, 0.3, -7.0); },
          [](double x) { return x > 0.3 ? x : -7.0; }, {-2.0, 2.0, {0.3}}),
      sized("prelu (channels)", {{{2, 3, 2}, bends}, {{3}}}, prelu),
      sized("glu", {{{2, 4}}}, [](const Tensors& x) { return glu(x[0]); }),
      sized("glu (first)", {{{4, 3}}}, [](const Tensors& x) { return glu(x[0], 0); }),
      {"softmin", {{{2, 3}}}, [](const Tensors& x) { return softmin(x[0], 1); }},
      {"prelu", {{{2, 3}, bends}, {{1}}}, prelu},
  };
  rows.back().empty = {{0, 3}, {1}};
  return rows;
}

Rows margin_loss_rows() {
  const Domain share{0.1, 0.9}, low{-2.0, -0.1}, high{0.2, 2.0};
  const Shape s = {3, 4};
  // Kinks of the margins lie outside of what the rows draw but for a set of measure zero.
  Rows rows = {
      {"binary_cross_entropy",
       {{s, share}, {s, share}},
       [](const Tensors& x) { return binary_cross_entropy(x[0], x[1]); }},
      {"binary_cross_entropy (weight)",
       {{s, share}, {s, share}, {s}},
       [](const Tensors& x) { return binary_cross_entropy(x[0], x[1], {.weight = x[2]}); }},
      {"bce_with_logits (weights)",
       {{s}, {s, share}, {s}, {s}},
       [](const Tensors& x) {
         return binary_cross_entropy_with_logits(x[0], x[1], {.weight = x[2], .pos_weight = x[3]});
       }},
      {"hinge_embedding_loss",
       {{s, {-2.0, 2.0, {1.3}}}},
       [](const Tensors& x) { return hinge_embedding_loss(x[0], signs(x[0].shape(), x[0]), 1.3); }},
      {"soft_margin_loss",
       {{s}},
       [](const Tensors& x) { return soft_margin_loss(x[0], signs(x[0].shape(), x[0])); }},
      {"margin_ranking_loss",
       {{s}, {s}},
       [](const Tensors& x) {
         return margin_ranking_loss(x[0], x[1], signs(x[0].shape(), x[0]), 0.4);
       }},
      {"cosine_embedding_loss",
       {{s}, {s}},
       [](const Tensors& x) {
         return cosine_embedding_loss(x[0], x[1], signs({x[0].size(0)}, x[0]), -0.95);
       }},
      {"triplet_margin_loss",
       {{s}, {s}, {s}},
       [](const Tensors& x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 2.0}); }},
      {"triplet_margin_loss (swap)",
       {{s}, {s}, {s}},
       [](const Tensors& x) {
         return triplet_margin_loss(x[0], x[1], x[2], {.margin = 5.0, .p = 3.0, .swap = true});
       }},
      {"multi_margin_loss",
       {{s}},
       [](const Tensors& x) {
         return multi_margin_loss(x[0], indices({x[0].size(0)}, x[0].size(1), x[0]));
       }},
      {"multi_margin_loss (squares, weights)",
       {{s}, {{4}}},
       [](const Tensors& x) {
         return multi_margin_loss(x[0], indices({x[0].size(0)}, x[0].size(1), x[0]),
                                  {.p = 2, .margin = 1.5, .weight = x[1]});
       }},
      {"multilabel_soft_margin_loss",
       {{s}, {s, share}},
       [](const Tensors& x) { return multilabel_soft_margin_loss(x[0], x[1]); }},
      {"poisson_nll_loss",
       {{s}, {s, high}},
       [](const Tensors& x) { return poisson_nll_loss(x[0], x[1]); }},
      {"poisson_nll_loss (rate)",
       {{s, high}, {s, {1.2, 3.0}}},
       [](const Tensors& x) {
         return poisson_nll_loss(x[0], x[1], {.log_input = false, .full = true});
       }},
      {"gaussian_nll_loss",
       {{s}, {s}, {s, high}},
       [](const Tensors& x) { return gaussian_nll_loss(x[0], x[1], x[2], {.full = true}); }},
      {"cross_entropy (probabilities)",
       {{s}, {s, share}, {{4}}},
       [](const Tensors& x) {
         return cross_entropy(x[0], x[1], {.weight = x[2], .label_smoothing = 0.1});
       }},
  };
  for (OpRow& row : rows) row.skip[Layout::empty] = kMeanOfNothing;
  rows.push_back({"pairwise_distance", {{s}, {s}}, [](const Tensors& x) {
                    return pairwise_distance(x[0], x[1]);
                  }});
  return rows;
}

Rows relative_rows() {
  // An odd count of distinct values in each window keeps maxima apart.
  return {
      sized("adaptive_max_pool1d", {{{2, 2, 6}}},
            [](const Tensors& x) { return adaptive_max_pool1d(x[0], 3); }),
      sized("adaptive_max_pool2d", {{{1, 2, 5, 4}}},
            [](const Tensors& x) {
              return adaptive_max_pool2d(x[0], {2, 3});
            }),
      sized("conv_transpose1d", {{{1, 2, 3}}, {{2, 2, 2}}, {{2}}},
            [](const Tensors& x) {
              return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .output_padding = 1});
            }),
      sized("upsample_nearest2d", {{{1, 2, 2, 3}}},
            [](const Tensors& x) {
              return upsample_nearest2d(x[0], {4, 5});
            }),
      {"dropout1d",
       {{{2, 2, 3}}},
       [](const Tensors& x) {
         manual_seed(5);  // the same channels each time
         return dropout1d(x[0], 0.5);
       }},
      {"dropout2d",
       {{{2, 2, 3, 2}}},
       [](const Tensors& x) {
         manual_seed(5);
         return dropout2d(x[0], 0.5);
       }},
      sized("bilinear", {{{2, 2, 3}}, {{2, 2, 2}}, {{2, 3, 2}}, {{2}}},
            [](const Tensors& x) { return bilinear(x[0], x[1], x[2], x[3]); }),
  };
}

}  // namespace

TEST_CASE("composed activations: values, layouts and derivatives") {
  check_rows(activation_rows());
}

TEST_CASE("losses of margins and probabilities: layouts and derivatives") {
  check_rows(margin_loss_rows());
}

TEST_CASE("one-dimensional relatives, adaptive maxima and bilinear maps: layouts and derivatives") {
  check_rows(relative_rows());
}

}  // namespace hero::test
