#include <cmath>

#include "autograd/tables/elementwise_rows.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// Roots of sums of squares of windows 2 x 3 that move by 1 and 2, of planes [.., 4, 5].
Values root_sums(const Tensors& x) {
  const Values in = x[0].to_vector<double>();
  Values out;
  for (size_t plane = 0; plane < in.size() / 20; ++plane) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; j += 2) {
        double sum = 0.0;
        for (size_t k = 0; k < 6; ++k) {
          const double value = in[plane * 20 + (i + k / 3) * 5 + j + k % 3];
          sum += value * value;
        }
        out.push_back(std::sqrt(sum));
      }
    }
  }
  return out;
}

// The numbers of two planes [5, 6]; those of columns come first.
Tensor two_samples(const Tensor& like) {
  const Tensor all = tensor({0.3, 0.55, 0.8, 0.1}, {.dtype = like.dtype()});
  return reshape(all, {1, 2, 2}).to(like.device());
}

// Maxima of 3 x 2 windows of 2 x 3, of planes [5, 6].
Values fractional(const Tensors& x) {
  const Values in = x[0].to_vector<double>();
  const double samples[2][2] = {{0.3, 0.55}, {0.8, 0.1}};
  Values out;
  for (size_t plane = 0; plane < 2; ++plane) {
    const auto start = [&](double sample, size_t i, size_t count, double apart) {
      if (i + 1 == count) return size_t(apart * double(count - 1) + 0.5);
      return size_t(std::floor((double(i) + sample) * apart) - std::floor(sample * apart));
    };
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        const size_t top = start(samples[plane][1], i, 3, 1.5);
        const size_t left = start(samples[plane][0], j, 2, 3.0);
        double largest = -INFINITY;
        for (size_t k = 0; k < 6; ++k) {
          largest = std::fmax(largest, in[plane * 30 + (top + k / 3) * 6 + left + k % 3]);
        }
        out.push_back(largest);
      }
    }
  }
  return out;
}

Rows fractional_rows() {
  Rows rows{
      sized(
          "fractional_max_pool2d", {{{1, 2, 5, 6}}},
          [](const Tensors& x) {
            return fractional_max_pool2d(
                x[0], {2, 3}, {.output_size = Pair{3, 2}, .random_samples = two_samples(x[0])});
          },
          fractional),
      sized("fractional_max_pool2d_with_indices", {{{2, 5, 6}}},
            [](const Tensors& x) {
              return fractional_max_pool2d_with_indices(
                  x[0], {2, 2},
                  {.output_ratio = {{0.5, 0.7}}, .random_samples = two_samples(x[0])});
            }),
      sized("fractional_max_pool3d_with_indices", {{{1, 1, 3, 4, 5}}},
            [](const Tensors& x) {
              const Tensor samples = tensor({0.2, 0.5, 0.9}, {.dtype = x[0].dtype()});
              return fractional_max_pool3d_with_indices(
                  x[0], {1, 2, 2},
                  {.output_size = Triple{2, 2, 3},
                   .random_samples = reshape(samples, {1, 1, 3}).to(x[0].device())});
            }),
      sized("fractional_max_pool3d", {{{1, 3, 3, 3}}},
            [](const Tensors& x) {
              return fractional_max_pool3d(x[0], {2, 2, 2}, {.output_size = Triple{1, 1, 1}});
            }),
  };
  for (OpRow& row : rows) row = untied(std::move(row));
  return rows;
}

}  // namespace

Rows pool_more_rows() {
  Rows rows{
      sized("lp_pool1d", {{{2, 5}, kPositive}},
            [](const Tensors& x) {
              return lp_pool1d(x[0], 1.5, 2, {.stride = 1, .ceil_mode = true});
            }),
      sized(
          "lp_pool2d", {{{1, 2, 4, 5}}},
          [](const Tensors& x) {
            return lp_pool2d(x[0], 2.0, {2, 3}, {.stride = Pair{1, 2}});
          },
          root_sums),
      sized("lp_pool3d", {{{1, 2, 3, 2, 4}, kPositive}},
            [](const Tensors& x) {
              return lp_pool3d(x[0], 3.0, {2, 2, 2});
            }),
      {.name = "rrelu",
       .inputs = {{{2, 3}, {-2.0, 2.0, {0.0}}}},
       .call = [](const Tensors& x) { return rrelu(x[0], 0.1, 0.3); },
       .scalar = [](const Values& x) { return x[0] > 0 ? x[0] : 0.2 * x[0]; }},
      {.name = "rrelu (training, one slope)",
       .inputs = {{{2, 3}, {-2.0, 2.0, {0.0}}}},
       .call = [](const Tensors& x) { return rrelu(x[0], 0.4, 0.4, true); },
       .scalar = [](const Values& x) { return x[0] > 0 ? x[0] : 0.4 * x[0]; }},
      {.name = "feature_alpha_dropout (all)",
       .inputs = {{{2, 3, 2}}},
       .call = [](const Tensors& x) { return feature_alpha_dropout(x[0], 1.0, true); },
       .scalar = [](const Values&) { return 0.0; }},
  };
  for (OpRow& row : fractional_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace hero::test
