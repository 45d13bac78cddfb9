// Low-rank adapters: what they add, what trains, how they are merged and saved alone.
#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/adam.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::LlamaConfig lora_config() {
  return {.vocab_size = 11,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .max_position_embeddings = 8};
}

const nn::LoRAOptions kAdapters = {.rank = 2, .alpha = 6.0, .targets = {"q_proj", "down_proj"}};

Tensor some_ids() { return remainder(arange(Scalar(8)) * 7, 11); }

// Adapters that change outputs: lora_B begins with zeros.
void fill_adapters(nn::Module& model) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name.ends_with("lora_B")) parameter.normal_(0.0, 0.3);
  }
}

// Copies, which later writes do not change.
std::vector<Array> values_of(nn::Module& model) {
  std::vector<Array> values;
  for (const Tensor& parameter : model.parameters()) values.push_back(parameter.array().clone());
  return values;
}

void check_unchanged(nn::Module& model, const std::vector<Array>& before) {
  const std::vector<Array> now = values_of(model);
  REQUIRE(now.size() == before.size());
  for (size_t i = 0; i < now.size(); ++i) CHECK(test::same(now[i], before[i]));
}

void train_adapters(nn::Llama& llama, int steps) {
  optim::AdamW adamw(nn::lora_parameters(llama), {.lr = 0.05});
  for (int step = 0; step < steps; ++step) {
    adamw.zero_grad();
    llama.loss(some_ids().slice(0, 0, 7), some_ids().slice(0, 1)).backward();
    adamw.step();
  }
}

}  // namespace

TEST_CASE("adapters change nothing at first, and are all that trains") {
  manual_seed(3);
  nn::Llama llama(lora_config());
  const Tensor before = llama(some_ids()), loss = llama.loss(some_ids(), some_ids());
  const nn::StateDict base = llama.state_dict();
  std::vector<Array> kept;
  for (const auto& entry : base) kept.push_back(entry.array.clone());
  const auto paths = nn::add_lora(llama, kAdapters);
  CHECK(paths == std::vector<std::string>{
                     "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj",
                     "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"});
  CHECK(equal(llama(some_ids()), before));
  CHECK(equal(llama.loss(some_ids(), some_ids()), loss));
  CHECK(llama.parameter_count(true) == 2 * (2 * (8 + 8) + 2 * (12 + 8)));
  CHECK(nn::lora_parameters(llama).size() == 8);
  train_adapters(llama, 3);
  for (size_t i = 0; i < base.size(); ++i) CHECK(test::same(base[i].array, kept[i]));
  CHECK(!equal(llama(some_ids()), before));
  for (const Tensor& p : llama.parameters()) CHECK(p.grad().defined() == p.requires_grad());
}

TEST_CASE("an adapter is two matrices beside the layer's own") {
  manual_seed(4);
  nn::Linear layer(5, 3);
  layer.add_adapter({.rank = 2, .alpha = 3.0});
  const Tensor a = layer.get_parameter("lora_A"), b = layer.get_parameter("lora_B");
  CHECK(a.shape() == Shape{2, 5});
  CHECK(b.shape() == Shape{3, 2});
  {
    const NoGrad no_grad;
    b.copy_(Tensor(test::noise({3, 2})));
  }
  const Tensor x(test::noise({4, 5}));
  const Tensor whole = layer.weight + 1.5 * matmul(b, a);
  // 1e-6: products of rank 2 and 5 in another order
  CHECK(allclose(layer(x), linear(x, whole, layer.bias), 1e-6, 1e-6));
  const Tensor before = layer(x), weight = layer.weight.clone();
  nn::merge_lora(layer);
  nn::merge_lora(layer);  // once is enough
  CHECK(layer.has_merged_adapter());
  CHECK(allclose(layer.weight, whole, 1e-6, 1e-6));
  CHECK(allclose(layer(x), before, 1e-6, 1e-6));
  nn::unmerge_lora(layer);
  CHECK(!layer.has_merged_adapter());
  CHECK(allclose(layer.weight, weight, 1e-6, 1e-6));
  CHECK(allclose(layer(x), before, 1e-6, 1e-6));
  layer.remove_adapter();
  CHECK(layer.parameters().size() == 2);
  CHECK(!layer.has_hooks());
  CHECK_THROWS_WITH(layer.remove_adapter(), ContainsSubstring("no adapter"));
}

