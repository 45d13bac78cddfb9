#include <cmath>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// Bilinear to twice the size: 3/4 and 1/4 of neighbours, cut at the border.
Values doubled(const Tensors& x) {
  const Values in = x[0].to_vector<double>();
  const int64_t h = x[0].size(2), w = x[0].size(3);
  Values out;
  const auto at = [](int64_t i, int64_t size) {
    return std::fmin(std::fmax((double(i) + 0.5) / 2.0 - 0.5, 0.0), double(size - 1));
  };
  for (int64_t plane = 0; plane < x[0].size(0) * x[0].size(1); ++plane) {
    const auto pixel = [&](int64_t i, int64_t j) {
      return in[size_t((plane * h + std::min(i, h - 1)) * w + std::min(j, w - 1))];
    };
    for (int64_t i = 0; i < 2 * h; ++i) {
      for (int64_t j = 0; j < 2 * w; ++j) {
        const double y = at(i, h), z = at(j, w);
        const auto y0 = int64_t(y), z0 = int64_t(z);
        const double a = y - double(y0), b = z - double(z0);
        out.push_back((1 - a) * ((1 - b) * pixel(y0, z0) + b * pixel(y0, z0 + 1)) +
                      a * ((1 - b) * pixel(y0 + 1, z0) + b * pixel(y0 + 1, z0 + 1)));
      }
    }
  }
  return out;
}

Call scaled(const InterpolateOptions& options) {
  return [options](const Tensors& x) { return interpolate(x[0], options); };
}

Rows resampling_rows() {
  const Shape image{1, 2, 3, 4};
  return {
      sized("interpolate (bilinear)", {{image}},
            scaled({.scale_factor = {2.0}, .mode = Interpolation::bilinear}), doubled),
      sized("interpolate (nearest)", {{image}}, scaled({.size = {5, 3}})),
      sized("interpolate (nearest_exact)", {{image}},
            scaled({.size = {5, 3}, .mode = Interpolation::nearest_exact})),
      sized("interpolate (bicubic)", {{image}},
            scaled({.size = {5, 7}, .mode = Interpolation::bicubic, .align_corners = true})),
      sized("interpolate (area)", {{image}}, scaled({.size = {2, 3}, .mode = Interpolation::area})),
      sized("interpolate (antialias)", {{{1, 1, 6, 5}}},
            scaled({.size = {2, 3}, .mode = Interpolation::bilinear, .antialias = true})),
      sized("interpolate (linear)", {{{1, 2, 4}}},
            scaled({.size = {7}, .mode = Interpolation::linear})),
      sized("interpolate (trilinear)", {{{1, 1, 2, 3, 2}}},
            scaled({.scale_factor = {1.5}, .mode = Interpolation::trilinear})),
      sized("grid_sample", {{{1, 2, 3, 4}}, {{1, 2, 3, 2}, {-0.9, 0.9}}},
            [](const Tensors& x) { return grid_sample(x[0], x[1]); }),
      sized("grid_sample (bicubic)", {{{1, 1, 3, 4}}, {{1, 2, 2, 2}, {-0.9, 0.9}}},
            [](const Tensors& x) {
              return grid_sample(
                  x[0], x[1], {.mode = GridMode::bicubic, .padding_mode = GridPadding::reflection});
            }),
      sized("grid_sample (volumes)", {{{1, 1, 2, 3, 2}}, {{1, 2, 1, 2, 3}, {-0.7, 0.7}}},
            [](const Tensors& x) {
              return grid_sample(x[0], x[1], {.padding_mode = GridPadding::border});
            }),
      sized("affine_grid", {{{2, 2, 3}}},
            [](const Tensors& x) {
              return affine_grid(x[0], {2, 1, 3, 4});
            }),
  };
}

