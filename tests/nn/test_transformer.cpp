// The Transformer's encoder against PyTorch.
#include "nn/golden_case.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/creation.h>
#include <hero/nn/transformer.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::TransformerEncoderLayer;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

TEST_CASE("encoder layers are PyTorch's, norm first or last") {
  TransformerEncoderLayer post(4, 2, {.dim_feedforward = 6, .dropout = 0.0});
  GoldenCase("transformer", "post").check(post, [&](const Inputs& in) -> std::vector<Tensor> {
    return {post(in.at("x"))};
  });
  TransformerEncoderLayer pre(4, 2,
                              {.dim_feedforward = 6,
                               .dropout = 0.0,
                               .activation = nn::FeedForwardActivation::gelu,
                               .batch_first = true,
                               .norm_first = true,
                               .bias = false});
  GoldenCase("transformer", "pre").check(pre, [&](const Inputs& in) -> std::vector<Tensor> {
    return {pre(in.at("x"), {.mask = in.at("mask")})};
  });
  nn::TransformerEncoder encoder(
      4, 2, 2,
      {.layer = {.dim_feedforward = 6, .dropout = 0.0, .layer_norm_eps = 1e-3},
       .norm = nn::LayerNormOptions{}});
  GoldenCase("transformer", "encoder").check(encoder, [&](const Inputs& in) -> std::vector<Tensor> {
    return {encoder(in.at("x"), {.src_key_padding_mask = in.at("padding")})};
  });
}

TEST_CASE("an encoder on meta has shapes, and materialised the values of one built on the cpu") {
  const auto build = [] {
    manual_seed(8);
    return nn::TransformerEncoder(8, 2, 2, {.layer = {.dim_feedforward = 16}});
  };
  nn::TransformerEncoder direct = build();
  const nn::DeviceScope meta(kMeta);
  nn::TransformerEncoder later = build();
  const Tensor x = zeros({3, 2, 8}, {.device = kMeta});
  CHECK(later(x).shape() == Shape{3, 2, 8});
  later.materialize();
  const nn::StateDict a = direct.state_dict(), b = later.state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(test::same(a[i].array, b[i].array));
}

TEST_CASE("encoder layers drop in training only and say what does not fit") {
  manual_seed(9);
  TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.5});
  const Tensor x = randn({3, 2, 8});
  CHECK(!equal(layer(x), layer(x)));
  layer.eval();
  CHECK(equal(layer(x), layer(x)));
  CHECK_THROWS_WITH(nn::TransformerEncoder(8, 2, 0), ContainsSubstring("num_layers must be"));
  nn::TransformerEncoder encoder(8, 2, 1, {.layer = {.dim_feedforward = 16}});
  CHECK_THROWS_WITH(encoder(zeros({3, 2, 7})), ContainsSubstring("in layers.0.self_attn"));
}
