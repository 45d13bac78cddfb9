// Another module in a child's place: lists, states and calls go to it, also through references.
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/nn.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

struct TwoLayers : nn::Module {
  nn::Linear& body = add<nn::Linear>("body", 3, 4);
  nn::Linear& head = add<nn::Linear>("head", 4, 2);
  Tensor forward(const Tensor& x) override { return head(tanh(body(x))); }
};

// Twice its input.
struct Doubling : nn::Module {
  int calls = 0;
  Tensor forward(const Tensor& x) override {
    ++calls;
    return x * 2;
  }
};

nn::GPTConfig small_gpt() {
  return {.vocab_size = 7, .block_size = 6, .n_layer = 2, .n_head = 2, .n_embd = 8};
}

}  // namespace

TEST_CASE("a replaced child is called by its parent's reference, listed, printed and saved") {
  manual_seed(1);
  // [snippet: replace]
  TwoLayers model;  // whose forward is head(tanh(body(x)))
  nn::Linear& head = model.replace("head", nn::Linear(4, 5, {.bias = false}));
  // [end]
  const Tensor x(test::noise({6, 3}));
  CHECK(equal(model(x), head(tanh(model.body(x)))));
  CHECK(model(x).shape() == Shape{6, 5});
  CHECK(head.name() == "head");
  CHECK(&model.get_submodule("head") == &head);
  CHECK(model.children().back() == &head);
  CHECK(model.modules().size() == 3);
  std::string names;
  for (const auto& [name, p] : model.named_parameters()) names += name + to_string(p.shape());
  CHECK(names == "body.weight[4, 3]body.bias[4]head.weight[5, 4]");
  CHECK(model.state_dict().size() == 3);
  CHECK_THAT(to_string(model), ContainsSubstring("out_features=5"));
  model.eval();
  CHECK(!head.training());
  model.to(kFloat64);
  CHECK(head.weight.dtype() == kFloat64);
  int calls = 0;
  model.apply([&](nn::Module& module) { calls += &module == &head; });
  CHECK(calls == 1);
  sum(model(x.to(kFloat64))).backward();
  CHECK(head.weight.grad().defined());
  model.replace("head", nn::Linear(4, 1));  // and once more
  model.to(kFloat32);
  CHECK(model(x).shape() == Shape{6, 1});
  CHECK(model.parameter_count() == 16 + 5);
}

TEST_CASE("hooks of a child that was replaced are those of the new one") {
  manual_seed(1);
  TwoLayers model;
  model.replace("body", nn::Linear(3, 4));
  int calls = 0;
  model.body.register_forward_hook(
      [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { ++calls; });
  model(ones({1, 3}));
  CHECK(calls == 1);
  CHECK(model.get_submodule("body").has_hooks());
  CHECK_THROWS_WITH(model.replace("body", nn::Linear(3, 4)),
                    ContainsSubstring("replace: body has hooks"));
}

TEST_CASE("what a parent computes for its children itself it does not for replaced ones") {
  manual_seed(2);
  nn::GPT gpt(small_gpt());
  const Tensor tokens = remainder(arange(Scalar(6)) * 3, 7), targets = tokens;
  // the same layers again: the same values by other objects
  const Tensor before = gpt.loss(tokens, targets);
  const auto copied = [&](const std::string& path) {
    auto& old = dynamic_cast<nn::Linear&>(gpt.get_submodule(path));
    nn::Linear fresh(old.in_features, old.out_features, {.bias = old.bias.defined()});
    fresh.load_state_dict(old.state_dict());
    return fresh;
  };
  gpt.replace("transformer.h.0.mlp.c_proj", copied("transformer.h.0.mlp.c_proj"));
  gpt.replace("lm_head", copied("lm_head"));
  CHECK(equal(gpt.loss(tokens, targets), before));
  Doubling& doubling = gpt.replace("transformer.h.1.mlp", Doubling());
  gpt.loss(tokens, targets).backward();
  CHECK(doubling.calls == 1);
  gpt.generate(tokens.slice(0, 0, 2), {.max_new_tokens = 2});
  CHECK(doubling.calls == 3);
  gpt.replace("transformer.ln_f", nn::RMSNorm(8));
  CHECK(gpt(tokens).shape() == Shape{6, 7});
  CHECK(gpt.get_submodule("transformer.ln_f").parameters().size() == 1);
}

TEST_CASE("a place that is not there, and a call that the new module cannot take, are errors") {
  manual_seed(1);
  TwoLayers model;
  CHECK_THROWS_WITH(model.replace("heads", nn::Linear(4, 2)),
                    ContainsSubstring("TwoLayers has no module 'heads'"));
  CHECK_THROWS_WITH(model.replace("body.x", nn::Linear(4, 2)),
                    ContainsSubstring("Linear has no module 'x'"));
  CHECK_THROWS_WITH(model.replace("", nn::Linear(4, 2)), ContainsSubstring("no module ''"));
  nn::GPT gpt(small_gpt());
  gpt.replace("transformer.h.0", Doubling());
  const Tensor tokens = zeros({4}, {.dtype = kInt64});
  CHECK(gpt(tokens).shape() == Shape{4, 7});
  CHECK_THROWS_WITH(gpt.generate(tokens),
                    ContainsSubstring("Block: it was replaced by a Doubling"));
}

TEST_CASE("children of containers can be replaced") {
  nn::Sequential net{nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2)};
  net.replace("1", Doubling());
  const Tensor x(test::noise({2, 3}));
  CHECK(equal(net(x), net[2](net[0](x) * 2)));
  CHECK(net[1].type_name() == "Doubling");
}
