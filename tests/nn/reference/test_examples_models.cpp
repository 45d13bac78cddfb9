// The examples of the API reference about whole models: each runs, and its comments are checked.
#include <map>

#include <nn/pretrained.h>
#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/nn/data/chat.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

//! [Decoder]
// One layer of attention with a cache: what generate() needs of a model of your own.
struct TinyDecoder : nn::Module, nn::Decoder {
  nn::Embedding& embed = add<nn::Embedding>("embed", 11, 8);
  nn::Linear& qkv = add<nn::Linear>("qkv", 8, 24);
  nn::RotaryEmbedding& rotary = add<nn::RotaryEmbedding>("rotary", 8);
  nn::Linear& head = add<nn::Linear>("head", 8, 11);

  int64_t context_length() const override { return 32; }
  Tensor next_logits(const Tensor& tokens, nn::KeyValueCache& cache) override {
    const auto parts = split(unsqueeze(qkv(embed(tokens)), 1), {8, 8, 8}, -1);  // [B, 1, T, 8]
    const Tensor q = rotary(parts[0], cache.first()), k = rotary(parts[1], cache.first());
    const Tensor y = cache.attend(0, q, k, parts[2]);  // to all that the cache holds
    return head(cache.last(y.squeeze(1)));
  }
};
//! [Decoder]

TEST_CASE("example: Decoder") {
  manual_seed(1);
  TinyDecoder model;
  const nn::GenerateOptions options{.max_new_tokens = 6, .temperature = 0.0};
  const auto texts = model.generate({tensor({1, 2, 3}), tensor({4}), tensor({5, 6})}, options);
  CHECK(texts[1].shape() == Shape{7});
  CHECK(equal(texts[1], model.generate(tensor({4}), options)));
}

TEST_CASE("example: Llama") {
  //! [Llama]
  manual_seed(1);
  nn::Llama model({.vocab_size = 100,
                   .hidden_size = 64,
                   .intermediate_size = 96,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 4,
                   .num_key_value_heads = 2});
  const Tensor tokens = randint(0, 100, {2, 9});
  model.loss(tokens.slice(1, 0, 8), tokens.slice(1, 1)).backward();
  const Tensor text = model.generate(tokens, {.max_new_tokens = 4, .top_p = 0.9, .seed = 1});
  //! [Llama]
  CHECK(text.shape() == Shape{2, 13});
}

TEST_CASE("example: CausalLM") {
  //! [CausalLM]
  manual_seed(1);
  // RMS norms, grouped heads and rotary positions, as in a Llama; GELU and biases, as in a GPT.
  nn::CausalLM model({.vocab_size = 100,
                      .layers = 2,
                      .heads = 4,
                      .width = 64,
                      .kv_heads = 2,
                      .rotary = nn::RotaryOptions(),
                      .rms_norm = true});
  const Tensor tokens = randint(0, 100, {2, 9});
  model.loss(tokens.slice(1, 0, 8), tokens.slice(1, 1)).backward();
  const Tensor text = model.generate(tokens, {.max_new_tokens = 4, .seed = 1});
  //! [CausalLM]
  CHECK(text.shape() == Shape{2, 13});
}

TEST_CASE("example: from_pretrained") {
  const std::string folder = test::Pretrained("gpt2").folder;
  const hero_test::TempDir dir;
  const std::string other = dir / "other";
  //! [from_pretrained]
  nn::GPT model = nn::GPT::from_pretrained(folder);  // config.json and model*.safetensors
  const Tensor text = model.generate(tensor({1, 2, 3}), {.temperature = 0.0, .stop_tokens = {7}});
  model.save_pretrained(other);  // transformers reads it
  //! [from_pretrained]
  CHECK(text.size(0) > 3);
}

TEST_CASE("example: replace") {
  //! [replace]
  nn::Sequential net{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 1000)};
  nn::Linear& head = net.replace("2", nn::Linear(16, 10));  // a head for ten classes
  optim::SGD sgd(head.parameters(), {.lr = 0.1});
  //! [replace]
  CHECK(net(ones({3, 8})).shape() == Shape{3, 10});
}

TEST_CASE("example: add_lora") {
  const hero_test::TempDir dir;
  const std::string path = dir / "adapters.safetensors";
  nn::GPT model({.vocab_size = 20, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8});
  //! [add_lora]
  nn::add_lora(model, {.rank = 4, .alpha = 8.0, .targets = {"c_attn", "c_proj"}});
  optim::AdamW adamw(nn::lora_parameters(model), {.lr = 1e-3});  // of six layers
  // ... train
  nn::save_lora(model, path);
  nn::merge_lora(model);   // into the weights
  nn::remove_lora(model);  // and the adapters go
  //! [add_lora]
  CHECK(model.parameter_count(true) == 0);
  CHECK(core::load_safetensors(path).arrays.size() == 12);
}

TEST_CASE("example: ChatTemplate") {
  const auto tokenizer = nn::data::BPETokenizer::train(
      "", {.vocab_size = 258, .special_tokens = {"<|im_start|>", "<|im_end|>"}});
  //! [ChatTemplate]
  const auto chatml = nn::data::ChatTemplate::named("chatml");
  const std::vector<nn::data::ChatMessage> messages = {{"user", "Hello"}};
  const std::vector<int64_t> prompt = chatml.encode(tokenizer, messages);
  // "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
  const std::string text = tokenizer.decode(prompt);
  //! [ChatTemplate]
  CHECK(text == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
