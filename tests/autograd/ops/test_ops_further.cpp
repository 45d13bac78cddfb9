// Borders of the operations beyond ops.h: what is refused, and what differs from PyTorch.
#include <cmath>
#include <functional>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("unique is sorted without being asked, mode names the last position") {
  const Tensor x = tensor({3, 1, 2, 1});
  CHECK(unique(x, {.sorted = false}).values.equal(tensor({1, 2, 3})));
  CHECK(mode(x).indices.item<int64_t>() == 3);
}

TEST_CASE("the distance of two tensors is a member") {
  CHECK(tensor({1.0, 2.0}).dist(tensor({4.0, 6.0})).item() == 5.0);
}

TEST_CASE("ctc_loss has the derivative of what it is given") {
  // One step and one label: the loss is minus its log-probability.
  const Tensor p = log_softmax(tensor({0.1, 0.2, 0.3}).reshape({1, 1, 3}), -1).detach();
  p.requires_grad_();
  ctc_loss(p, tensor({2}).reshape({1, 1}), tensor({1}).reshape({1}), tensor({1}).reshape({1}))
      .backward();
  CHECK(p.grad().to_vector<double>() == Values{0, 0, -1});
}

TEST_CASE("means of nothing and what is cut have the gradient 0") {
  const Tensor x = full({2}, std::nan(""), {.requires_grad = true});
  nanmean(x).backward();
  CHECK(x.grad().to_vector<double>() == Values{0, 0});
  const Tensor y = tensor({0.0, 0.5}, {.requires_grad = true});
  const Tensor first = grad(sum(logit(y, 0.2)), y, {.create_graph = true});
  CHECK(grad(sum(first), y).to_vector<double>() == Values{0, 0});
}

TEST_CASE("what cannot be aligned is infinite, or 0 where that is asked for") {
  const Tensor p = log_softmax(rand({2, 1, 3}), -1);
  const Tensor labels = tensor({1, 1}).reshape({1, 2}), two = full({1}, 2);
  CHECK(std::isinf(ctc_loss(p, labels, two, two).item()));
  CHECK(ctc_loss(p, labels, two, two, {.zero_infinity = true}).item() == 0.0);
  CHECK_THROWS_WITH(ctc_loss(p, labels, full({1}, 3), two),
                    ContainsSubstring("is 3, more than the 2 steps"));
  CHECK_THROWS_WITH(ctc_loss(p, labels, two, two, {.blank = 3}), ContainsSubstring("blank 3"));
}

TEST_CASE("resampling refuses what has no meaning") {
  const Tensor x = ones({1, 1, 2, 2});
  CHECK_THROWS_WITH(interpolate(x, {}), ContainsSubstring("either size or scale_factor"));
  CHECK_THROWS_WITH(interpolate(x, {.size = {1}, .mode = Interpolation::linear}),
                    ContainsSubstring("made for 1 dimensions"));
  CHECK_THROWS_WITH(interpolate(x, {.size = {0}}), ContainsSubstring("must be positive"));
  CHECK_THROWS_WITH(interpolate(x, {.size = {4}, .align_corners = true}),
                    ContainsSubstring("align_corners is of the linear modes"));
  CHECK_THROWS_WITH(grid_sample(x, ones({1, 2, 2, 3})), ContainsSubstring("grid_sample: x"));
  CHECK_THROWS_WITH(conv3d(x, x), ContainsSubstring("conv3d"));
  CHECK_THROWS_WITH(unfold(x, {3, 3}), ContainsSubstring("does not fit"));
  CHECK_THROWS_WITH(fold(ones({1, 5, 4}), {2, 2}, {2, 2}), ContainsSubstring("fold: columns"));
}