TEST_CASE("adapters are saved alone, and read into a model that has them") {
  const hero_test::TempDir dir;
  manual_seed(5);
  nn::Llama llama(lora_config());
  llama.save(dir / "base.safetensors");
  nn::add_lora(llama, kAdapters);
  train_adapters(llama, 3);
  nn::save_lora(llama, dir / "adapters.safetensors");
  CHECK(core::load_safetensors(dir / "adapters.safetensors").arrays.size() == 8);
  manual_seed(99);
  nn::Llama other(lora_config());
  other.load(dir / "base.safetensors");
  CHECK_THROWS_WITH(nn::load_lora(other, dir / "adapters.safetensors"),
                    ContainsSubstring("unexpected: model.layers.0.self_attn.q_proj.lora_A"));
  nn::add_lora(other, kAdapters);
  nn::load_lora(other, dir / "adapters.safetensors");
  CHECK(equal(other(some_ids()), llama(some_ids())));
  CHECK_THROWS_WITH(other.save_pretrained(dir / "folder"), ContainsSubstring("merge_lora()"));
  const Tensor before = other(some_ids());
  nn::merge_lora(other);
  nn::remove_lora(other);
  other.save_pretrained(dir / "folder");
  nn::Llama merged = nn::Llama::from_pretrained(dir / "folder");
  CHECK(equal(merged(some_ids()), other(some_ids())));
  CHECK(allclose(merged(some_ids()), before, 1e-5, 1e-5));  // weights were rounded once
}

TEST_CASE("a model on meta gets its adapters' values when it is materialised") {
  const auto made = [](bool meta) {
    manual_seed(6);
    std::optional<nn::DeviceScope> scope;
    if (meta) scope.emplace(kMeta);
    auto llama = std::make_unique<nn::Llama>(lora_config());
    nn::add_lora(*llama, kAdapters);
    scope.reset();
    if (meta) llama->materialize();
    return llama;
  };
  const nn::StateDict a = made(false)->state_dict(), b = made(true)->state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(test::same(a[i].array, b[i].array));
}

TEST_CASE("targets that make no sense are errors, and change nothing") {
  manual_seed(7);
  nn::GPT gpt({.vocab_size = 7, .block_size = 6, .n_layer = 1, .n_head = 2, .n_embd = 8});
  CHECK_THROWS_WITH(nn::add_lora(gpt, {}), ContainsSubstring("no targets"));
  CHECK_THROWS_WITH(nn::add_lora(gpt, {.targets = {"c_attn", "q_proj"}}),
                    ContainsSubstring("GPT has no module called 'q_proj'"));
  CHECK_THROWS_WITH(nn::add_lora(gpt, {.targets = {"c_attn", "wte"}}),
                    ContainsSubstring("'transformer.wte' is a Embedding"));
  CHECK(gpt.parameter_count(true) == gpt.parameter_count());
  CHECK_THROWS_WITH(nn::merge_lora(gpt), ContainsSubstring("GPT has no adapters"));
  nn::add_lora(gpt, {.targets = {"c_attn", "c_fc"}});
  CHECK_THROWS_WITH(nn::add_lora(gpt, {.targets = {"c_attn"}}),
                    ContainsSubstring("has an adapter already"));
  gpt.loss(zeros({4}, {.dtype = kInt64}), zeros({4}, {.dtype = kInt64})).backward();
}

TEST_CASE("an adapter of a tied weight is not merged, and the error names the tie") {
  const NoGrad no_grad;
  const auto refused = [](nn::Module& model, const std::string& weight, const std::string& other) {
    const std::vector<Array> before = values_of(model);
    CHECK_THROWS_WITH(nn::merge_lora(model),
                      ContainsSubstring("merge_lora: " + weight + " is " + other + ", too (tied)"));
    check_unchanged(model, before);
    (void)model.state_dict();  // nothing is merged
  };
  manual_seed(8);
  nn::GPT gpt({.vocab_size = 11, .block_size = 8, .n_layer = 1, .n_head = 2, .n_embd = 8});
  nn::add_lora(gpt, {.rank = 2, .targets = {"lm_head", "c_attn"}});
  fill_adapters(gpt);
  refused(gpt, "lm_head.weight", "transformer.wte.weight");  // nor is c_attn's

  nn::LlamaConfig config = lora_config();
  config.tie_word_embeddings = true;
  nn::Llama llama(config);
  nn::add_lora(llama, {.rank = 2, .targets = {"lm_head"}});
  fill_adapters(llama);
  refused(llama, "lm_head.weight", "model.embed_tokens.weight");

  // a tie deep inside, by the tensor or by its memory, of a layer that was tied or that is tied to
  nn::Sequential nested{nn::Sequential{nn::Linear(4, 4), nn::Linear(4, 4)}, nn::Linear(4, 4)};
  auto& first = dynamic_cast<nn::Linear&>(nested.get_submodule("0.0"));
  auto& last = dynamic_cast<nn::Linear&>(nested.get_submodule("1"));
  first.weight = last.weight;
  nn::add_lora(nested, {.rank = 2, .targets = {"0.0"}});
  fill_adapters(nested);
  refused(nested, "0.0.weight", "1.weight");
  last.weight = first.weight.detach().requires_grad_();
  refused(nested, "0.0.weight", "1.weight");
}

