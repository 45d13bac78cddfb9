// MultiheadAttention and rotary embedding against PyTorch.
#include <cmath>

#include "nn/golden/golden_case.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/nn/attention.h>
#include <hero/nn/rotary.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::MultiheadAttention, nn::MultiheadAttentionInputs;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

namespace {

// The output without weights, then output and weights: both ways are compared.
std::vector<Tensor> both(MultiheadAttention& attention, const std::vector<Tensor>& qkv,
                         MultiheadAttentionInputs inputs = {}) {
  inputs.need_weights = true;
  const auto with = attention(qkv[0], qkv[1], qkv[2], inputs);
  inputs.need_weights = false;
  const auto without = attention(qkv[0], qkv[1], qkv[2], inputs);
  REQUIRE(!without.weights.defined());
  return {without.output, with.output, with.weights};
}

Tensor random(const Shape& shape, bool requires_grad = false) {
  return randn(shape, {.dtype = kFloat64, .requires_grad = requires_grad});
}

// 1e-12: doubles, fewer than 100 terms of size 1.
bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-12); }

}  // namespace

TEST_CASE("multihead attention is PyTorch's: masks, sizes, layouts, gradients") {
  MultiheadAttention self(6, 2);
  GoldenCase("attention", "self").check(self, [&](const Inputs& in) {
    return both(self, {in.at("x"), in.at("x"), in.at("x")});
  });
  MultiheadAttention causal(6, 2, {.batch_first = true});
  GoldenCase("attention", "causal").check(causal, [&](const Inputs& in) {
    return both(causal, {in.at("x"), in.at("x"), in.at("x")}, {.attn_mask = in.at("mask")});
  });
  MultiheadAttention padded(6, 2, {.bias = false});
  GoldenCase("attention", "padding").check(padded, [&](const Inputs& in) {
    return both(padded, {in.at("q"), in.at("k"), in.at("k")},
                {.key_padding_mask = in.at("padding")});
  });
  MultiheadAttention added(6, 2);
  GoldenCase("attention", "added").check(added, [&](const Inputs& in) {
    return both(added, {in.at("q"), in.at("k"), in.at("k")},
                {.key_padding_mask = in.at("padding"), .attn_mask = in.at("mask")});
  });
  MultiheadAttention sizes(6, 2, {.kdim = 5, .vdim = 3});
  GoldenCase("attention", "sizes").check(sizes, [&](const Inputs& in) {
    return both(sizes, {in.at("q"), in.at("k"), in.at("v")}, {.average_attn_weights = false});
  });
  MultiheadAttention single(6, 2);
  GoldenCase("attention", "single").check(single, [&](const Inputs& in) {
    return both(single, {in.at("q"), in.at("k"), in.at("k")});
  });
}

TEST_CASE("a query of MultiheadAttention whose keys are all padding has weights of 0") {
  MultiheadAttention attention(6, 2, {.batch_first = true});
  attention.to(kFloat64);
  const Tensor x = random({2, 4, 6}, true);
  // The second sequence is padded on the left: with the causal order its first query sees nothing.
  const Tensor padding = tensor({{0, 0, 0, 0}, {1, 1, 0, 0}}) > 0;
  const auto outputs = both(attention, {x, x, x}, {.key_padding_mask = padding, .is_causal = true});
  CHECK(near(outputs[0], outputs[1]));
  CHECK(equal(outputs[2].select(0, 1).select(0, 0), zeros({4}, {.dtype = kFloat64})));
  // What is left of such a query is the output projection's bias.
  CHECK(near(outputs[0].select(0, 1).select(0, 0), attention.out_proj.bias));
  for (const Tensor& output : {outputs[0], outputs[1]}) {
    CHECK(all(isfinite(output)).item<bool>());
    CHECK(all(isfinite(grad({sum(square(output))}, {x}, {.retain_graph = true})[0])).item<bool>());
  }
}

