// The examples of the API reference about modules and data: each runs, and its comments are
// checked.
#include <filesystem>

#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

//! [Module]
struct Residual : nn::Module {
  explicit Residual(int64_t width) : norm(add<nn::LayerNorm>("norm", width)) {
    inner = &add<nn::Linear>("inner", width, width);
  }
  Tensor forward(const Tensor& x) override { return x + relu((*inner)(norm(x))); }

  nn::LayerNorm& norm;
  nn::Linear* inner = nullptr;
};
//! [Module]

TEST_CASE("example: Module") {
  Residual block(8);
  CHECK(block(ones({2, 8})).shape() == Shape{2, 8});
  CHECK(block.named_parameters().size() == 4);
}

TEST_CASE("example: named_parameters") {
  //! [named_parameters]
  nn::Sequential net{nn::Linear(784, 32), nn::ReLU(), nn::Linear(32, 10)};
  int64_t count = 0;
  for (const auto& [name, parameter] : net.named_parameters()) {
    count += parameter.numel();  // "0.weight" [32, 784], "0.bias" [32], "2.weight", "2.bias"
  }
  //! [named_parameters]
  CHECK(count == 784 * 32 + 32 + 32 * 10 + 10);
}

TEST_CASE("example: Sequential") {
  //! [Sequential]
  manual_seed(1);
  nn::Sequential net{nn::Linear(4, 16), nn::ReLU(), nn::Dropout(0.1), nn::Linear(16, 2)};
  const Tensor logits = net(randn({8, 4}));  // [8, 2]
  net.eval();                                // from now on dropout lets everything through
  //! [Sequential]
  CHECK(logits.shape() == Shape{8, 2});
  CHECK(!net.training());
}

TEST_CASE("example: Linear") {
  //! [Linear]
  nn::Linear layer(3, 2, {.bias = false});
  const Tensor y = layer(ones({5, 7, 3}));  // [5, 7, 2]: the last dimension is that of features
  const Tensor weight = layer.weight;       // [2, 3], as PyTorch keeps it
  //! [Linear]
  CHECK(y.shape() == Shape{5, 7, 2});
  CHECK(weight.shape() == Shape{2, 3});
}

TEST_CASE("example: QuantizedLinear") {
  //! [QuantizedLinear]
  nn::Sequential net{nn::Linear(64, 32), nn::ReLU(), nn::Linear(32, 10)};
  nn::quantize_linear(net, "Q8_0");  // each Linear becomes a QuantizedLinear
  const NoGrad no_grad;
  const Tensor y = net(ones({5, 64}));  // [5, 10]
  //! [QuantizedLinear]
  CHECK(y.shape() == Shape{5, 10});
}

TEST_CASE("example: Conv2d") {
  //! [Conv2d]
  nn::Sequential net{nn::Conv2d(1, 8, 3, {.padding = 1}),
                     nn::BatchNorm2d(8),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Flatten(),
                     nn::Linear(8 * 14 * 14, 10)};
  const Tensor logits = net(zeros({4, 1, 28, 28}));  // [4, 10]
  //! [Conv2d]
  CHECK(logits.shape() == Shape{4, 10});
}

TEST_CASE("example: functional_call") {
  //! [functional_call]
  manual_seed(1);
  nn::Linear model(3, 1);
  const Tensor x = randn({8, 3}), y = randn({8, 1});
  std::vector<Tensor> fast = model.parameters();
  const Tensor loss = mse_loss(nn::functional_call(model, fast, x), y);
  const std::vector<Tensor> g = grad({loss}, fast, {.create_graph = true});
  for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.1 * g[i];
  const Tensor after = mse_loss(nn::functional_call(model, fast, x), y);
  after.backward();  // through the step, into the gradients of model
  //! [functional_call]
  CHECK(after.item() < loss.item());
  CHECK(model.weight.grad().defined());
}

TEST_CASE("example: spectral_norm") {
  //! [spectral_norm]
  manual_seed(1);
  nn::Sequential critic{nn::spectral_norm(nn::Linear(64, 32)), nn::LeakyReLU(0.2),
                        nn::spectral_norm(nn::Linear(32, 1))};
  const Tensor logits = critic(randn({8, 64}));  // a step of each power iteration, then [8, 1]
  //! [spectral_norm]
  CHECK(logits.shape() == Shape{8, 1});
  CHECK(critic.parameters().size() == 4);
}

TEST_CASE("example: pack_padded_sequence") {
  //! [pack_padded_sequence]
  manual_seed(1);
  nn::GRU gru(5, 7, {.batch_first = true, .bidirectional = true});
  const Tensor x = randn({3, 4, 5});  // three sequences of 4, 2 and 3 steps, with padding
  const auto packed = nn::pack_padded_sequence(x, {4, 2, 3}, {.batch_first = true});
  const auto [output, h] = gru(packed);  // h [2, 3, 7] is each sequence's own last state
  const Tensor padded = nn::pad_packed_sequence(output, {.batch_first = true}).output;
  //! [pack_padded_sequence]
  CHECK(padded.shape() == Shape{3, 4, 14});
  CHECK(h.shape() == Shape{2, 3, 7});
}

