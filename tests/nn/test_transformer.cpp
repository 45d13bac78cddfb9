// The Transformer's encoder against PyTorch.
#include "nn/golden/golden_case.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/graph.h"

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/nn/transformer_decoder.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::TransformerEncoderLayer;
using test::count_nodes, test::GoldenCase;
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

TEST_CASE("layers of an encoder begin with weights of their own") {
  nn::TransformerEncoder encoder(8, 2, 2);
  const nn::StateDict state = encoder.state_dict();
  const auto weight = [&](const std::string& name) {
    for (const auto& entry : state) {
      if (entry.name == name) return entry.array;
    }
    fail("no ", name);
  };
  CHECK_FALSE(test::same(weight("layers.0.linear1.weight"), weight("layers.1.linear1.weight")));
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

TEST_CASE("a hook on an encoder layer's norm is called and changes no bit") {
  for (const auto& [norm_first, cast] :
       {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    manual_seed(9);
    TransformerEncoderLayer layer(
        8, 2,
        {.dim_feedforward = 16, .dropout = 0.0, .batch_first = true, .norm_first = norm_first});
    const Tensor x = randn({3, 2, 8}, {.requires_grad = true});
    const Autocast autocast({.enabled = cast});
    const Tensor before = layer(x);
    CHECK(count_nodes(before, "add_layer_norm") == (norm_first ? 1 : 2));
    CHECK(count_nodes(before, "add") == (norm_first ? 1 : 0));
    const Tensor g = grad(sum(square(before)), x);
    int calls = 0;
    layer.norm2.register_forward_hook(
        [&](nn::Module&, const nn::Tensors& in, const nn::Tensors& out) {
          ++calls;
          CHECK(equal(layer_norm(in[0], {8}), out[0]));
        });
    const Tensor after = layer(x);
    CHECK(equal(after, before));
    CHECK(equal(grad(sum(square(after)), x), g));
    CHECK(calls == 1);
  }
}

TEST_CASE("RMSNorm of a sum is the norm of the sum, with and without hooks") {
  manual_seed(9);
  const Tensor a = randn({3, 4}), b = randn({3, 4}) * 0.01;  // small: eps counts
  nn::RMSNorm rms(4), wide(Shape{3, 4});
  for (nn::RMSNorm* norm : {&rms, &wide}) {
    for (int hooks : {0, 1}) {
      for (const auto& [x, r] :
           {std::pair{a, b}, {b, a.to(kBFloat16)}, {a.to(kFloat16) * 0.01, b}}) {
        const auto [sum, y] = (*norm)(x, r);
        CHECK(sum.dtype() == kFloat32);
        CHECK(equal(sum, x + r));
        CHECK(equal(y, (*norm)(x + r)));
      }
      if (hooks == 0) norm->register_forward_hook([](auto&, const auto&, const auto&) {});
    }
  }
  CHECK_THROWS_WITH(rms(randn({3, 5}), randn({3, 5})),
                    ContainsSubstring("RMSNorm: expected [.., 4]"));
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

TEST_CASE("encoder and decoder layers have PyTorch's children, their dropouts too") {
  const std::string attention =
      "MultiheadAttention(\n    (out_proj): Linear(in_features=4, out_features=4, bias=True)\n  "
      ")\n";
  const std::string linears =
      "  (linear1): Linear(in_features=4, out_features=8, bias=True)\n"
      "  (dropout): Dropout(p=0.1, inplace=False)\n"
      "  (linear2): Linear(in_features=8, out_features=4, bias=True)\n";
  const auto norm = [](const char* name) {
    return std::string("  (") + name +
           "): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n";
  };
  const auto dropout = [](const char* name) {
    return std::string("  (") + name + "): Dropout(p=0.1, inplace=False)\n";
  };
  const TransformerEncoderLayer encoder(4, 2, {.dim_feedforward = 8});
  CHECK(to_string(encoder) == "TransformerEncoderLayer(\n  (self_attn): " + attention + linears +
                                  norm("norm1") + norm("norm2") + dropout("dropout1") +
                                  dropout("dropout2") + ")");
  nn::TransformerDecoderLayer decoder(4, 2, {.dim_feedforward = 8});
  CHECK(to_string(decoder) == "TransformerDecoderLayer(\n  (self_attn): " + attention +
                                  "  (multihead_attn): " + attention + linears + norm("norm1") +
                                  norm("norm2") + norm("norm3") + dropout("dropout1") +
                                  dropout("dropout2") + dropout("dropout3") + ")");
  // A child that takes the place of a dropout is called.
  const Tensor x = randn({3, 4});
  for (nn::Module* child : decoder.children()) child->eval();
  for (const char* name : {"dropout1", "dropout2", "dropout3"}) {
    decoder.replace(name, nn::Dropout(1.0));
  }
  CHECK(equal(decoder(x, x), decoder.norm3(decoder.norm2(decoder.norm1(x)))));
}