TEST_CASE("causal attention needs no mask") {
  MultiheadAttention attention(6, 2);
  attention.to(kFloat64);
  const Tensor x = random({4, 3, 6});
  const Tensor mask = triu(ones({4, 4}, {.dtype = kBool}), 1);
  const auto masked = attention(x, x, x, {.attn_mask = mask});
  for (bool need_weights : {true, false}) {
    const auto causal = attention(x, x, x, {.need_weights = need_weights, .is_causal = true});
    CHECK(near(causal.output, masked.output));
    if (need_weights) CHECK(near(causal.weights, masked.weights));
  }
}

TEST_CASE("grouped heads equal attention whose shared heads are written out") {
  MultiheadAttention grouped(8, 4, {.num_kv_heads = 2}), full(8, 4);
  grouped.to(kFloat64);
  full.to(kFloat64);
  CHECK(grouped.in_proj_weight.shape() == Shape{16, 8});
  {
    const NoGrad no_grad;
    // Rows of queries stay; each head of 2 rows of keys and values serves two heads.
    const auto widen = [](const Tensor& rows) {
      Shape by_head{2, 2}, shape{8};
      for (int i = 1; i < rows.ndim(); ++i) {
        by_head.push_back(rows.size(i));
        shape.push_back(rows.size(i));
      }
      return repeat_interleave(rows.reshape(by_head), 2, 0).reshape(shape);
    };
    const auto fill = [&](const Tensor& from, const Tensor& to) {
      to.copy_(cat({from.slice(0, 0, 8), widen(from.slice(0, 8, 12)), widen(from.slice(0, 12))}));
    };
    fill(grouped.in_proj_weight, full.in_proj_weight);
    grouped.in_proj_bias.copy_(random({16}));
    fill(grouped.in_proj_bias, full.in_proj_bias);
    full.out_proj.weight.copy_(grouped.out_proj.weight);
  }
  const Tensor x = random({5, 2, 8}), y = random({3, 2, 8});
  for (bool need_weights : {true, false}) {
    const auto a = grouped(x, y, y, {.need_weights = need_weights});
    const auto b = full(x, y, y, {.need_weights = need_weights});
    CHECK(near(a.output, b.output));
    if (need_weights) CHECK(near(a.weights, b.weights));
  }
  CHECK(near(grouped(x), full(x)));
}

TEST_CASE("attention's first and second derivatives, with weights and without") {
  MultiheadAttention attention(4, 2, {.num_kv_heads = 1});
  attention.to(kFloat64);
  const std::vector<Tensor> inputs{random({3, 1, 4}, true), random({4, 1, 4}, true)};
  for (bool need_weights : {true, false}) {
    const auto run = [&](const std::vector<Tensor>& x) {
      const auto result =
          attention(x[0], x[1], x[1], {.need_weights = need_weights, .is_causal = true});
      return need_weights ? std::vector<Tensor>{result.output, result.weights}
                          : std::vector<Tensor>{result.output};
    };
    CHECK(gradcheck(run, inputs));
    CHECK(gradgradcheck(run, inputs));
  }
}

TEST_CASE("attention drops weights in training only") {
  manual_seed(1);
  MultiheadAttention attention(8, 2, {.dropout = 0.5});
  const Tensor x = randn({16, 2, 8});
  const Tensor dropped = attention(x, x, x).weights;
  // 2 heads: an element of the mean is zero with probability 1/4.
  const double zeros = sum(dropped == 0.0).item() / static_cast<double>(dropped.numel());
  CHECK((zeros > 0.1 && zeros < 0.4));
  CHECK(!equal(attention(x), attention(x)));
  attention.eval();
  CHECK(sum(attention(x, x, x).weights == 0.0).item() == 0.0);
  CHECK(equal(attention(x), attention(x)));
}