TEST_CASE("halves are resampled, sampled and convolved in float32 and rounded once") {
  manual_seed(5);
  const Tensor x = rand({1, 2, 5, 4}), half = x.to(kBFloat16);
  const InterpolateOptions options{.size = {7, 3}, .mode = Interpolation::bicubic};
  const Tensor y = interpolate(half, options);
  CHECK(y.dtype() == kBFloat16);
  CHECK(equal(y, interpolate(half.to(kFloat32), options).to(kBFloat16)));
  const Tensor grid = rand({1, 3, 3, 2}).to(kBFloat16);
  CHECK(equal(grid_sample(half, grid),
              grid_sample(half.to(kFloat32), grid.to(kFloat32)).to(kBFloat16)));
  const Tensor volume = rand({1, 2, 3, 4, 3}).to(kBFloat16),
               w = rand({2, 2, 2, 2, 2}).to(kBFloat16);
  CHECK(equal(conv3d(volume, w), conv3d(volume.to(kFloat32), w.to(kFloat32)).to(kBFloat16)));
}

TEST_CASE("functions made of several operations round halves once") {
  manual_seed(8);
  const Tensor square = rand({4, 4}) + 0.5, volume = rand({1, 2, 4, 5, 6});
  const Tensor kernel = rand({2, 2, 2, 2, 2});
  const std::pair<std::vector<Tensor>, std::function<Tensor(const std::vector<Tensor>&)>> calls[] =
      {
          {{square}, [](const auto& in) { return polygamma(2, in[0]); }},
          {{square}, [](const auto& in) { return diff(in[0], 2); }},
          {{square}, [](const auto& in) { return matrix_power(in[0], 3); }},
          {{square}, [](const auto& in) { return matrix_exp(in[0]); }},
          {{square}, [](const auto& in) { return logcumsumexp(in[0], 1); }},
          {{square}, [](const auto& in) { return normalize(in[0]); }},
          {{square}, [](const auto& in) { return logit(in[0], 0.1); }},
          {{square, square}, [](const auto& in) { return cdist(in[0], in[1]); }},
          {{square, square, square}, [](const auto& in) { return multi_dot(in); }},
          {{square, square, square}, [](const auto& in) { return addmm(in[0], in[1], in[2]); }},
          {{volume},
           [](const auto& in) {
             return avg_pool3d(in[0], {2, 2, 2});
           }},
          {{volume},
           [](const auto& in) {
             return adaptive_avg_pool3d(in[0], {3, 2, 2});
           }},
          {{volume, kernel}, [](const auto& in) { return conv_transpose3d(in[0], in[1]); }},
      };
  for (const auto& [inputs, call] : calls) {
    for (const DType dtype : {kFloat16, kBFloat16}) {
      std::vector<Tensor> halves, wide;
      for (const Tensor& input : inputs) {
        halves.push_back(input.to(dtype));
        wide.push_back(halves.back().to(kFloat32));
      }
      const Tensor found = call(halves);
      CHECK(found.dtype() == dtype);
      CHECK(equal(found, call(wide).to(dtype)));
    }
  }
}

TEST_CASE("interpolate has the same bits at any number of threads") {
  manual_seed(6);
  const Tensor x = rand({2, 3, 65, 70});
  const InterpolateOptions options{.scale_factor = {2.0}, .mode = Interpolation::bilinear};
  const Tensor expected = [&] {
    const ThreadLimit limit(1);
    return interpolate(x, options);
  }();
  for (int threads : {2, 3}) {
    const ThreadLimit limit(threads);
    CHECK(equal(interpolate(x, options), expected));
  }
}

