#include "bench_cases.h"

#include <algorithm>
#include <memory>

#include "attention_by.h"

#include <hero/autograd/autograd.h>
#include <hero/core/device/backend.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/graph.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace hero_bench {

namespace {

using namespace hero;
using Tensors = std::vector<Tensor>;

std::string text(int64_t n) { return std::to_string(n); }

// A GPT and its optimizer.
struct Training {
  Training(const nn::GPTConfig& config, Device device) : scope(device), model(config) {}
  nn::DeviceScope scope;
  nn::GPT model;
  optim::AdamW adamw{model.parameters()};

  Tensor clip_and_step() {
    const Tensor norm = optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    return norm;
  }
  Array step(const Tensor& tokens, const Tensor& targets) {
    adamw.zero_grad();
    Tensor loss;
    {
      const Autocast bfloat16;
      loss = model.loss(tokens, targets);
    }
    loss.backward();
    clip_and_step();
    return loss.array();
  }
  // The loss of the first step: sequence by sequence, as the scores of all take gigabytes.
  Tensor loss_alone(const Tensor& tokens, const Tensor& targets) {
    const NoGrad no_grad;
    Tensor sum = zeros({});
    for (int64_t b = 0; b < tokens.size(0); ++b) {
      sum = sum + model.loss(tokens.slice(0, b, b + 1), targets.slice(0, b, b + 1));
    }
    return sum / static_cast<double>(tokens.size(0));
  }
};

nn::GPTConfig gpt2(bool tiny) {
  if (!tiny) return {};  // 124M
  return {.vocab_size = 64, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32};
}

void gpt_steps(List& list, bool tiny, Device device) {
  const Random random{device};
  const nn::GPTConfig config = gpt2(tiny);
  const int64_t T = config.block_size;
  for (const int64_t named : {16, 1}) {
    const int64_t B = tiny && named > 1 ? 2 : named;
    const auto batch = [=] {
      return std::vector<Array>{random.classes(config.vocab_size, {B, T}).array(),
                                random.classes(config.vocab_size, {B, T}).array()};
    };
    const std::string name = "gpt2_b" + text(named),
                      what = "B = " + text(B) + ", T = " + text(T) + ", bf16";
    const auto tokens = static_cast<double>(B * T);
    for (const auto library : kAttentionLibraries) {
      if (named == 1 && library != cuda::AttentionLibrary::own) continue;
      list.push_back({name, variant_of(library), what, tokens, "tokens",
                      [=]() -> Call {
                        const auto training = std::make_shared<Training>(config, device);
                        const std::vector<Array> in = batch();
                        return [=]() -> Tensors {
                          const AttentionBy by(library);
                          const Tensor x(in[0]), y(in[1]);
                          if (device == kCpu) return {training->loss_alone(x, y)};
                          return {Tensor(training->step(x, y))};
                        };
                      },
                      Course::falls});
    }
    if (named > 1) continue;
    list.push_back({name, "graphed", what, tokens, "tokens",
                    [=]() -> Call {
                      const auto training = std::make_shared<Training>(config, device);
                      const auto graphed = std::make_shared<cuda::GraphedStep>(
                          [training](const std::vector<Array>& in) {
                            return std::vector<Array>{training->step(Tensor(in[0]), Tensor(in[1]))};
                          });
                      const std::vector<Array> in = batch();
                      return [=]() -> Tensors { return {Tensor((*graphed)(in)[0])}; };
                    },
                    Course::falls});
  }
  list.push_back({"clip_adamw", "eager", "GPT-2's parameters, float32",
                  32.0 * static_cast<double>(nn::GPT(gpt2(tiny)).parameter_count()), "bytes",
                  [=]() -> Call {
                    const auto training = std::make_shared<Training>(config, device);
                    for (const Tensor& p : training->model.parameters()) {
                      p.set_grad(random(p.shape(), kFloat32));
                    }
                    // the gradients' norm, which is 1 after the first step
                    return [=]() -> Tensors { return {training->clip_and_step()}; };
                  },
                  Course::falls});
}

// A loss in float32, as autocast makes it of halves, or in the dtype of what it is given.
const char* set_up(bool cast) {
  return cast ? " under autocast, forward and backward" : ", forward and backward";
}

void fused(List& list, bool tiny, Device device) {
  const Random random{device};
  const int64_t rows = tiny ? 24 : 16384, vocabulary = tiny ? 96 : 50304;
  const auto logits = static_cast<double>(rows * vocabulary);
  for (const bool cast : {true, false}) {
    list.push_back({cast ? "cross_entropy" : "cross_entropy_bf16", "eager",
                    text(rows) + " x " + text(vocabulary) + " bf16" + set_up(cast), 3 * 2 * logits,
                    "bytes", [=]() -> Call {
                      const Tensor x = random({rows, vocabulary}, kBFloat16, true);
                      const Tensor y = random.classes(vocabulary, {rows});
                      return [=]() -> Tensors {
                        Tensor loss;
                        {
                          const Autocast bfloat16({.enabled = cast});
                          loss = cross_entropy(x, y);
                        }
                        return {loss.detach(), grad({loss}, {x})[0]};
                      };
                    }});
  }
  const int64_t N = tiny ? 24 : 65536, C = tiny ? 40 : 1024;
  const std::string what = text(N) + " x " + text(C) + " bf16, forward and backward";
  const auto pass = 2.0 * static_cast<double>(N * C);  // of one tensor
  list.push_back({"add_layer_norm", "eager", what, 8 * pass, "bytes", [=]() -> Call {
                    const Tensor x = random({N, C}, kBFloat16, true);
                    const Tensor r = random({N, C}, kBFloat16, true);
                    const Tensor w = random({C}, kBFloat16, true), b = random({C}, kBFloat16, true);
                    const Tensor gs = random({N, C}, kBFloat16), gy = random({N, C}, kBFloat16);
                    return [=] {
                      const auto [sum, y] = add_layer_norm(x, r, {C}, w, b);
                      return grad({sum, y}, {x, r, w, b}, {.grad_outputs = {gs, gy}});
                    };
                  }});
  list.push_back({"layer_norm", "eager", what, 5 * pass, "bytes", [=]() -> Call {
                    const Tensor x = random({N, C}, kBFloat16, true);
                    const Tensor w = random({C}, kBFloat16, true), b = random({C}, kBFloat16, true);
                    const Tensor g = random({N, C}, kBFloat16);
                    return [=] {
                      return grad({layer_norm(x, {C}, w, b)}, {x, w, b}, {.grad_outputs = {g}});
                    };
                  }});
}

// A transformer's feed-forward part whole and as two layers, and the products it is made of.
void feed_forward(List& list, bool tiny, Device device) {
  const Random random{device};
  const int64_t rows = tiny ? 24 : 16384, in = tiny ? 16 : 768, hidden = 4 * in;
  const std::string what = text(rows) + " x " + text(in) + " x " + text(hidden) + " bf16";
  const auto product = 2.0 * static_cast<double>(rows * in * hidden);
  const auto weights = [=](int64_t columns, int64_t outputs) {
    return LinearWeights{random({outputs, columns}, kBFloat16, true),
                         random({outputs}, kBFloat16, true)};
  };
  for (const bool whole : {true, false}) {
    list.push_back(
        {"feed_forward", whole ? "eager" : "two", what + ", forward and backward", 6 * product,
         "flop", [=]() -> Call {
           const Tensor x = random({rows, in}, kBFloat16, true);
           const Tensor g = random({rows, in}, kBFloat16);
           const LinearWeights a = weights(in, hidden), b = weights(hidden, in);
           return [=] {
             const Tensor y =
                 whole ? linear_gelu_linear(x, a, b, Gelu::tanh)
                       : linear(linear_gelu(x, a.weight, a.bias, Gelu::tanh), b.weight, b.bias);
             return grad({y}, {x, a.weight, a.bias, b.weight, b.bias}, {.grad_outputs = {g}});
           };
         }});
    list.push_back({"weight_gradient", whole ? "eager" : "two", what + ", with that of the bias",
                    product, "flop", [=]() -> Call {
                      const Tensor x = random({rows, in}, kBFloat16);
                      const Tensor g = random({rows, hidden}, kBFloat16);
                      if (!whole) {
                        return [=]() -> Tensors { return {matmul(g.t(), x), sum(g, {0})}; };
                      }
                      core::call::LinearBack back;
                      back.g = g.array();
                      back.x = x.array();
                      back.g_w = Array::empty({hidden, in}, kBFloat16, device);
                      back.g_bias = Array::empty({hidden}, kBFloat16, device);
                      return [=]() -> Tensors {
                        core::backend(device).run(back);
                        return {Tensor(back.g_w), Tensor(back.g_bias)};
                      };
                    }});
  }
  const int64_t vocabulary = tiny ? 96 : 50304;
  list.push_back({"linear_cross_entropy", "eager",
                  text(rows) + " x " + text(in) + " x " + text(vocabulary) + " bf16" + set_up(true),
                  6.0 * static_cast<double>(rows * in * vocabulary), "flop", [=]() -> Call {
                    const Tensor x = random({rows, in}, kBFloat16, true);
                    const Tensor w = random({vocabulary, in}, kBFloat16, true);
                    const Tensor y = random.classes(vocabulary, {rows});
                    return [=]() -> Tensors {
                      Tensor loss;
                      {
                        const Autocast bfloat16;
                        loss = linear_cross_entropy(x, w, y);
                      }
                      Tensors results = grad({loss}, {x, w});
                      results.push_back(loss.detach());
                      return results;
                    };
                  }});
}

void small_operations(List& list, bool tiny, Device device) {
  const Random random{device};
  const int64_t count = tiny ? 10 : 1000;
  list.push_back({"small_ops", "eager", text(count) + " additions of 256 float32, in a row",
                  static_cast<double>(count), "ops", [=]() -> Call {
                    const Tensor x = random({256}, kFloat32);
                    return [=]() -> Tensors {
                      Tensor y = x;
                      for (int64_t i = 0; i < count; ++i) y = y + x;
                      return {y};
                    };
                  }});
}

}  // namespace