// Every place of a kernel of ones without padding: sums of boxes.
Values box_sums(const Tensors& x) {
  const Values in = x[0].to_vector<double>(), w = x[1].to_vector<double>();
  const auto s = x[0].shape();
  Values out;
  for (int64_t d = 0; d + 1 < s[2]; ++d) {
    for (int64_t h = 0; h + 1 < s[3]; ++h) {
      for (int64_t v = 0; v + 1 < s[4]; ++v) {
        double total = 0.0;
        for (int64_t k = 0; k < 8; ++k) {
          const int64_t a = d + k / 4, b = h + k / 2 % 2, c = v + k % 2;
          total += w[size_t(k)] * in[size_t((a * s[3] + b) * s[4] + c)];
        }
        out.push_back(total);
      }
    }
  }
  return out;
}

Rows volume_rows() {
  const Shape volume{1, 2, 3, 4, 3};
  return {
      sized(
          "conv3d", {{{1, 1, 3, 3, 4}}, {{1, 1, 2, 2, 2}}},
          [](const Tensors& x) { return conv3d(x[0], x[1]); }, box_sums),
      sized("conv3d (options)", {{volume}, {{4, 1, 2, 2, 1}}, {{4}}},
            [](const Tensors& x) {
              return conv3d(
                  x[0], x[1], x[2],
                  {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .dilation = {2, 1, 1}, .groups = 2});
            }),
      sized("conv_transpose3d", {{{1, 2, 2, 2, 3}}, {{2, 2, 2, 3, 2}}, {{2}}},
            [](const Tensors& x) {
              return conv_transpose3d(
                  x[0], x[1], x[2],
                  {.stride = {2, 1, 2}, .padding = {1, 1, 0}, .output_padding = {1, 0, 1}});
            }),
      sized("conv1d (same)", {{{1, 2, 5}}, {{2, 2, 2}}},
            [](const Tensors& x) { return conv1d(x[0], x[1], {}, PaddingWord::same); }),
      sized("conv2d (same)", {{{1, 1, 4, 3}}, {{2, 1, 3, 2}}},
            [](const Tensors& x) { return conv2d(x[0], x[1], {}, PaddingWord::same); }),
      sized("conv3d (same)", {{{1, 1, 2, 3, 3}}, {{1, 1, 1, 2, 3}}},
            [](const Tensors& x) { return conv3d(x[0], x[1], {}, PaddingWord::same); }),
      untied(sized("max_pool3d", {{volume}},
                   [](const Tensors& x) {
                     return max_pool3d(x[0], {2, 2, 2}, {.stride = Triple{1, 2, 1}});
                   })),
      sized("avg_pool3d", {{volume}},
            [](const Tensors& x) {
              return avg_pool3d(x[0], {2, 2, 2}, {.padding = {1, 0, 1}, .ceil_mode = true});
            }),
      sized("adaptive_avg_pool3d", {{volume}},
            [](const Tensors& x) {
              return adaptive_avg_pool3d(x[0], {2, 3, 2});
            }),
      untied(sized("adaptive_max_pool3d", {{volume}},
                   [](const Tensors& x) {
                     return adaptive_max_pool3d(x[0], {2, 3, 2});
                   })),
      untied(sized("max_pool3d_with_indices", {{volume}},
                   [](const Tensors& x) {
                     return max_pool3d_with_indices(x[0], {2, 2, 2}, {.padding = {1, 0, 1}});
                   })),
      untied(sized("adaptive_max_pool1d_with_indices", {{{1, 2, 5}}},
                   [](const Tensors& x) { return adaptive_max_pool1d_with_indices(x[0], 3); })),
      untied(sized("adaptive_max_pool2d_with_indices", {{{1, 1, 4, 5}}},
                   [](const Tensors& x) {
                     return adaptive_max_pool2d_with_indices(x[0], {3, -1});
                   })),
      untied(sized("adaptive_max_pool3d_with_indices", {{volume}},
                   [](const Tensors& x) {
                     return adaptive_max_pool3d_with_indices(x[0], {2, 3, -1});
                   })),
      sized("avg_pool2d (divisor_override)", {{{1, 2, 4, 5}}},
            [](const Tensors& x) {
              return avg_pool2d(x[0], {2, 3}, {.ceil_mode = true, .divisor_override = 5});
            }),
      sized("avg_pool3d (divisor_override)", {{volume}},
            [](const Tensors& x) {
              return avg_pool3d(x[0], {2, 2, 2}, {.ceil_mode = true, .divisor_override = 3});
            }),
      sized("max_unpool3d", {{{1, 1, 1, 2, 1}}},
            [](const Tensors& x) {
              const Tensor index = reshape(tensor({5, 2}).to(x[0].device()), {1, 1, 1, 2, 1});
              return max_unpool3d(x[0], index, {2, 2, 2});
            }),
      untied(sized("max_pool2d_with_indices", {{{1, 2, 4, 5}}},
                   [](const Tensors& x) {
                     return max_pool2d_with_indices(x[0], {2, 2});
                   })),
      untied(sized("max_pool1d_with_indices", {{{1, 2, 5}}},
                   [](const Tensors& x) { return max_pool1d_with_indices(x[0], 2); })),
      sized("max_unpool2d", {{{1, 1, 2, 2}}},
            [](const Tensors& x) {
              const Tensor index = tensor({{0, 3}, {9, 14}}).to(x[0].device());
              return max_unpool2d(x[0], reshape(index, {1, 1, 2, 2}), {4, 4});
            }),
      sized("max_unpool1d", {{{1, 1, 2}}},
            [](const Tensors& x) {
              const Tensor index = reshape(tensor({1, 2}).to(x[0].device()), {1, 1, 2});
              return max_unpool1d(x[0], index, 4);
            }),
      sized("unfold (images)", {{{1, 2, 4, 5}}},
            [](const Tensors& x) {
              return unfold(x[0], {2, 3}, {.padding = {1, 0}, .stride = {2, 1}});
            }),
      sized("fold", {{{1, 8, 6}}},
            [](const Tensors& x) {
              return fold(x[0], {3, 4}, {2, 2});
            }),
  };
}