TEST_CASE("order statistics, searches and places refuse what they cannot do") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(kthvalue(x, 4), ContainsSubstring("k is 4"));
  CHECK_THROWS_WITH(quantile(x, 1.5), ContainsSubstring("outside [0, 1]"));
  CHECK_THROWS_WITH(quantile(tensor({1, 2}), 0.5), ContainsSubstring("x is int64"));
  CHECK_THROWS_WITH(median(ones({2, 0}), 1), ContainsSubstring("has no elements"));
  CHECK(std::isnan(median(ones({0})).item()));
  CHECK_THROWS_WITH(searchsorted(x, ones({3, 1})), ContainsSubstring("leading dimensions"));
  CHECK_THROWS_WITH(bincount(tensor({-1})), ContainsSubstring("-1 is negative"));
  CHECK_THROWS_WITH(bincount(full({1}, std::numeric_limits<int64_t>::max())),
                    ContainsSubstring("9223372036854775807 is too large"));
  CHECK_THROWS_WITH(scatter_reduce(x, 0, tensor({0}), tensor({1}), ScatterReduce::sum),
                    ContainsSubstring("src is int64"));
  CHECK_THROWS_WITH(take(x, tensor({6})), ContainsSubstring("index 6"));
  CHECK_THROWS_WITH(embedding_bag(x, tensor({0, 1})), ContainsSubstring("with offsets"));
}

TEST_CASE("searches compare numbers of two dtypes in the promoted one") {
  using Places = std::vector<int64_t>;
  const Tensor whole = tensor({1, 2, 3}), tenth = tensor(0.1, {.dtype = kFloat64});
  CHECK(searchsorted(whole, tensor({1.5, 2.0, 2.5})).to_vector<int64_t>() == Places{1, 1, 2});
  CHECK(searchsorted(tensor({0.5, 1.5}), tensor({1, 2})).to_vector<int64_t>() == Places{1, 2});
  CHECK(searchsorted(tensor({300, 301}), tensor({255}).to(kUInt8)).item<int64_t>() == 0);
  // 0.1 of float32 lies above that of float64; a number without dimensions widens nothing.
  const Tensor narrow = tensor({0.1});
  CHECK(searchsorted(narrow, reshape(tenth, {1}), {.right = true}).item<int64_t>() == 0);
  CHECK(searchsorted(narrow, tenth, {.right = true}).item<int64_t>() == 1);
  CHECK(searchsorted(reshape(tenth, {1}), narrow).item<int64_t>() == 1);
}

TEST_CASE("matrices that are not finite, square or of one size are refused") {
  const Tensor bad = full({2, 2}, std::nan(""));
  CHECK_THROWS_WITH(svd(bad), ContainsSubstring("svd: the matrix is not finite"));
  CHECK_THROWS_WITH(eigh(ones({2, 3})), ContainsSubstring("eigh: matrix is not square"));
  CHECK_THROWS_WITH(matrix_exp(bad), ContainsSubstring("not finite"));
  CHECK_THROWS_WITH(multi_dot({ones({2, 3}), ones({2, 3})}), ContainsSubstring("do not fit"));
  CHECK_THROWS_WITH(cross(ones({2}), ones({2})), ContainsSubstring("3 elements"));
  CHECK(std::isnan(logdet(tensor({{0.0, 1.0}, {1.0, 0.0}})).item()));
}

