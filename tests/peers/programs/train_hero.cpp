// Hero's side of train_torch.py: one training step of each network, written with functions but for
// nn::Llama. With arguments CASE THREADS STEPS it runs so many steps and prints a line after the
// first. A case is a network's name, or that and "+bf16": its loss under Autocast.
#include <cmath>
#include <cstring>
#include <memory>

#include "speed.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/llama.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using Step = std::function<void()>;

struct Parameters {
  std::vector<Tensor> all;

  Tensor add(Tensor x) {
    x.requires_grad_();
    all.push_back(x);
    return x;
  }
  Tensor uniform(const Shape& shape, int64_t fan_in) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
    return add((rand(shape) * (2.0 * bound) - bound).detach());
  }
};

struct Linear {
  Tensor w, b;
  Linear(Parameters& p, int64_t in, int64_t out)
      : w(p.uniform({out, in}, in)), b(p.uniform({out}, in)) {}
  Tensor operator()(const Tensor& x) const { return linear(x, w, b); }
  Tensor relu(const Tensor& x) const { return linear_relu(x, w, b); }
};

struct LayerNorm {
  Tensor w, b;
  LayerNorm(Parameters& p, int64_t n) : w(p.add(ones({n}))), b(p.add(zeros({n}))) {}
  Tensor operator()(const Tensor& x) const { return layer_norm(x, {x.size(-1)}, w, b); }
};

bool under_autocast = false;  // what is made next

// One step: loss, gradients, clipping if wanted, update.
template <class Optimizer, class Loss>
Step train(std::shared_ptr<Parameters> p, std::shared_ptr<Optimizer> optimizer, Loss loss,
           double clip = 0.0) {
  return [=, casts = under_autocast] {
    optimizer->zero_grad();
    const auto forward = [&] {
      const Autocast autocast({.dtype = kBFloat16, .enabled = casts});
      return loss();
    };
    forward().backward();
    if (clip > 0.0) optim::clip_grad_norm(p->all, clip);
    optimizer->step();
  };
}

Step mlp() {
  auto p = std::make_shared<Parameters>();
  const Linear a(*p, 784, 512), b(*p, 512, 512), c(*p, 512, 10);
  const Tensor x = rand({64, 784}), y = randint(0, 10, {64});
  auto sgd = std::make_shared<optim::SGD>(p->all, optim::SGDOptions{.lr = 1e-3});
  return train(p, sgd, [=] { return cross_entropy(c(b.relu(a.relu(x))), y); });
}

struct GptOptions {
  int64_t layers, heads, width, block, batch, vocabulary = 512;
};

struct Block {
  LayerNorm norm1, norm2;
  Linear qkv, out, up, down;
  int64_t heads;
  Block(Parameters& p, const GptOptions& o)
      : norm1(p, o.width),
        norm2(p, o.width),
        qkv(p, o.width, 3 * o.width),
        out(p, o.width, o.width),
        up(p, o.width, 4 * o.width),
        down(p, 4 * o.width, o.width),
        heads(o.heads) {}

  Tensor attend(const Tensor& x) const {
    const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
    const auto parts = unbind(reshape(qkv(x), {batch, time, 3, heads, width / heads}), 2);
    const auto head = [](const Tensor& part) { return transpose(part, 1, 2); };
    const Tensor y = scaled_dot_product_attention(head(parts[0]), head(parts[1]), head(parts[2]),
                                                  {.is_causal = true});
    return out(reshape(transpose(y, 1, 2), {batch, time, width}));
  }
  Tensor operator()(const Tensor& input) const {
    const Tensor x = input + attend(norm1(input));
    return x + linear_gelu_linear(norm2(x), {up.w, up.b}, {down.w, down.b});
  }
};