Rows norm_and_loss_rows() {
  return {
      sized(
          "normalize", {{{2, 3}, {0.2, 2.0}}}, [](const Tensors& x) { return normalize(x[0]); },
          [](const Tensors& x) {
            Values v = x[0].to_vector<double>();
            for (size_t r = 0; r < v.size(); r += 3) {
              const double length = std::hypot(v[r], v[r + 1], v[r + 2]);
              for (size_t i = r; i < r + 3; ++i) v[i] /= length;
            }
            return v;
          }),
      sized("local_response_norm", {{{2, 4, 3}}},
            [](const Tensors& x) { return local_response_norm(x[0], 3, 0.3, 0.75, 2.0); }),
      sized("instance_norm", {{{2, 2, 4}}, {{2}}, {{2}}},
            [](const Tensors& x) {
              return instance_norm(x[0], {}, {}, {.weight = x[1], .bias = x[2]});
            }),
      sized("instance_norm (running statistics)", {{{2, 2, 4}}, {{2}}, {{2}}},
            [](const Tensors& x) {
              const Tensor one = ones({2}, {.dtype = kFloat64, .device = x[0].device()});
              return instance_norm(x[0], one, one * 2.0,
                                   {.weight = x[1], .bias = x[2], .use_input_stats = false});
            }),
      sized(
          "multilabel_margin_loss", {{{3}, {-0.2, 0.2}}},
          [](const Tensors& x) {
            return multilabel_margin_loss(x[0], tensor({2, -1, 0}).to(x[0].device()));
          },
          [](const Tensors& x) {
            const Values v = x[0].to_vector<double>();
            return Values{((1 - (v[2] - v[0])) + (1 - (v[2] - v[1]))) / 3.0};
          }),
      {.name = "ctc_loss",
       .inputs = {{{4, 2, 3}}},
       .call =
           [](const Tensors& x) {
             const Tensor like = x[0];
             const auto list = [&](std::vector<int64_t> v) { return tensor(v).to(like.device()); };
             return ctc_loss(log_softmax(x[0], -1), reshape(list({1, 2, 2, 0}), {2, 2}),
                             list({4, 3}), list({2, 1}), {.reduction = Reduction::sum});
           },
       .skip = {{Layout::empty, kSomeSizes}, {Layout::single, kSomeSizes}},
       .meta = false,
       .naive =
           [](const Tensors& x) {
             // All paths of one class a step whose runs, without blanks, are the labels.
             const Values p = softmax(x[0].detach(), -1).to_vector<double>();
             double loss = 0.0;
             for (int64_t n = 0; n < 2; ++n) {
               const int64_t steps = n == 0 ? 4 : 3;
               const std::vector<int64_t> labels =
                   n == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2};
               double total = 0.0;
               for (int64_t code = 0; code < int64_t(std::pow(3, steps)); ++code) {
                 std::vector<int64_t> runs;
                 int64_t rest = code, before = 0;
                 double chance = 1.0;
                 for (int64_t t = 0; t < steps; ++t, rest /= 3) {
                   const int64_t c = rest % 3;
                   chance *= p[size_t((t * 2 + n) * 3 + c)];
                   if (c != 0 && c != before) runs.push_back(c);
                   before = c;
                 }
                 if (runs == labels) total += chance;
               }
               loss -= std::log(total);
             }
             return Values{loss};
           }},
  };
}