TEST_CASE("embedding divides a row's gradient by how often it occurs") {
  const Tensor weight = randn({4, 2}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor index = tensor({{1, 3, 1}, {0, 1, 3}}), g = randn({2, 3, 2}, {.dtype = kFloat64});
  const auto gradient = [&](const Tensor& upstream, std::optional<int64_t> padding) {
    const Tensor y = embedding(weight, index, padding, true);
    return grad({y}, {weight}, {.grad_outputs = {upstream}, .create_graph = true})[0];
  };
  const Tensor sums = index_add(zeros({4, 2}, kFloat64), 0, index.flatten(), g.reshape({6, 2}));
  const Tensor counts = tensor({1.0, 3.0, 1.0, 2.0}).to(kFloat64).unsqueeze(1);
  CHECK(allclose(gradient(g, {}), sums / counts));
  CHECK(equal(gradient(g, -1)[3], zeros({2}, kFloat64)));
  CHECK(allclose(gradient(g, -1)[1], (sums / counts)[1]));
  // The gradient is linear in what flows in.
  const Tensor upstream = g.clone().requires_grad_();
  CHECK(gradcheck([&](const std::vector<Tensor>& in) { return gradient(in[0], 3); }, {upstream}));
  const EmbeddingBagOptions maxima{.mode = BagMode::max, .scale_grad_by_freq = true};
  CHECK_THROWS_WITH(embedding_bag(weight, index, maxima), ContainsSubstring("not for maxima"));
}

TEST_CASE("a window of zeros has no gradient in lp_pool") {
  const Tensor x = tensor({{0.0, 0.0, 3.0, 4.0}}, {.requires_grad = true});
  const Tensor y = lp_pool1d(x, 2.0, 2);
  CHECK(y.to_vector<double>() == Values{0, 5});
  y.sum().backward();
  CHECK(allclose(x.grad(), tensor({{0.0, 0.0, 0.6, 0.8}})));
}

TEST_CASE("rrelu draws a slope for each element, feature_alpha_dropout decides by channel") {
  manual_seed(7);
  const Tensor x = full({10000}, -1.0), y = -rrelu(x, 0.2, 0.6, true);
  CHECK(amin(y).item() >= 0.2);
  CHECK(amax(y).item() <= 0.6);
  // Five standard deviations of the mean of uniform numbers from an interval of 0.4.
  CHECK(std::abs(y.mean().item() - 0.4) < 0.006);
  CHECK(equal(rrelu(ones({8}), 0.2, 0.6, true), ones({8})));
  CHECK_THROWS_WITH(rrelu(x, 0.3, 0.2), ContainsSubstring("above upper"));
  const Tensor channels = feature_alpha_dropout(ones({64, 8, 3, 2}), 0.5, true);
  CHECK(equal(amax(channels, Dims{2, 3}), amin(channels, Dims{2, 3})));
  CHECK(amin(channels).item() < amax(channels).item());
  CHECK_THROWS_WITH(feature_alpha_dropout(ones({3}), 0.5, true), ContainsSubstring("[N, C, ..]"));
}

TEST_CASE("fractional windows cover a line from its beginning to its end at random places") {
  manual_seed(7);
  const Tensor x = arange(40.0).reshape({1, 1, 1, 40}).expand({200, 2, 1, 40});
  const Tensor last = fractional_max_pool2d(x, {1, 3}, {.output_size = Pair{1, 13}});
  CHECK(equal(last.select(3, 0), full({200, 2, 1}, 2.0)));    // the end of the first window
  CHECK(equal(last.select(3, 12), full({200, 2, 1}, 39.0)));  // and of the last
  const Tensor steps = diff(last);
  CHECK(amin(steps).item() == 3.0);  // of 37 / 12
  CHECK(amax(steps).item() == 4.0);
  CHECK(amax(last.select(3, 5)).item() > amin(last.select(3, 5)).item());
  CHECK(fractional_max_pool2d(ones({1, 7, 9}), {2, 2}, {.output_ratio = {{0.5, 0.7}}}).shape() ==
        Shape{1, 3, 6});
  CHECK_THROWS_WITH(fractional_max_pool2d(x, {1, 3}, {}), ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(fractional_max_pool2d(x, {1, 3}, {.output_size = Pair{1, 39}}),
                    ContainsSubstring("39 windows of 3 do not fit into 40 positions"));
  CHECK_THROWS_WITH(fractional_max_pool2d(x, {1, 3}, {.output_ratio = {{0.5, 1.0}}}),
                    ContainsSubstring("below 1"));
  CHECK_THROWS_WITH(lp_pool1d(ones({1, 4}), 0.0, 2), ContainsSubstring("must be positive"));
}

TEST_CASE("alpha_dropout keeps mean 0 and variance 1, dropout3d drops whole channels") {
  manual_seed(7);
  const Tensor x = randn({40000}), y = alpha_dropout(x, 0.3, true);
  // Five standard deviations of the mean and about as many of the variance.
  CHECK(std::abs(y.mean().item()) < 0.025);
  CHECK(std::abs(y.var().item() - 1.0) < 0.05);
  CHECK(equal(alpha_dropout(x, 0.3, false), x));
  const Tensor channels = dropout3d(ones({4, 8, 2, 2, 2}), 0.5);
  CHECK(equal(amax(channels, Dims{2, 3, 4}), amin(channels, Dims{2, 3, 4})));
}

TEST_CASE("the power 0 of a matrix is recorded, with zeros as its gradient") {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.requires_grad = true});
  const Tensor one = matrix_power(a, 0);
  CHECK(one.equal(eye(2)));
  sum(one).backward();
  CHECK(a.grad().equal(zeros({2, 2})));
}