TEST_CASE("attention says what does not fit") {
  CHECK_THROWS_WITH(MultiheadAttention(6, 4),
                    ContainsSubstring("num_heads 4 does not divide embed_dim 6"));
  CHECK_THROWS_WITH(MultiheadAttention(8, 4, {.num_kv_heads = 3}),
                    ContainsSubstring("num_kv_heads 3 does not divide num_heads 4"));
  CHECK_THROWS_WITH(MultiheadAttention(8, 4, {.dropout = 1.5}), ContainsSubstring("dropout"));
  MultiheadAttention attention(6, 2);
  const Tensor x = zeros({4, 3, 6});
  CHECK_THROWS_WITH(attention(zeros({4, 3, 5})),
                    ContainsSubstring("query has 5 features and the layer takes 6"));
  CHECK_THROWS_WITH(attention(x, zeros({4, 6}), x), ContainsSubstring("number of dimensions"));
  CHECK_THROWS_WITH(attention(x, x, x, {.attn_mask = zeros({4, 5})}),
                    ContainsSubstring("attn_mask has shape [4, 5]; it should be [4, 4]"));
  CHECK_THROWS_WITH(attention(x, x, x, {.attn_mask = zeros({4, 4}, {.dtype = kInt64})}),
                    ContainsSubstring("attn_mask is int64"));
  CHECK_THROWS_WITH(attention(x, x, x, {.key_padding_mask = zeros({4, 3})}),
                    ContainsSubstring("key_padding_mask has shape [4, 3]; it should be [3, 4]"));
}

TEST_CASE("attention starts from PyTorch's distributions") {
  manual_seed(3);
  MultiheadAttention attention(32, 4);
  // Xavier: uniform in +-sqrt(6 / (32 + 96)); of 3072 draws one lies beyond 99 % of the bound.
  const double bound = std::sqrt(6.0 / 128.0);
  const double largest = max(abs(attention.in_proj_weight)).item();
  CHECK((largest <= bound && largest > 0.99 * bound));
  CHECK(max(abs(attention.in_proj_bias)).item() == 0.0);
  CHECK(max(abs(attention.out_proj.bias)).item() == 0.0);
  std::string names;
  for (const auto& [name, tensor] : attention.named_parameters()) names += name + " ";
  CHECK(names == "in_proj_weight in_proj_bias out_proj.weight out_proj.bias ");
}

TEST_CASE("rotary embedding turns pairs as complex numbers do") {
  nn::Identity none;
  const auto check = [&](const char* name, nn::RotaryPairs pairs) {
    GoldenCase("gpt", name).check(none, [&](const Inputs& in) -> std::vector<Tensor> {
      nn::RotaryEmbedding rotary(6, {.pairs = pairs});
      return {rotary(in.at("x")), rotary(in.at("x"), 7)};
    });
    GoldenCase("gpt", name).check(none, [&](const Inputs& in) -> std::vector<Tensor> {
      return {nn::rotary_embedding(in.at("x"), 0, {.pairs = pairs}),
              nn::rotary_embedding(in.at("x"), 7, {.pairs = pairs})};
    });
  };
  check("rotary_half", nn::RotaryPairs::half);
  check("rotary_interleaved", nn::RotaryPairs::interleaved);
}

TEST_CASE("rotary embedding: products depend on distance, derivatives, dtypes, errors") {
  const Tensor q = random({1, 4}), k = random({1, 4});
  const auto product = [&](int64_t i, int64_t j) {
    return sum(nn::rotary_embedding(q, i) * nn::rotary_embedding(k, j)).item();
  };
  CHECK(std::fabs(product(3, 1) - product(12, 10)) < 1e-12);  // doubles, four terms
  CHECK(std::fabs(product(3, 1) - product(3, 2)) > 1e-3);
  const auto turn = [](const std::vector<Tensor>& x) { return nn::rotary_embedding(x[0], 2); };
  CHECK(gradcheck(turn, {random({2, 3, 4}, true)}));
  CHECK(gradgradcheck(turn, {random({2, 3, 4}, true)}));
  CHECK(nn::rotary_embedding(zeros({3, 4}).to(kBFloat16)).dtype() == kBFloat16);
  CHECK(nn::rotary_embedding(zeros({3, 4}, {.device = kMeta}), 5).shape() == Shape{3, 4});
  CHECK_THROWS_WITH(nn::rotary_embedding(zeros({3, 5})), ContainsSubstring("must be even"));
  CHECK_THROWS_WITH(nn::RotaryEmbedding(3), ContainsSubstring("dim must be even"));
  nn::RotaryEmbedding rotary(4);
  CHECK_THROWS_WITH(rotary(zeros({3, 6})), ContainsSubstring("rows of 6 elements"));
}
