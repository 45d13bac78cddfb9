// The side of PyTorch's C++ library beside train_hero.cpp: the MLP and the GPT with the same sizes,
// optimizers and losses, and the same two ways to be run.
#include "speed.h"
#include <torch/torch.h>

namespace {

using torch::Tensor;
using Step = std::function<void()>;
namespace F = torch::nn::functional;

template <class Optimizer, class Loss>
Step train(std::vector<Tensor> parameters, std::shared_ptr<Optimizer> optimizer, Loss loss,
           double clip = 0.0) {
  return [=]() mutable {
    optimizer->zero_grad();
    loss().backward();
    if (clip > 0.0) torch::nn::utils::clip_grad_norm_(parameters, clip);
    optimizer->step();
  };
}

Step mlp() {
  using namespace torch::nn;
  Sequential model(Linear(784, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10));
  const Tensor x = torch::rand({64, 784}), y = torch::randint(0, 10, {64});
  auto sgd = std::make_shared<torch::optim::SGD>(model->parameters(), 1e-3);
  return train(model->parameters(), sgd,
               [=]() mutable { return F::cross_entropy(model->forward(x), y); });
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t block_heads, int64_t width) : heads(block_heads) {
    using torch::nn::LayerNorm, torch::nn::LayerNormOptions, torch::nn::Linear;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({width})));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({width})));
    qkv = register_module("qkv", Linear(width, 3 * width));
    out = register_module("out", Linear(width, width));
    up = register_module("up", Linear(width, 4 * width));
    down = register_module("down", Linear(4 * width, width));
  }
  Tensor attend(const Tensor& x) {
    const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
    const std::vector<Tensor> parts = qkv(x).split(width, 2);
    const auto head = [&](const Tensor& part) {
      return part.view({batch, time, heads, width / heads}).transpose(1, 2);
    };
    const Tensor y = at::scaled_dot_product_attention(head(parts[0]), head(parts[1]),
                                                      head(parts[2]), {}, 0.0, true);
    return out(y.transpose(1, 2).reshape({batch, time, width}));
  }
  Tensor forward(const Tensor& input) {
    const Tensor x = input + attend(norm1(input));
    return x + down(F::gelu(up(norm2(x))));
  }
  int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct GPTImpl : torch::nn::Module {
  GPTImpl(int64_t layers, int64_t heads, int64_t width, int64_t block, int64_t vocabulary) {
    tokens = register_module("tokens", torch::nn::Embedding(vocabulary, width));
    torch::nn::init::normal_(tokens->weight, 0.0, 0.02);
    positions = register_parameter("positions", torch::randn({block, width}) * 0.02);
    for (int64_t i = 0; i < layers; ++i) blocks->push_back(Block(heads, width));
    register_module("blocks", blocks);
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  Tensor forward(const Tensor& x) {
    Tensor h = tokens(x) + positions;
    for (const auto& block : *blocks) h = block->as<BlockImpl>()->forward(h);
    return F::linear(norm(h), tokens->weight);
  }
  torch::nn::Embedding tokens{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
  Tensor positions;
};
TORCH_MODULE(GPT);

Step gpt() {
  constexpr int64_t kBatch = 12, kBlock = 64, kVocabulary = 512;
  GPT model(4, 4, 128, kBlock, kVocabulary);
  const Tensor x = torch::randint(0, kVocabulary, {kBatch, kBlock});
  const Tensor y = torch::randint(0, kVocabulary, {kBatch * kBlock});
  auto adamw = std::make_shared<torch::optim::AdamW>(model->parameters(), 3e-4);
  return train(
      model->parameters(), adamw,
      [=]() mutable { return F::cross_entropy(model->forward(x).flatten(0, 1), y); }, 1.0);
}

const std::map<std::string, std::function<Step()>> kNetworks = {{"mlp", mlp}, {"gpt_128", gpt}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) {
    torch::set_num_threads(std::atoi(argv[2]));
    const Step step = kNetworks.at(argv[1])();
    for (int i = 0; i < std::atoi(argv[3]); ++i) {
      step();
      if (i == 0) std::puts("first");
      std::fflush(stdout);
    }
    return 0;
  }
  peers::Cases cases;
  for (const auto& [name, make] : kNetworks) cases[name] = {1, make};
  return peers::answer(cases, [](int threads) { torch::set_num_threads(threads); });
}