TEST_CASE("sum_to a number widens integers as sum does") {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64}) {
    CHECK(sum_to(ones({}, {.dtype = dtype}), {}).dtype() == kInt64);
    CHECK(sum_to(ones({2}, {.dtype = dtype}), {}).dtype() == kInt64);
  }
  CHECK(sum_to(ones({}, {.dtype = kFloat16}), {}).dtype() == kFloat16);
}

TEST_CASE("dropout with alpha returns what it is given outside of training") {
  const Tensor whole = tensor({1, 2, 3}), line = tensor({1.0, 2.0});
  CHECK(alpha_dropout(whole, 0.5, false).equal(whole));
  CHECK(feature_alpha_dropout(whole, 0.5, false).equal(whole));
  CHECK(feature_alpha_dropout(line, 0.0, true).equal(line));
  CHECK_THROWS_AS(feature_alpha_dropout(line, 0.5, true), Error);
}

TEST_CASE("add_ with a factor takes bools and integers as add does") {
  const Tensor mask = tensor({true, false, false});
  mask.add_(tensor({false, false, true}), true);
  CHECK(mask.equal(tensor({true, false, true})));
  const Tensor bytes = tensor({1, 200}).to(kUInt8);
  bytes.add_(tensor({1, 3}).to(kUInt8), 2);
  CHECK(bytes.equal(tensor({3, 206}).to(kUInt8)));
  CHECK_THROWS_AS(bytes.add_(tensor({1.0, 1.0}), 2), Error);
}

TEST_CASE("errors show the numbers that are wrong") {
  const Tensor x = tensor({0.5, -1.0, 2.0}), whole = tensor({1, -2, 0});
  const Tensor leaf = ones({2}, {.requires_grad = true});
  CHECK_THROWS_WITH(quantile(x, 1.5), "quantile: q lies outside [0, 1]: 1.5 to 1.5");
  CHECK_THROWS_WITH(multinomial(x, 1), ContainsSubstring("they go from -1 to 2"));
  CHECK_THROWS_WITH(multinomial(tensor({1.0, std::nan("")}), 1), ContainsSubstring("from nan to"));
  CHECK_THROWS_WITH(normal(x, x), "normal: a standard deviation is negative: -1");
  CHECK_THROWS_WITH(repeat_interleave(x, whole.to(kInt64)), ContainsSubstring("negative: got -2"));
  CHECK_THROWS_WITH((leaf * 2.0).requires_grad_(false), ContainsSubstring("a result of mul;"));
  CHECK_THROWS_WITH(x.view({7}), ContainsSubstring("view: [3] (3 elements) does not fill [7]"));
  CHECK_THROWS_WITH(dot(x, ones({2, 2})), ContainsSubstring("dot: needs 1 dimension: got shape"));
  CHECK_THROWS_WITH(reshape(Tensor(), {1}), ContainsSubstring("reshape: an input is undefined"));
}

