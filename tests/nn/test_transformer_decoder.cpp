// The Transformer's decoder, and the whole Transformer, against PyTorch.
#include "nn/golden/golden_case.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/transformer_decoder.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

TEST_CASE("decoder layers are PyTorch's, norm first or last") {
  nn::TransformerDecoderLayer post(4, 2, {.dim_feedforward = 6, .dropout = 0.0});
  GoldenCase("decoder", "post").check(post, [&](const Inputs& in) -> std::vector<Tensor> {
    return {post(in.at("x"), in.at("memory"))};
  });
  nn::TransformerDecoderLayer pre(4, 2,
                                  {.dim_feedforward = 6,
                                   .dropout = 0.0,
                                   .activation = nn::FeedForwardActivation::gelu,
                                   .batch_first = true,
                                   .norm_first = true,
                                   .bias = false});
  GoldenCase("decoder", "pre").check(pre, [&](const Inputs& in) -> std::vector<Tensor> {
    return {pre(in.at("x"), in.at("memory"),
                {.tgt_mask = in.at("mask"), .memory_key_padding_mask = in.at("padding")})};
  });
}

TEST_CASE("a decoder and a whole Transformer are PyTorch's") {
  nn::TransformerDecoder decoder(
      4, 2, 2,
      {.layer = {.dim_feedforward = 6, .dropout = 0.0, .layer_norm_eps = 1e-3},
       .norm = nn::LayerNormOptions{}});
  GoldenCase("decoder", "decoder").check(decoder, [&](const Inputs& in) -> std::vector<Tensor> {
    return {decoder(in.at("x"), in.at("memory"), {.memory_mask = in.at("scores")})};
  });
  nn::Transformer transformer(
      4, 2,
      {.num_encoder_layers = 1,
       .num_decoder_layers = 2,
       .layer = {.dim_feedforward = 6, .dropout = 0.0, .batch_first = true}});
  const auto run = [&](const Inputs& in, const nn::TransformerMasks& masks) -> std::vector<Tensor> {
    return {transformer(in.at("src"), in.at("tgt"), masks)};
  };
  GoldenCase("decoder", "transformer").check(transformer, [&](const Inputs& in) {
    return run(in, {.tgt_mask = in.at("mask"),
                    .src_key_padding_mask = in.at("padding"),
                    .memory_key_padding_mask = in.at("padding")});
  });
  GoldenCase("decoder", "transformer").check(transformer, [&](const Inputs& in) {
    return run(in, {.src_key_padding_mask = in.at("padding"),
                    .memory_key_padding_mask = in.at("padding"),
                    .tgt_is_causal = true});
  });
  CHECK(equal(nn::Transformer::generate_square_subsequent_mask(2) < 0.0,
              tensor({{false, true}, {false, false}})));
}

TEST_CASE("a Transformer begins with Xavier's matrices, also when it was planned on meta") {
  const auto build = [] {
    manual_seed(8);
    return nn::Transformer(8, 2, {1, 1, {.dim_feedforward = 16}});
  };
  nn::Transformer direct = build();
  const Tensor w = direct.get_parameter("decoder.layers.0.linear1.weight");
  CHECK(amax(abs(w)).item() <= std::sqrt(6.0 / 24.0));
  CHECK(amax(abs(w)).item() > 0.9 * std::sqrt(6.0 / 24.0));
  nn::Transformer later = [&] {
    const nn::DeviceScope meta(kMeta);
    return build();
  }();
  CHECK(later(zeros({5, 1, 8}, {.device = kMeta}), zeros({3, 1, 8}, {.device = kMeta})).shape() ==
        Shape{3, 1, 8});
  later.materialize();
  for (const auto& [name, p] : direct.named_parameters()) {
    INFO(name);
    CHECK(equal(p, later.get_parameter(name)));
  }
}

TEST_CASE("decoders without layers are refused") {
  CHECK_THROWS_WITH(nn::TransformerDecoder(4, 2, 0), ContainsSubstring("must be positive: got 0"));
}