TEST_CASE("a weight that is untied before is merged, saved and read as a head of its own") {
  const hero_test::TempDir dir;
  const NoGrad no_grad;
  manual_seed(9);
  nn::GPT gpt({.vocab_size = 11, .block_size = 8, .n_layer = 1, .n_head = 2, .n_embd = 8});
  nn::add_lora(gpt, {.rank = 2, .targets = {"lm_head"}});
  fill_adapters(gpt);
  gpt.eval();
  const Tensor x = some_ids().unsqueeze(0), before = gpt(x);
  gpt.lm_head.weight = gpt.lm_head.weight.detach().clone().requires_grad_();
  nn::merge_lora(gpt);
  CHECK(allclose(gpt(x), before, 1e-5, 1e-5));  // 1e-5: weights are rounded once
  nn::remove_lora(gpt);
  gpt.save_pretrained(dir / "folder");
  nn::GPT again = nn::GPT::from_pretrained(dir / "folder");
  CHECK(!again.config().tie_weights);
  again.eval();
  CHECK(equal(again(x), gpt(x)));
}

TEST_CASE("a model whose adapters are merged has no state, and takes none") {
  const hero_test::TempDir dir;
  const NoGrad no_grad;
  manual_seed(10);
  nn::Sequential model{nn::Linear(4, 4), nn::Linear(4, 4)},
      other{nn::Linear(4, 4), nn::Linear(4, 4)};
  other.load_state_dict(model.state_dict());
  for (nn::Sequential* each : {&model, &other}) {
    nn::add_lora(*each, {.rank = 2, .targets = {"0"}});
    fill_adapters(*each);
  }
  const nn::StateDict unmerged = other.state_dict();
  nn::save_lora(other, dir / "other.safetensors");
  const Tensor x(test::noise({3, 4})), weight = model.get_parameter("0.weight").clone();
  nn::Checkpointer checkpoint(dir / "run");
  checkpoint.track("model", model);
  checkpoint.save(1);
  const Tensor own = model(x);
  nn::merge_lora(model);
  const std::vector<Array> merged = values_of(model);
  const auto refuses = [](const auto& act) {
    CHECK_THROWS_WITH(act(), ContainsSubstring("0.weight has an adapter merged into it") &&
                                 ContainsSubstring("unmerge_lora()"));
  };
  refuses([&] { (void)model.state_dict(); });
  refuses([&] { model.save(dir / "model.safetensors"); });
  refuses([&] { checkpoint.save(2); });
  refuses([&] { checkpoint.save(2, {.async = true}); });
  CHECK(checkpoint.steps() == std::vector<int64_t>{1});
  refuses([&] { model.load_state_dict(unmerged); });
  refuses([&] { nn::load_lora(model, dir / "other.safetensors"); });
  refuses([&] { checkpoint.load(1); });
  check_unchanged(model, merged);
  nn::save_lora(model, dir / "own.safetensors");  // the adapters alone are what they were
  nn::unmerge_lora(model);
  CHECK(allclose(model.get_parameter("0.weight"), weight, 1e-6, 1e-6));  // rounded twice
  CHECK(allclose(model(x), own, 1e-6, 1e-6));
  nn::load_lora(model, dir / "other.safetensors");
  CHECK(allclose(model(x), other(x), 1e-6, 1e-6));
  checkpoint.load(1);
  CHECK(equal(model(x), own));
  nn::load_lora(model, dir / "own.safetensors");
  CHECK(equal(model(x), own));
  // what is merged for good is a plain state
  nn::merge_lora(model);
  nn::remove_lora(model);
  nn::Sequential plain{nn::Linear(4, 4), nn::Linear(4, 4)};
  plain.load_state_dict(model.state_dict());
  CHECK(equal(plain(x), model(x)));
}

TEST_CASE("what is taken out of a weight is what was added to it") {
  const NoGrad no_grad;
  manual_seed(11);
  nn::Sequential model{nn::Linear(4, 4)};
  nn::add_lora(model, {.rank = 2, .targets = {"0"}});
  fill_adapters(model);
  const Tensor weight = model.get_parameter("0.weight").clone();
  nn::merge_lora(model);
  model.get_parameter("0.lora_B").normal_(0.0, 0.1);
  model.get_parameter("0.lora_A").normal_(0.0, 0.1);
  nn::unmerge_lora(model);
  CHECK(allclose(model.get_parameter("0.weight"), weight, 1e-6, 1e-6));  // rounded twice
  // a model that is converted meanwhile keeps what its dtype has of the weight
  nn::merge_lora(model);
  model.to(kFloat64);
  nn::unmerge_lora(model);
  CHECK(allclose(model.get_parameter("0.weight"), weight.to(kFloat64), 1e-6, 1e-6));
  // a weight that was put there meanwhile has nothing to take out
  nn::merge_lora(model);
  auto& layer = dynamic_cast<nn::Linear&>(model.get_submodule("0"));
  layer.weight = layer.weight.detach().clone().requires_grad_();
  CHECK_THROWS_WITH(nn::unmerge_lora(model),
                    ContainsSubstring("unmerge_lora: 0.weight is another tensor"));
  nn::remove_lora(model);
  CHECK(model.parameters().size() == 2);
}