Step gpt(const GptOptions& o) {
  auto p = std::make_shared<Parameters>();
  const Tensor tokens = p->add(randn({o.vocabulary, o.width}) * 0.02);
  const Tensor positions = p->add(randn({o.block, o.width}) * 0.02);
  std::vector<Block> blocks;
  for (int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(*p, o);
  const LayerNorm norm(*p, o.width);
  const Tensor x = randint(0, o.vocabulary, {o.batch, o.block});
  const Tensor y = randint(0, o.vocabulary, {o.batch * o.block});
  auto adamw = std::make_shared<optim::AdamW>(p->all, optim::AdamWOptions{.lr = 3e-4});
  const auto loss = [=] {
    Tensor h = embedding(tokens, x) + positions;
    for (const Block& block : blocks) h = block(h);
    const Tensor rows = reshape(norm(h), {o.batch * o.block, o.width});
    return linear_cross_entropy(rows, tokens, y);
  };
  return train(p, adamw, loss, 1.0);
}

// A Llama of 125 million parameters.
Step llama() {
  constexpr int64_t kTime = 256, kBatch = 4;
  const nn::LlamaConfig config{.vocab_size = 32000,
                               .hidden_size = 768,
                               .intermediate_size = 2048,
                               .num_hidden_layers = 12,
                               .num_attention_heads = 12,
                               .num_key_value_heads = 4,
                               .max_position_embeddings = kTime};
  const auto model = std::make_shared<nn::Llama>(config);
  auto p = std::make_shared<Parameters>();
  p->all = model->parameters();
  const Tensor x = randint(0, config.vocab_size, {kBatch, kTime});
  const Tensor y = randint(0, config.vocab_size, {kBatch, kTime});
  auto adamw = std::make_shared<optim::AdamW>(p->all, optim::AdamWOptions{.lr = 3e-4});
  return train(
      p, adamw, [=] { return model->loss(x, y); }, 1.0);
}

Step recurrent() {
  constexpr int64_t kTime = 64, kBatch = 32, kIn = 128, kHidden = 256;
  auto p = std::make_shared<Parameters>();
  const auto layer = [&](int64_t in) {
    CellWeights w;
    w.w_ih = p->uniform({4 * kHidden, in}, kHidden);
    w.w_hh = p->uniform({4 * kHidden, kHidden}, kHidden);
    w.b_ih = p->uniform({4 * kHidden}, kHidden);
    w.b_hh = p->uniform({4 * kHidden}, kHidden);
    return w;
  };
  const CellWeights first = layer(kIn), second = layer(kHidden);
  const Linear head(*p, kHidden, 64);
  const Tensor x = randn({kTime, kBatch, kIn}), y = randint(0, 64, {kTime * kBatch});
  const Tensor zero = zeros({kBatch, kHidden});
  auto adam = std::make_shared<optim::Adam>(p->all);
  const auto loss = [=] {
    const Tensor a = lstm(x, {zero, zero}, first).output;
    const Tensor b = lstm(a, {zero, zero}, second).output;
    return cross_entropy(head(reshape(b, {kTime * kBatch, kHidden})), y);
  };
  return train(p, adam, loss, 1.0);
}

Step convolutional() {
  auto p = std::make_shared<Parameters>();
  const Tensor w1 = p->uniform({32, 1, 3, 3}, 9), b1 = p->uniform({32}, 9);
  const Tensor w2 = p->uniform({64, 32, 3, 3}, 288), b2 = p->uniform({64}, 288);
  const Linear fc1(*p, 3136, 128), fc2(*p, 128, 10);
  const Tensor x = rand({64, 1, 28, 28}), y = randint(0, 10, {64});
  auto adam = std::make_shared<optim::Adam>(p->all);
  const auto loss = [=] {
    const Conv2dOptions same{.padding = {1, 1}};
    const Tensor a = max_pool2d(conv2d_relu(x, w1, b1, same), {2, 2});
    const Tensor b = max_pool2d(conv2d_relu(a, w2, b2, same), {2, 2});
    return cross_entropy(fc2(fc1.relu(flatten(b, 1))), y);
  };
  return train(p, adam, loss);
}

struct ConvNorm {
  Tensor w, scale, shift, mean, variance;
  int64_t stride, padding;
  ConvNorm(Parameters& p, int64_t in, int64_t out, int64_t kernel, int64_t step)
      : w(p.uniform({out, in, kernel, kernel}, in * kernel * kernel)),
        scale(p.add(ones({out}))),
        shift(p.add(zeros({out}))),
        mean(zeros({out})),
        variance(ones({out})),
        stride(step),
        padding(kernel / 2) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = conv2d(x, w, {}, {.stride = {stride, stride}, .padding = {padding, padding}});
    return batch_norm(y, mean, variance, {.weight = scale, .bias = shift, .training = true});
  }
};

