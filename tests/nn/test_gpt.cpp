// GPT against a model written in PyTorch, its first values, and drawing text from it.
#include <cmath>
#include <filesystem>

#include "nn/golden/golden_case.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/graph.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/swap_file.h>
#include <hero/nn/gpt.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::GPT, nn::GPTConfig;
using test::count_nodes, test::GoldenCase;

namespace {

GPTConfig tiny() {
  return {.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8};
}

Tensor tokens_of(int64_t count) { return remainder(arange(Scalar(count)) * 7, 11); }

// The deviation of all values.
double deviation(const Tensor& x) { return std::sqrt(mean(square(x)).item()); }

}  // namespace

TEST_CASE("a GPT has the logits and gradients of one in PyTorch") {
  const auto run = [](GPT& gpt) {
    return [&gpt](const GoldenCase::Inputs& in) -> std::vector<Tensor> {
      return {gpt(in.at("tokens"))};
    };
  };
  GPT gpt({.vocab_size = 5, .block_size = 6, .n_layer = 2, .n_head = 2, .n_embd = 4});
  GoldenCase("gpt", "gpt").check(gpt, run(gpt));
  GPT grouped({.vocab_size = 5,
               .block_size = 6,
               .n_layer = 1,
               .n_head = 2,
               .n_embd = 8,
               .n_kv_head = 1,
               .rotary = true,
               .tie_weights = false});
  GoldenCase("gpt", "grouped").check(grouped, run(grouped));
}

TEST_CASE("a GPT's parameters have nanoGPT's names, order and layout") {
  GPTConfig config = tiny();
  config.n_layer = 1;
  GPT gpt(config);
  std::string names;
  for (const auto& [name, p] : gpt.named_parameters())
    names += name + " " + to_string(p.shape()) + "\n";
  CHECK(names ==
        "transformer.wte.weight [11, 8]\n"
        "transformer.wpe.weight [8, 8]\n"
        "transformer.h.0.ln_1.weight [8]\n"
        "transformer.h.0.ln_1.bias [8]\n"
        "transformer.h.0.attn.c_attn.weight [24, 8]\n"
        "transformer.h.0.attn.c_attn.bias [24]\n"
        "transformer.h.0.attn.c_proj.weight [8, 8]\n"
        "transformer.h.0.attn.c_proj.bias [8]\n"
        "transformer.h.0.ln_2.weight [8]\n"
        "transformer.h.0.ln_2.bias [8]\n"
        "transformer.h.0.mlp.c_fc.weight [32, 8]\n"
        "transformer.h.0.mlp.c_fc.bias [32]\n"
        "transformer.h.0.mlp.c_proj.weight [8, 32]\n"
        "transformer.h.0.mlp.c_proj.bias [8]\n"
        "transformer.ln_f.weight [8]\n"
        "transformer.ln_f.bias [8]\n");
  CHECK(is_same(gpt.lm_head.weight, gpt.transformer.wte.weight));
  config.bias = false;
  config.tie_weights = false;
  for (const auto& [name, p] : GPT(config).named_parameters())
    CHECK(p.ndim() + (name.find("ln_") != std::string::npos) == 2);
  CHECK(GPT(config).named_parameters().back().first == "lm_head.weight");
}

TEST_CASE("a GPT starts from GPT-2's distributions, also when materialised later") {
  const GPTConfig config{
      .vocab_size = 300, .block_size = 64, .n_layer = 8, .n_head = 2, .n_embd = 64};
  manual_seed(6);
  GPT gpt(config);
  for (const auto& [name, p] : gpt.named_parameters()) {
    INFO(name);
    const bool norm = name.find("ln_") != std::string::npos;
    if (name.find("bias") != std::string::npos) {
      CHECK(deviation(p) == 0.0);
    } else if (norm) {
      CHECK(min(p).item() == 1.0);
    } else {
      const bool residual = name.find("c_proj") != std::string::npos;
      // 5 %: the deviation of 4096 draws is known to 1.1 %
      CHECK(std::fabs(deviation(p) / (residual ? 0.005 : 0.02) - 1.0) < 0.05);
    }
  }
  manual_seed(6);
  const auto later = [&] {
    const nn::DeviceScope meta(kMeta);
    auto made = std::make_unique<GPT>(config);
    CHECK((*made)(zeros({2, 5}, {.dtype = kInt64, .device = kMeta})).shape() == Shape{2, 5, 300});
    made->materialize();
    return made;
  }();
  const nn::StateDict a = gpt.state_dict(), b = later->state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(test::same(a[i].array, b[i].array));
  CHECK(is_same(later->lm_head.weight, later->transformer.wte.weight));
}