TEST_CASE("cross without a dimension takes the first of three elements, as PyTorch does") {
  const Tensor a = arange(9, {.dtype = kFloat64}).reshape({3, 3}), b = flip(a, {1}) + a * a;
  CHECK(equal(cross(a, b), cross(a, b, 0)));
  CHECK(equal(a.cross(b), cross(a, b, 0)));
  CHECK_FALSE(equal(cross(a, b), cross(a, b, 1)));
  CHECK(equal(cross(ones({2, 3}), a.slice(0, 0, 2).to(kFloat32)),
              cross(ones({2, 3}), a.slice(0, 0, 2).to(kFloat32), 1)));
  CHECK_THROWS_WITH(cross(ones({2, 4}), ones({2, 4})), ContainsSubstring("no dim has 3 elements"));
}

TEST_CASE("instance_norm takes running statistics where PyTorch does") {
  const Tensor x = arange(12, {.dtype = kFloat64}).reshape({2, 2, 3});
  const Tensor mean = full({2}, 5.0, {.dtype = kFloat64}), var = ones({2}, {.dtype = kFloat64});
  const Tensor y = instance_norm(x, mean, var);
  CHECK(equal(y, instance_norm(x)));
  // the channels' means over the batch are 4 and 7
  CHECK(allclose(mean, tensor({0.9 * 5.0 + 0.1 * 4.0, 0.9 * 5.0 + 0.1 * 7.0})));
  CHECK(allclose(instance_norm(x, {}, {}, {.weight = var * 2.0, .bias = var}), y * 2.0 + 1.0));
}

TEST_CASE("alpha_dropout drops only when asked, as functions of PyTorch's do") {
  const Tensor x = randn({50, 4});
  CHECK(equal(alpha_dropout(x), x));
  CHECK(equal(feature_alpha_dropout(x), x));
  CHECK_FALSE(equal(alpha_dropout(x, 0.5, true), x));
}

TEST_CASE("what PyTorch copies is a copy, also where nothing is to be done") {
  const NoGrad no_grad;
  const Tensor image = ones({1, 4, 2, 2}), dot = ones({1, 1, 1, 1}), matrix = ones({2, 2});
  const std::vector<std::pair<Tensor, std::function<Tensor(const Tensor&)>>> calls = {
      {image,
       [](const Tensor& x) {
         return pad(x, {0, 0}, PadMode::reflect);
       }},
      {image,
       [](const Tensor& x) {
         return pad(x, {0, 0}, PadMode::replicate);
       }},
      {image,
       [](const Tensor& x) {
         return pad(x, {0, 0}, PadMode::circular);
       }},
      {image,
       [](const Tensor& x) {
         return pad(x, {0, 0});
       }},
      {image, [](const Tensor& x) { return x.diff(0); }},
      {matrix, [](const Tensor& x) { return matrix_power(x, 1); }},
      {image, [](const Tensor& x) { return pixel_shuffle(x, 1); }},
      {image, [](const Tensor& x) { return pixel_unshuffle(x, 1); }},
      {ones({1, 4, 1, 1}), [](const Tensor& x) { return pixel_shuffle(x, 2); }},
      {ones({1, 1, 2, 2}), [](const Tensor& x) { return pixel_unshuffle(x, 2); }},
      {image, [](const Tensor& x) { return channel_shuffle(x, 1); }},
      {image, [](const Tensor& x) { return channel_shuffle(x, 4); }},
      {dot, [](const Tensor& x) { return pixel_shuffle(x, 1); }},
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    const auto& [x, call] = calls[i];
    call(x).add_(1.0);
    CHECK(equal(x, ones(x.shape())));
  }
}

TEST_CASE("a leaf that is frozen between forward and backward gets no gradient") {
  const Tensor kept = ones({2}).requires_grad_(), frozen = ones({2}).requires_grad_();
  const Tensor y = sum(kept * frozen);
  frozen.requires_grad_(false);
  y.backward();
  CHECK(kept.grad().equal(ones({2})));
  CHECK_FALSE(frozen.grad().defined());
}