TEST_CASE("example: pad_sequence") {
  //! [pad_sequence]
  const Tensor batch = nn::pad_sequence({tensor({1, 2, 3}), tensor({4})}, {.batch_first = true});
  // [[1, 2, 3], [4, 0, 0]]
  //! [pad_sequence]
  CHECK(batch.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 3, 4, 0, 0});
}

TEST_CASE("example: TransformerDecoder") {
  //! [TransformerDecoder]
  manual_seed(1);
  nn::TransformerDecoder decoder(
      16, 4, 2, {.layer = {.dim_feedforward = 32, .batch_first = true, .norm_first = true}});
  const Tensor memory = randn({2, 9, 16}), tgt = randn({2, 5, 16});
  const Tensor y = decoder(tgt, memory, {.tgt_is_causal = true});  // [2, 5, 16]
  //! [TransformerDecoder]
  CHECK(y.shape() == Shape{2, 5, 16});
}

TEST_CASE("example: LSTM") {
  //! [LSTM]
  nn::LSTM lstm(10, 20, {.num_layers = 2, .batch_first = true});
  const auto [y, state] = lstm(randn({3, 5, 10}));  // y [3, 5, 20]: the last layer's, each step
  //! [LSTM]
  CHECK(y.shape() == Shape{3, 5, 20});
  CHECK(state.h.shape() == Shape{2, 3, 20});
}

TEST_CASE("example: MultiheadAttention") {
  //! [MultiheadAttention]
  nn::MultiheadAttention attention(64, 4, {.batch_first = true});
  const Tensor x = randn({2, 10, 64});
  const Tensor y = attention(x);  // [2, 10, 64]: self-attention, queries, keys and values from x
  //! [MultiheadAttention]
  CHECK(y.shape() == Shape{2, 10, 64});
}

TEST_CASE("example: GPT") {
  //! [GPT]
  nn::GPT model({.vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32});
  const Tensor tokens = randint(0, 50, {4, 16});
  const Tensor loss = model.loss(tokens, tokens);  // mean cross entropy, here of no use
  loss.backward();
  const Tensor longer = model.generate(tokens.slice(1, 0, 4), {.max_new_tokens = 8, .seed = 1});
  //! [GPT]
  CHECK(loss.item() > 3);  // about log 50
  CHECK(longer.shape() == Shape{4, 12});
}

TEST_CASE("example: on meta") {
  //! [DeviceScope]
  const nn::DeviceScope meta(kMeta);  // shapes without bytes
  nn::GPT gpt3(
      {.vocab_size = 50304, .block_size = 2048, .n_layer = 96, .n_head = 96, .n_embd = 12288});
  int64_t parameters = 0;
  for (const Tensor& p : gpt3.parameters()) parameters += p.numel();  // 174.6 billion
  //! [DeviceScope]
  CHECK(parameters == 174'604'836'864);
}

TEST_CASE("example: save") {
  const hero_test::TempDir folder;
  const std::string path = folder / "net.safetensors";
  //! [save]
  nn::Linear net(4, 2);
  net.save(path);  // a .safetensors file, which Python opens too
  nn::Linear other(4, 2);
  other.load(path);  // an Error lists every name and shape that does not fit
  //! [save]
  CHECK(equal(net.weight, other.weight));
}

TEST_CASE("example: DataLoader") {
  //! [DataLoader]
  const Tensor inputs = arange(10).to(kFloat32).unsqueeze(1);
  nn::data::TensorDataset dataset({inputs, inputs * 2.0});
  nn::data::DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .seed = 3});
  int64_t seen = 0;
  for (const auto& [x, y] : loader) seen += x.size(0);  // batches of 4, 4 and 2
  //! [DataLoader]
  CHECK(seen == 10);
  CHECK(loader.size() == 3);
}

TEST_CASE("example: Checkpointer") {
  const hero_test::TempDir folder;
  const std::string run = folder / "run";
  nn::Linear model(4, 2);
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  //! [Checkpointer]
  nn::Checkpointer checkpoint(run, {.keep = 2});
  checkpoint.track("model", model);
  checkpoint.track("optimizer", adamw);
  int64_t step = checkpoint.resume().value_or(0);  // 0: a new run
  for (; step < 10; ++step) {
    model(randn({8, 4})).square().mean().backward();
    adamw.step();
    adamw.zero_grad();
  }
  checkpoint.save(step);  // the whole one or none, whenever the process is killed
  //! [Checkpointer]
  CHECK(checkpoint.steps() == std::vector<int64_t>{10});
}

TEST_CASE("example: MetricsWriter") {
  const hero_test::TempDir folder;
  const std::string run = folder / "run";
  //! [MetricsWriter]
  nn::MetricsWriter metrics(run);
  for (int64_t step = 1; step <= 3; ++step) {
    metrics.write(step, {{"train/loss", 1.0 / static_cast<double>(step)}, {"lr", 1e-3}});
  }
  //! [MetricsWriter]
  CHECK(std::filesystem::exists(run + "/metrics.jsonl"));
}

}  // namespace