TEST_CASE("a hook inside a block is called, and changes no bit") {
  manual_seed(7);
  GPT gpt(tiny());
  const Tensor before = gpt(tokens_of(8));
  int calls = 0;
  auto& mlp = gpt.transformer.h[1].mlp;
  mlp.up.register_forward_hook([&](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
    ++calls;
    CHECK(out[0].shape() == Shape{1, 8, 32});
  });
  CHECK(equal(gpt(tokens_of(8)), before));
  CHECK(calls == 1);
  gpt.transformer.h[0].mlp.down.register_forward_hook(
      [&](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
        ++calls;
        CHECK(in[0].shape() == Shape{1, 8, 32});
      });
  CHECK(equal(gpt(tokens_of(8)), before));
  CHECK(calls == 3);
}

TEST_CASE("a block or norm with a hook takes no fused form, and changes no bit of the gradients") {
  const Tensor tokens = tokens_of(8), targets = tokens_of(9).slice(0, 1);
  const auto gradients = [&](const std::string& hooked, bool cast) {
    manual_seed(7);
    GPT gpt(tiny());
    int calls = 0;
    if (!hooked.empty()) {
      gpt.get_submodule(hooked).register_forward_hook(
          [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { ++calls; });
    }
    Tensor loss;
    {
      const Autocast autocast({.enabled = cast});
      loss = cross_entropy(gpt(tokens), targets);
    }
    if (hooked.empty()) {  // positions are added to tokens, and the first norm stands alone
      CHECK(count_nodes(loss, "add_layer_norm") == 4);
      CHECK(count_nodes(loss, "add") == 1);
      CHECK(count_nodes(loss, "layer_norm") == 1);
    }
    loss.backward();
    CHECK(calls == (hooked.empty() ? 0 : 1));
    std::vector<Array> grads;
    for (const Tensor& p : gpt.parameters()) grads.push_back(p.grad().array());
    return grads;
  };
  for (const bool cast : {false, true}) {
    const std::vector<Array> expected = gradients("", cast);
    for (const std::string hooked :
         {"transformer.h.1", "transformer.h.0.ln_1", "transformer.h.1.ln_1", "transformer.h.0.ln_2",
          "transformer.ln_f"}) {
      INFO(hooked << (cast ? ", cast" : ""));
      const std::vector<Array> found = gradients(hooked, cast);
      for (size_t i = 0; i < found.size(); ++i) CHECK(test::same(found[i], expected[i]));
    }
  }
}

TEST_CASE("a position's logits do not depend on what follows") {
  manual_seed(1);
  for (bool rotary : {false, true}) {
    GPTConfig config = tiny();
    config.rotary = rotary;
    GPT gpt(config);
    const Tensor whole = gpt(tokens_of(8));
    for (int64_t length : {1, 3, 7}) {
      // 1e-5: floats; a softmax over fewer terms adds in another order
      CHECK(allclose(gpt(tokens_of(length)), whole.slice(0, 0, length), 1e-5, 1e-5));
    }
  }
}

TEST_CASE(
    "blocks are found by their type and may be checkpointed or offloaded with the same bits") {
  core::SwapFile disk(std::filesystem::temp_directory_path().string(), {.bytes = int64_t{1} << 20});
  GPTConfig config = tiny();
  manual_seed(2);
  GPT plain(config);
  const bool offloads = GENERATE(false, true), checkpoints = GENERATE(true, false);
  config.checkpoint = checkpoints;
  if (offloads) config.offload = OffloadOptions{.disk = &disk};
  manual_seed(2);
  GPT saving(config);
  int blocks = 0;
  for (nn::Module* module : plain.modules()) blocks += dynamic_cast<nn::Block*>(module) != nullptr;
  CHECK(blocks == 2);
  const Tensor tokens = tokens_of(8), targets = tokens_of(9).slice(0, 1);
  for (GPT* gpt : {&plain, &saving}) cross_entropy((*gpt)(tokens), targets).backward();
  const auto a = plain.named_parameters(), b = saving.named_parameters();
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].first);
    CHECK(test::same(a[i].second.grad().array(), b[i].second.grad().array()));
  }
  // Of checkpoints the blocks' inputs go, as soon as nobody else holds them: three blocks on.
  CHECK((disk.read_bytes() > 0) == (offloads && !checkpoints));
  CHECK(disk.used() == 0);
}

