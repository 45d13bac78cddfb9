// Every operation but windows with the largest and the smallest integers.
#include "autograd/ops/extremes.h"

namespace {

using namespace hero;
using namespace hero::ends;

std::vector<Case> cases() {
  using D = Device;
  using N = const Numbers&;
  return {
      // creation
      {"zeros",
       {2, 3},
       [](N n, D d) {
         return Results{zeros({n[0], n[1]}, {.device = d})};
       }},
      {"empty",
       {2, 3, 4},
       [](N n, D d) {
         return Results{empty({n[0], n[1], n[2]}, {.dtype = kUInt8, .device = d})};
       }},
      {"full", {2, 3}, [](N n, D d) { return Results{full({2}, n[1], {.device = d})}; }},
      {"arange",
       {2, 9, 3},
       [](N n, D d) { return Results{arange(n[0], n[1], n[2], {.device = d})}; }},
      {"arange of floats",
       {2, 9, 3},
       [](N n, D d) {
         const auto f = [&](size_t i) { return static_cast<double>(n[i]); };
         return Results{arange(f(0), f(1), f(2), {.device = d})};
       }},
      {"linspace", {5}, [](N n, D d) { return Results{linspace(0, 1, n[0], {.device = d})}; }},
      {"eye", {3, 4}, [](N n, D d) { return Results{eye(n[0], n[1], {.device = d})}; }},
      {"one_hot",
       {3, 0},
       [](N n, D) {
         return Results{one_hot(tensor(std::vector<int64_t>{n[1], 0}), n[0])};
       }},
      {"rand",
       {2, 3},
       [](N n, D d) {
         return Results{rand({n[0], n[1]}, {.device = d})};
       }},
      {"randn",
       {2, 3},
       [](N n, D d) {
         return Results{randn({n[0], n[1]}, {.device = d})};
       }},
      {"randint",
       {0, 9, 4},
       [](N n, D d) { return Results{randint(n[0], n[1], {n[2]}, {.device = d})}; }},
      {"randperm", {4}, [](N n, D d) { return Results{randperm(n[0], {.device = d})}; }},
      {"tensor of",
       {4},
       [](N n, D) {
         return Results{tensor(std::vector<int64_t>{n[0], n[0]})};
       }},
      // views and shapes
      {"reshape",
       {2, 6},
       [](N n, D d) {
         return Results{reshape(matrix(d), {n[0], n[1]})};
       }},
      {"view",
       {2, 6},
       [](N n, D d) {
         return Results{matrix(d).view({n[0], n[1]})};
       }},
      {"expand",
       {3, 4},
       [](N n, D d) {
         return Results{expand(ones({1, 1}, {.device = d}), {n[0], n[1]})};
       }},
      {"permute",
       {1, 0},
       [](N n, D d) {
         return Results{permute(matrix(d), {n[0], n[1]})};
       }},
      {"transpose", {0, 1}, [](N n, D d) { return Results{transpose(matrix(d), n[0], n[1])}; }},
      {"squeeze", {0}, [](N n, D d) { return Results{squeeze(line(d), n[0])}; }},
      {"unsqueeze", {0}, [](N n, D d) { return Results{unsqueeze(line(d), n[0])}; }},
      {"flatten", {0, 1}, [](N n, D d) { return Results{flatten(image(d), n[0], n[1])}; }},
      {"slice",
       {0, 1, 3, 2},
       [](N n, D d) { return Results{slice(matrix(d), n[0], n[1], n[2], n[3])}; }},
      {"narrow", {0, 1, 2}, [](N n, D d) { return Results{narrow(matrix(d), n[0], n[1], n[2])}; }},
      {"select", {0, 1}, [](N n, D d) { return Results{select(matrix(d), n[0], n[1])}; }},
      {"index operator", {1}, [](N n, D d) { return Results{matrix(d)[n[0]]}; }},
      {"diagonal",
       {1, 0, 1},
       [](N n, D d) { return Results{diagonal(matrix(d), n[0], n[1], n[2])}; }},
      {"diag",
       {1},
       [](N n, D d) {
         return Results{diag(list(d), n[0]), diag(matrix(d), n[0])};
       }},
      {"unfold", {0, 3, 2}, [](N n, D d) { return Results{unfold(list(d), n[0], n[1], n[2])}; }},
      {"as_strided",
       {2, 2, 3, 1, 1},
       [](N n, D d) {
         return Results{as_strided(matrix(d), {n[0], n[1]}, {n[2], n[3]}, n[4])};
       }},
      {"as_strided of an array",
       {2, 2, 3, 1, 1},
       [](N n, D d) {
         return Results{Tensor(matrix(d).array().as_strided({n[0], n[1]}, {n[2], n[3]}, n[4]))};
       }},
      {"flip",
       {0, 1},
       [](N n, D d) {
         return Results{flip(matrix(d), {n[0], n[1]})};
       }},
      {"roll", {2, 0}, [](N n, D d) { return Results{roll(matrix(d), {n[0]}, {n[1]})}; }},
      {"roll of all", {2}, [](N n, D d) { return Results{roll(matrix(d), {n[0]}, {})}; }},
      {"repeat",
       {2, 3},
       [](N n, D d) {
         return Results{repeat(matrix(d), {n[0], n[1]})};
       }},
      {"repeat of nothing",
       {2, 3},
       [](N n, D d) {
         return Results{repeat(zeros({0, 3}, {.device = d}), {n[0], n[1]})};
       }},
      {"repeat_interleave",
       {2, 1},
       [](N n, D d) { return Results{repeat_interleave(matrix(d), n[0], n[1])}; }},
      {"tril", {1}, [](N n, D d) { return Results{tril(matrix(d), n[0])}; }},
      {"triu", {1}, [](N n, D d) { return Results{triu(matrix(d), n[0])}; }},
      {"cat",
       {1},
       [](N n, D d) {
         return Results{cat({matrix(d), matrix(d)}, n[0])};
       }},
      {"stack",
       {1},
       [](N n, D d) {
         return Results{stack({matrix(d), matrix(d)}, n[0])};
       }},
      {"split", {2, 0}, [](N n, D d) { return split(matrix(d), n[0], n[1]); }},
      {"split by sizes",
       {2, 1, 1, 1},
       [](N n, D d) {
         return split(matrix(d), Numbers{n[0], n[1], n[2]}, n[3]);
       }},
      {"chunk", {2, 0}, [](N n, D d) { return chunk(matrix(d), n[0], n[1]); }},
      {"chunk of nothing", {2}, [](N n, D d) { return chunk(zeros({0}, {.device = d}), n[0]); }},
      {"unbind", {0}, [](N n, D d) { return unbind(matrix(d), n[0]); }},
      {"pad",
       {1, 2, 1, 0},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1], n[2], n[3]})};
       }},
      {"pad by reflection",
       {1, 2},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1]}, PadMode::reflect)};
       }},
      {"pad by replication",
       {1, 2},
       [](N n, D d) {
         return Results{pad(matrix(d), {n[0], n[1]}, PadMode::replicate)};
       }},
      // reductions and orders
      {"sum",
       {1},
       [](N n, D d) {
         return Results{sum(matrix(d), {n[0]}), sum(matrix(d), {0, n[0]})};
       }},
      {"sum_to",
       {1, 4},
       [](N n, D d) {
         return Results{sum_to(matrix(d), {n[0], n[1]})};
       }},
      {"max", {0}, [](N n, D d) { return Results{max(matrix(d), n[0]).values}; }},
      {"argmax", {0}, [](N n, D d) { return Results{argmax(matrix(d), n[0])}; }},
      {"var", {0}, [](N n, D d) { return Results{var(matrix(d), {.dims = {n[0]}})}; }},
      {"logsumexp", {0}, [](N n, D d) { return Results{logsumexp(matrix(d), {n[0]})}; }},
      {"cumsum", {0}, [](N n, D d) { return Results{cumsum(matrix(d), n[0])}; }},
      {"cumprod", {0}, [](N n, D d) { return Results{cumprod(matrix(d), n[0])}; }},
      {"sort", {0}, [](N n, D d) { return Results{sort(matrix(d), n[0]).values}; }},
      {"topk", {2, 1}, [](N n, D d) { return Results{topk(matrix(d), n[0], n[1]).values}; }},
      {"softmax", {0}, [](N n, D d) { return Results{softmax(matrix(d), n[0])}; }},
      {"glu", {1}, [](N n, D d) { return Results{glu(matrix(d), n[0])}; }},
      {"cosine_similarity",
       {1},
       [](N n, D d) { return Results{cosine_similarity(matrix(d), matrix(d), n[0])}; }},
      // indices
      {"gather",
       {0, 1},
       [](N n, D) {
         return Results{gather(list(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}))};
       }},
      {"index_select",
       {0, 1},
       [](N n, D) {
         return Results{index_select(matrix(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}))};
       }},
      {"index",
       {1},
       [](N n, D) { return Results{index(matrix(kCpu), {tensor(std::vector<int64_t>{n[0]})})}; }},
      {"index_put",
       {1},
       [](N n, D) {
         return Results{
             index_put(list(kCpu), {tensor(std::vector<int64_t>{n[0]})}, ones({1}), true)};
       }},
      {"index_add",
       {0, 1},
       [](N n, D) {
         return Results{index_add(list(kCpu), n[0], tensor(std::vector<int64_t>{n[1]}), ones({1}))};
       }},
      {"embedding",
       {1, 2},
       [](N n, D) {
         return Results{embedding(matrix(kCpu), tensor(std::vector<int64_t>{n[0]}), n[1])};
       }},
      {"nll_loss",
       {1, -100},
       [](N n, D) {
         return Results{nll_loss(matrix(kCpu), tensor(std::vector<int64_t>{0, 1, n[0]}),
                                 {.ignore_index = n[1]})};
       }},
      {"linear_cross_entropy",
       {1, -100, 2},
       [](N n, D) {
         return Results{linear_cross_entropy(matrix(kCpu), ones({5, 4}),
                                             tensor(std::vector<int64_t>{0, 1, n[0]}),
                                             {.ignore_index = n[1], .batch_chunk_size = n[2]})};
       }},
      {"multi_margin_loss",
       {1, 1},
       [](N n, D) {
         return Results{multi_margin_loss(matrix(kCpu), tensor(std::vector<int64_t>{0, 1, n[0]}),
                                          {.p = n[1]})};
       }},
  };
}