Rows place_reduction_rows() {
  const auto reduced = [](ScatterReduce way, bool own) {
    return [way, own](const Tensors& x) {
      const Tensor index = reshape(tensor({0, 1, 0, 1, 0, 1}).to(x[0].device()), {2, 3});
      return scatter_reduce(x[0], 1, index, x[1], way, own);
    };
  };
  const std::vector<Input> inputs = {{{2, 3}, {0.3, 2.0}}, {{2, 3}, {-2.0, -0.3}}};
  const auto bag = [](BagMode mode) {
    return [mode](const Tensors& x) {
      const Tensor index = reshape(tensor({0, 2, 1, 3, 3, 0}).to(x[0].device()), {2, 3});
      return embedding_bag(x[0], index, {.mode = mode});
    };
  };
  return {
      sized("scatter_reduce (sum)", inputs, reduced(ScatterReduce::sum, true)),
      sized("scatter_reduce (mean)", inputs, reduced(ScatterReduce::mean, false)),
      sized("scatter_reduce (prod)", inputs, reduced(ScatterReduce::prod, true)),
      untied(sized("scatter_reduce (amax)", inputs, reduced(ScatterReduce::amax, false))),
      untied(sized("scatter_reduce (amin)", inputs, reduced(ScatterReduce::amin, true),
                   [](const Tensors& x) {
                     Values v = x[0].to_vector<double>();
                     const Values s = x[1].to_vector<double>();
                     v[0] = std::fmin(v[0], std::fmin(s[0], s[2]));
                     v[1] = std::fmin(v[1], s[1]);
                     v[4] = std::fmin(v[4], std::fmin(s[3], s[5]));
                     v[3] = std::fmin(v[3], s[4]);
                     return v;
                   })),
      sized("embedding_bag (sum)", {{{4, 3}}}, bag(BagMode::sum)),
      sized("embedding_bag (mean)", {{{4, 3}}}, bag(BagMode::mean)),
      untied(sized("embedding_bag (max)", {{{4, 3}}}, bag(BagMode::max))),
      sized("embedding_bag (weights)", {{{4, 3}}, {{5}}},
            [](const Tensors& x) {
              const auto on = [&](std::vector<int64_t> v) { return tensor(v).to(x[0].device()); };
              return embedding_bag(
                  x[0], on({0, 2, 1, 3, 3}),
                  {.offsets = on({0, 2}), .mode = BagMode::sum, .per_sample_weights = x[1]});
            }),
  };
}

}  // namespace

Rows image_rows() {
  Rows rows = resampling_rows();
  for (const Rows& part :
       {volume_rows(), norm_and_loss_rows(), place_reduction_rows(), pool_more_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("images, volumes, windows and bags: values, layouts and derivatives") {
  check_rows(image_rows());
}

}  // namespace hero::test