TEST_CASE("a GPT's loss is the cross entropy of its logits, tied, untied and with a hook") {
  const Tensor text = tokens_of(18), tokens = text.slice(0, 0, 16).reshape({2, 8});
  const Tensor targets = where(text.slice(0, 2) == 3, -100, text.slice(0, 2)).reshape({2, 8});
  for (const bool tied : {true, false}) {
    GPTConfig config = tiny();
    config.tie_weights = tied;
    manual_seed(7);
    GPT gpt(config);
    const nn::Tensors parameters = gpt.parameters();
    const Tensor plain = cross_entropy(flatten(gpt(tokens), 0, 1), flatten(targets));
    const Tensor loss = gpt.loss(tokens, targets);
    CHECK(equal(loss, plain));  // only the gradients' sums have another order
    const nn::Tensors expected = grad({plain}, parameters), found = grad({loss}, parameters);
    for (size_t i = 0; i < found.size(); ++i) CHECK(allclose(found[i], expected[i], 1e-5, 1e-7));
    CHECK(equal(gpt.loss(tokens[1], targets[1]), cross_entropy(gpt(tokens[1]), targets[1])));
    int calls = 0;
    gpt.lm_head.register_forward_hook([&](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
      ++calls;
      CHECK(out[0].shape() == Shape{16, 11});
    });
    const nn::Tensors hooked = grad({gpt.loss(tokens, targets)}, parameters);
    for (size_t i = 0; i < hooked.size(); ++i) CHECK(equal(hooked[i], expected[i]));
    CHECK(calls == 1);
  }
  GPT gpt(tiny());
  CHECK_THROWS_WITH(gpt.loss(tokens, targets[0]), ContainsSubstring("GPT: targets [8] do not fit"));
  const Tensor none = gpt.loss(tokens, full({2, 8}, -100));  // a batch of prompts
  CHECK(std::isnan(none.item()));
  for (const Tensor& g : grad({none}, gpt.parameters())) CHECK(equal(g, zeros_like(g)));
}

TEST_CASE("a GPT learns a text by heart and writes it") {
  manual_seed(3);
  GPTConfig config = tiny();
  config.block_size = 16;
  GPT gpt(config);
  const Tensor text = tokens_of(17);
  const Tensor x = text.slice(0, 0, 16), y = text.slice(0, 1);
  double loss = 0.0;
  for (int step = 0; step < 60; ++step) {
    gpt.zero_grad();
    const Tensor now = cross_entropy(gpt(x), y);
    now.backward();
    loss = now.item();
    const NoGrad no_grad;
    for (const Tensor& p : gpt.parameters()) p.sub_(sign(p.grad()) * 0.01);
  }
  CHECK(loss < 0.1);
  CHECK(equal(gpt.generate(text.slice(0, 0, 3), {.max_new_tokens = 14, .temperature = 0.0}), text));
}