Tensor Random::operator()(const Shape& shape, DType dtype, bool grad) const {
  return randn(shape, {.dtype = dtype, .device = device, .requires_grad = grad});
}
Tensor Random::classes(int64_t count, const Shape& shape) const {
  return randint(0, count, shape, {.device = device});
}

std::vector<Case> cases(bool tiny, Device device) {
  List list;
  gpt_steps(list, tiny, device);
  fused(list, tiny, device);
  feed_forward(list, tiny, device);
  small_operations(list, tiny, device);
  memory_bound(list, tiny, device);
  products(list, tiny, device);
  return list;
}

double value_of(const std::vector<Tensor>& results) {
  constexpr int64_t kPiece = int64_t{1} << 24;  // elements in float64 at a time
  const NoGrad no_grad;
  double value = 0.0;
  for (const Tensor& result : results) {
    const Tensor flat = result.detach().reshape({-1});
    const int64_t n = flat.size(0);
    double sum_of_all = 0.0;
    for (int64_t at = 0; at < n; at += kPiece) {
      const Tensor piece = flat.slice(0, at, std::min(n, at + kPiece));
      sum_of_all += sum(abs(piece.to(kFloat64))).item();
    }
    value += sum_of_all / static_cast<double>(n);
  }
  return value;
}

}  // namespace hero_bench