struct BasicBlock {
  ConvNorm first, second;
  std::shared_ptr<ConvNorm> shortcut;
  BasicBlock(Parameters& p, int64_t in, int64_t out, int64_t stride)
      : first(p, in, out, 3, stride), second(p, out, out, 3, 1) {
    if (stride != 1) shortcut = std::make_shared<ConvNorm>(p, in, out, 1, stride);
  }
  Tensor operator()(const Tensor& x) const {
    return relu(second(relu(first(x))) + (shortcut ? (*shortcut)(x) : x));
  }
};

// He et al., "Deep residual learning for image recognition" (2015): ResNet-18.
Step resnet18() {
  auto p = std::make_shared<Parameters>();
  const ConvNorm stem(*p, 3, 64, 7, 2);
  std::vector<BasicBlock> blocks;
  int64_t in = 64;
  for (const int64_t out : {64, 128, 256, 512}) {
    blocks.emplace_back(*p, in, out, in == out ? 1 : 2);
    blocks.emplace_back(*p, out, out, 1);
    in = out;
  }
  const Linear head(*p, 512, 1000);
  const Tensor x = rand({8, 3, 224, 224}), y = randint(0, 1000, {8});
  auto sgd = std::make_shared<optim::SGD>(p->all, optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  const auto loss = [=] {
    Tensor h = max_pool2d(relu(stem(x)), {3, 3}, {.stride = Pair{2, 2}, .padding = {1, 1}});
    for (const BasicBlock& block : blocks) h = block(h);
    return cross_entropy(head(mean(h, {2, 3})), y);
  };
  return train(p, sgd, loss);
}

#if defined(__AVX512F__)
typedef float Vector __attribute__((vector_size(64)));
#else
typedef float Vector __attribute__((vector_size(32)));
#endif

// What the arithmetic of the mlp's step needs at least: its multiply-adds at the rate of a loop of
// nothing else, and the update's traffic.
Step mlp_floor() {
  constexpr int64_t kForward = 64 * (784 * 512 + 512 * 512 + 512 * 10);
  constexpr int64_t kBack = kForward + 64 * (512 * 512 + 512 * 10);
  constexpr int64_t kChunks = 64, kChains = 12, kLanes = sizeof(Vector) / sizeof(float);
  constexpr int64_t kSteps = (kForward + kBack) / (kChunks * kChains * kLanes);
  auto p = std::make_shared<Parameters>();
  p->uniform({784 * 512 + 512 * 512 + 512 * 10 + 1034}, 512);
  p->all[0].set_grad(zeros(p->all[0].shape()));
  auto sgd = std::make_shared<optim::SGD>(p->all, optim::SGDOptions{.lr = 1e-3});
  return [=] {
    parallel_for(kChunks, 1, [](int64_t begin, int64_t end) {
      Vector sums[kChains] = {};
      const Vector x = 0.5f - Vector{};
      for (int64_t i = 0; i < kSteps * (end - begin); ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
          asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sums[c]) : "v"(x));
        }
      }
    });
    sgd->step();
  };
}

const std::map<std::string, std::function<Step()>>& networks() {
  static const std::map<std::string, std::function<Step()>> all = {
      {"mlp", mlp},
      {"mlp_floor", mlp_floor},
      {"gpt_128",
       [] {
         return gpt({4, 4, 128, 64, 12});
       }},
      {"gpt_384",
       [] {
         return gpt({6, 6, 384, 256, 8});
       }},
      {"gpt2",
       [] {
         return gpt({12, 12, 768, 256, 4, 50304});
       }},
      {"llama", llama},
      {"lstm", recurrent},
      {"cnn", convolutional},
      {"resnet18", resnet18},
  };
  return all;
}

Step step_of(const std::string& name) {
  const size_t at = name.find("+bf16");
  under_autocast = at != std::string::npos;
  return networks().at(name.substr(0, at))();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) {
    set_num_threads(std::atoi(argv[2]));
    const Step step = step_of(argv[1]);
    for (int i = 0; i < std::atoi(argv[3]); ++i) {
      step();
      if (i == 0) std::puts("first");
      std::fflush(stdout);
    }
    return 0;
  }
  peers::Cases cases;
  for (const auto& [network, make] : networks()) {
    for (const std::string& name : {network, network + "+bf16"}) {
      cases[name] = {1, [name] { return step_of(name); }};
    }
  }
  return peers::answer(cases, set_num_threads);
}