TEST_CASE("every integer argument takes the largest numbers or refuses them",
          "[autograd][process]") {
  try_cases(cases());
}

TEST_CASE("gradients of operations with the largest numbers they take", "[autograd]") {
  const auto gradient = [](const Shape& shape, auto&& f) {
    Tensor x = ones(shape, {.requires_grad = true});
    sum(f(x)).backward();
    return x.grad().reshape({-1}).to_vector<double>();
  };
  using V = std::vector<double>;
  const auto wide = int64_t{1} << 61;
  REQUIRE(gradient({3}, [](auto& x) { return slice(x, 0, 0, kMost, kMost); }) == V{1, 0, 0});
  REQUIRE(gradient({2, 2}, [](auto& x) { return tril(x, kMost); }) == V{1, 1, 1, 1});
  REQUIRE(gradient({2, 2}, [](auto& x) { return tril(x, kLeast); }) == V{0, 0, 0, 0});
  REQUIRE(gradient({2, 2}, [](auto& x) { return triu(x, kLeast); }) == V{1, 1, 1, 1});
  REQUIRE(gradient({2, 2}, [](auto& x) { return triu(x, kMost); }) == V{0, 0, 0, 0});
  REQUIRE(gradient({3}, [](auto& x) { return unfold(x, 0, 2, kMost); }) == V{1, 1, 0});
  REQUIRE(gradient({3}, [](auto& x) { return roll(x, {kMost}, {0}) * arange(3); }) == V{1, 2, 0});
  REQUIRE(gradient({3}, [](auto& x) { return split(x, kMost)[0]; }) == V{1, 1, 1});
  REQUIRE(gradient({3}, [](auto& x) { return chunk(x, kMost)[2]; }) == V{0, 0, 1});
  // A window of one tap has no dilation, and one that fits once no stride.
  const Tensor tap = ones({1, 1, 1}), taps = ones({1, 1, 2});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) {
            return conv1d(x, tap, {}, {.stride = 2, .dilation = kMost});
          }) == V{1, 0, 1});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) { return conv1d(x, taps, {}, {.stride = kMost}); }) ==
          V{1, 1, 0});
  REQUIRE(gradient({1, 1, 1}, [&](auto& x) {
            return conv_transpose1d(x, taps, {}, {.stride = kMost});
          }) == V{2});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) {
            return max_pool1d(x, 1, {.stride = 1, .dilation = kMost});
          }) == V{1, 1, 1});
  REQUIRE(gradient({1, 1, 3}, [&](auto& x) { return max_pool1d(x, 2, {.stride = kMost}); }) ==
          V{1, 0, 0});
  // Padding as far as the stride: a place on either side of the input, and one inside.
  REQUIRE(conv1d(ones({1, 1, 3}), taps, {}, {.stride = wide / 8, .padding = wide / 8})
              .to_vector<double>() == V{0, 2, 0});
}

TEST_CASE("arange takes any integers whose count fits", "[autograd]") {
  using V = std::vector<int64_t>;
  REQUIRE(arange(kLeast, kMost, kMost).to_vector<int64_t>() == V{kLeast, -1, kMost - 1});
  REQUIRE(arange(kMost, kLeast, kLeast).to_vector<int64_t>() == V{kMost, -1});
  REQUIRE(arange(kMost - 1, kMost).to_vector<int64_t>() == V{kMost - 1});
  REQUIRE(arange(kMost, kMost).numel() == 0);
  REQUIRE(arange(kLeast + 1, kLeast, -1).to_vector<int64_t>() == V{kLeast + 1});
  REQUIRE_THROWS_AS(arange(kMost, kMost - 1), Error);
  REQUIRE_THROWS_AS(arange(kLeast, kMost), Error);
  REQUIRE_THROWS_AS(arange(0.0, 1e300, 1e-300), Error);
}

}  // namespace