TEST_CASE("generated tokens are those of the whole context run anew each time") {
  manual_seed(4);
  for (bool rotary : {false, true}) {
    GPTConfig config = tiny();
    config.rotary = rotary;
    config.n_kv_head = 1;
    config.dropout = 0.3;  // off while generating
    GPT gpt(config);
    gpt.requires_grad_(false);
    {
      const NoGrad no_grad;  // far from even odds, so that rounding decides nothing
      for (const Tensor& p : gpt.parameters()) p.mul_(8.0);
    }
    const Tensor start = tokens_of(6).reshape({2, 3});
    const Tensor got = gpt.generate(start, {.max_new_tokens = 12, .temperature = 0.0});
    CHECK(gpt.training());
    gpt.eval();
    Tensor all = start;
    for (int i = 0; i < 12; ++i) {
      const Tensor window = all.slice(1, std::max<int64_t>(0, all.size(1) - 8));
      all = cat({all, argmax(gpt(window).select(1, -1), -1, true)}, 1);
    }
    CHECK(got.shape() == Shape{2, 15});
    CHECK(equal(got, all));
  }
}

TEST_CASE("drawing: seed, temperature and top_k") {
  manual_seed(5);
  GPT gpt(tiny());
  {
    const NoGrad no_grad;
    gpt.transformer.wte.weight.mul_(30.0);
  }
  const Tensor start = zeros({200, 1}, {.dtype = kInt64});
  const auto draw = [&](nn::GenerateOptions options) {
    options.max_new_tokens = 1;
    return gpt.generate(start, options).slice(1, 1);
  };
  CHECK(equal(draw({.seed = 1}), draw({.seed = 1})));
  CHECK(!equal(draw({.seed = 1}), draw({.seed = 2})));
  CHECK(!equal(draw({}), draw({})));
  CHECK(equal(draw({.top_k = 1, .seed = 1}), draw({.temperature = 0.0})));
  CHECK(equal(draw({.temperature = 1e-3, .seed = 1}), draw({.temperature = 0.0})));
  const Tensor likeliest = topk(gpt(start)[0][0], 3).indices;
  const Tensor drawn = draw({.top_k = 3, .seed = 1});
  const Tensor among = any(drawn == likeliest, {1});
  CHECK(all(among).item() == 1.0);
  // Each of the three comes up about as often as its probability says: 200 draws, 4 deviations.
  const Tensor odds = softmax(topk(gpt(start)[0][0], 3).values, 0);
  for (int64_t i = 0; i < 3; ++i) {
    const double p = odds[i].item();
    const double count = sum(drawn == likeliest[i]).item();
    CHECK(std::fabs(count - 200.0 * p) < 4.0 * std::sqrt(200.0 * p * (1.0 - p)) + 1.0);
  }
  CHECK(gpt.generate(start[0], {.max_new_tokens = 0}).shape() == Shape{1});
}

TEST_CASE("a GPT says what does not fit") {
  CHECK_THROWS_WITH(GPT({.n_head = 5, .n_embd = 8}),
                    ContainsSubstring("n_head 5 does not divide n_embd 8"));
  CHECK_THROWS_WITH(GPT({.n_head = 4, .n_embd = 8, .n_kv_head = 3}),
                    ContainsSubstring("n_kv_head 3"));
  CHECK_THROWS_WITH(GPT({.vocab_size = 0}), ContainsSubstring("sizes must be positive"));
  GPT gpt(tiny());
  CHECK_THROWS_WITH(gpt(tokens_of(9)),
                    ContainsSubstring("9 tokens do not fit the block size of 8"));
  CHECK_THROWS_WITH(gpt(zeros({1, 1, 1}, {.dtype = kInt64})), ContainsSubstring("[B, T] or [T]"));
  CHECK_THROWS_WITH(gpt.generate(tokens_of(0)), ContainsSubstring("no tokens to go on from"));
  CHECK_THROWS_WITH(gpt.generate(tokens_of(1), {.temperature = -1.0}),
                    ContainsSubstring("temperature"));
  CHECK_THROWS_WITH(gpt.generate(tokens_of(1), {.top_k = 0}), ContainsSubstring("top_k"));
  try {
    gpt(tensor({1, 99}));
    FAIL("token 99 of 11 was accepted");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("99") && ContainsSubstring("transformer.wte"));
  }
}
