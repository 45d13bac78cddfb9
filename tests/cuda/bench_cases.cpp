#include "bench_cases.h"

#include <memory>

#include <hero/autograd/autograd.h>
#include <hero/core/backend.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/graph.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace hero_bench {

namespace {

using namespace hero;
using Call = std::function<void()>;
using List = std::vector<Case>;

constexpr Device kGpu{DeviceType::cuda, 0};

Tensor random(const Shape& shape, DType dtype, bool grad = false) {
  return randn(shape, {.dtype = dtype, .device = kGpu, .requires_grad = grad});
}

Tensor classes(int64_t count, const Shape& shape) {
  return randint(0, count, shape, {.device = kGpu});
}

std::string text(int64_t n) { return std::to_string(n); }

// Attention by this library while it lives; an Error where there is none.
class AttentionBy {
 public:
  explicit AttentionBy(cuda::AttentionLibrary library) { cuda::set_attention_library(library); }
  ~AttentionBy() { cuda::set_attention_library(cuda::AttentionLibrary::own); }
  AttentionBy(const AttentionBy&) = delete;
  AttentionBy& operator=(const AttentionBy&) = delete;
};

constexpr cuda::AttentionLibrary kLibraries[] = {cuda::AttentionLibrary::own,
                                                 cuda::AttentionLibrary::cudnn};
const char* variant_of(cuda::AttentionLibrary library) {
  return library == cuda::AttentionLibrary::own ? "eager" : "cudnn";
}

// A GPT and its optimizer.
struct Training {
  explicit Training(const nn::GPTConfig& config) : scope(kGpu), model(config) {}
  nn::DeviceScope scope;
  nn::GPT model;
  optim::AdamW adamw{model.parameters()};

  void clip_and_step() {
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
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
};

nn::GPTConfig gpt2(bool tiny) {
  if (!tiny) return {};  // 124M
  return {.vocab_size = 64, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32};
}

void gpt_steps(List& list, bool tiny) {
  const nn::GPTConfig config = gpt2(tiny);
  const int64_t T = config.block_size;
  for (const int64_t B : {16, 1}) {
    const auto batch = [config, B, T] {
      return std::vector<Array>{classes(config.vocab_size, {B, T}).array(),
                                classes(config.vocab_size, {B, T}).array()};
    };
    const std::string name = "gpt2_b" + text(B),
                      what = "B = " + text(B) + ", T = " + text(T) + ", bf16";
    const auto tokens = static_cast<double>(B * T);
    for (const auto library : kLibraries) {
      if (B == 1 && library != cuda::AttentionLibrary::own) continue;
      list.push_back({name, variant_of(library), what, tokens, "tokens", [=]() -> Call {
                        const auto training = std::make_shared<Training>(config);
                        const std::vector<Array> in = batch();
                        return [=] {
                          const AttentionBy by(library);
                          training->step(Tensor(in[0]), Tensor(in[1]));
                        };
                      }});
    }
    if (B > 1) continue;
    list.push_back({name, "graphed", what, tokens, "tokens", [=]() -> Call {
                      const auto training = std::make_shared<Training>(config);
                      const auto graphed = std::make_shared<cuda::GraphedStep>(
                          [training](const std::vector<Array>& in) {
                            return std::vector<Array>{training->step(Tensor(in[0]), Tensor(in[1]))};
                          },
                          cuda::GraphOptions{.recapture = true});
                      const std::vector<Array> in = batch();
                      return [=] { (*graphed)(in); };
                    }});
  }
  list.push_back({"clip_adamw", "eager", "GPT-2's parameters, float32",
                  32.0 * static_cast<double>(nn::GPT(gpt2(tiny)).parameter_count()), "bytes",
                  [=]() -> Call {
                    const auto training = std::make_shared<Training>(config);
                    for (const Tensor& p : training->model.parameters()) {
                      p.set_grad(random(p.shape(), kFloat32));
                    }
                    return [=] { training->clip_and_step(); };
                  }});
}

// A loss in float32, as autocast makes it of halves, or in the dtype of what it is given.
const char* set_up(bool cast) {
  return cast ? " under autocast, forward and backward" : ", forward and backward";
}

void fused(List& list, bool tiny) {
  const int64_t rows = tiny ? 24 : 16384, vocabulary = tiny ? 96 : 50304;
  const auto logits = static_cast<double>(rows * vocabulary);
  for (const bool cast : {true, false}) {
    list.push_back({cast ? "cross_entropy" : "cross_entropy_bf16", "eager",
                    text(rows) + " x " + text(vocabulary) + " bf16" + set_up(cast), 3 * 2 * logits,
                    "bytes", [=]() -> Call {
                      const Tensor x = random({rows, vocabulary}, kBFloat16, true);
                      const Tensor y = classes(vocabulary, {rows});
                      return [=] {
                        Tensor loss;
                        {
                          const Autocast bfloat16({.enabled = cast});
                          loss = cross_entropy(x, y);
                        }
                        grad({loss}, {x});
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
                      grad({sum, y}, {x, r, w, b}, {.grad_outputs = {gs, gy}});
                    };
                  }});
  list.push_back({"layer_norm", "eager", what, 5 * pass, "bytes", [=]() -> Call {
                    const Tensor x = random({N, C}, kBFloat16, true);
                    const Tensor w = random({C}, kBFloat16, true), b = random({C}, kBFloat16, true);
                    const Tensor g = random({N, C}, kBFloat16);
                    return [=] {
                      grad({layer_norm(x, {C}, w, b)}, {x, w, b}, {.grad_outputs = {g}});
                    };
                  }});
}

// A transformer's feed-forward part whole and as two layers, and the products it is made of.
void feed_forward(List& list, bool tiny) {
  const int64_t rows = tiny ? 24 : 16384, in = tiny ? 16 : 768, hidden = 4 * in;
  const std::string what = text(rows) + " x " + text(in) + " x " + text(hidden) + " bf16";
  const auto product = 2.0 * static_cast<double>(rows * in * hidden);
  const auto weights = [](int64_t columns, int64_t outputs) {
    return LinearWeights{random({outputs, columns}, kBFloat16, true),
                         random({outputs}, kBFloat16, true)};
  };
  for (const bool whole : {true, false}) {
    list.push_back({"feed_forward", whole ? "eager" : "two", what + ", forward and backward",
                    6 * product, "flop", [=]() -> Call {
                      const Tensor x = random({rows, in}, kBFloat16, true);
                      const Tensor g = random({rows, in}, kBFloat16);
                      const LinearWeights a = weights(in, hidden), b = weights(hidden, in);
                      return [=] {
                        const Tensor y = whole
                                             ? linear_gelu_linear(x, a, b, Gelu::tanh)
                                             : linear(linear_gelu(x, a.weight, a.bias, Gelu::tanh),
                                                      b.weight, b.bias);
                        grad({y}, {x, a.weight, a.bias, b.weight, b.bias}, {.grad_outputs = {g}});
                      };
                    }});
    list.push_back({"weight_gradient", whole ? "eager" : "two", what + ", with that of the bias",
                    product, "flop", [=]() -> Call {
                      const Tensor x = random({rows, in}, kBFloat16);
                      const Tensor g = random({rows, hidden}, kBFloat16);
                      if (!whole) {
                        return [=] {
                          matmul(g.t(), x);
                          sum(g, {0});
                        };
                      }
                      core::LinearBack back;
                      back.g = g.array();
                      back.x = x.array();
                      back.g_w = Array::empty({hidden, in}, kBFloat16, kGpu);
                      back.g_bias = Array::empty({hidden}, kBFloat16, kGpu);
                      return [=] { core::backend(kGpu).linear_backward(back); };
                    }});
  }
  const int64_t vocabulary = tiny ? 96 : 50304;
  list.push_back({"linear_cross_entropy", "eager",
                  text(rows) + " x " + text(in) + " x " + text(vocabulary) + " bf16" + set_up(true),
                  6.0 * static_cast<double>(rows * in * vocabulary), "flop", [=]() -> Call {
                    const Tensor x = random({rows, in}, kBFloat16, true);
                    const Tensor w = random({vocabulary, in}, kBFloat16, true);
                    const Tensor y = classes(vocabulary, {rows});
                    return [=] {
                      Tensor loss;
                      {
                        const Autocast bfloat16;
                        loss = linear_cross_entropy(x, w, y);
                      }
                      grad({loss}, {x, w});
                    };
                  }});
}

void small_operations(List& list, bool tiny) {
  const int64_t count = tiny ? 10 : 1000;
  list.push_back({"small_ops", "eager", text(count) + " additions of 256 float32, in a row",
                  static_cast<double>(count), "ops", [=]() -> Call {
                    const Tensor x = random({256}, kFloat32);
                    return [=] {
                      Tensor y = x;
                      for (int64_t i = 0; i < count; ++i) y = y + x;
                    };
                  }});
}

void memory_bound(List& list, bool tiny) {
  const int64_t n = tiny ? 1 << 10 : int64_t{1} << 28, quarter = n / 4;
  const auto words = static_cast<double>(n);
  list.push_back({"copy", "eager", text(n) + " float32", 8 * words, "bytes", [=]() -> Call {
                    const Tensor x = random({n}, kFloat32);
                    return [=] { clone(x); };
                  }});
  list.push_back({"add", "eager", text(quarter) + " float32", 3 * words, "bytes", [=]() -> Call {
                    const Tensor a = random({quarter}, kFloat32), b = random({quarter}, kFloat32);
                    return [=] { a + b; };
                  }});
  list.push_back({"sum", "eager", text(n) + " float32", 4 * words, "bytes", [=]() -> Call {
                    const Tensor x = random({n}, kFloat32);
                    return [=] { sum(x); };
                  }});
  const int64_t rows = tiny ? 8 : 16384, columns = tiny ? 128 : 4096;
  list.push_back({"softmax", "eager", text(rows) + " x " + text(columns) + " bf16",
                  4.0 * static_cast<double>(rows * columns), "bytes", [=]() -> Call {
                    const Tensor x = random({rows, columns}, kBFloat16);
                    return [=] { softmax(x, -1); };
                  }});
  const int64_t vocabulary = tiny ? 64 : 50304, C = tiny ? 16 : 768;
  list.push_back({"embedding_backward", "eager",
                  text(rows) + " rows of " + text(C) + " float32 into " + text(vocabulary),
                  8.0 * static_cast<double>(rows * C), "bytes", [=]() -> Call {
                    const Tensor w = random({vocabulary, C}, kFloat32, true);
                    const Tensor y = classes(vocabulary, {rows}), g = random({rows, C}, kFloat32);
                    return [=] { grad({embedding(w, y)}, {w}, {.grad_outputs = {g}}); };
                  }});
  const int64_t keys = n / 16;
  list.push_back({"sort", "eager", text(keys) + " float32", 8.0 * static_cast<double>(keys),
                  "bytes", [=]() -> Call {
                    const Tensor x = random({keys}, kFloat32);
                    return [=] { sort(x); };
                  }});
}

void products(List& list, bool tiny) {
  const auto product = [&](int64_t full, DType dtype) {
    const int64_t n = tiny ? full / 128 : full;
    const auto side = static_cast<double>(n);
    list.push_back({"matmul_" + text(full) + "_" + name(dtype), "eager", text(n) + " cubed",
                    2 * side * side * side, "flop", [=]() -> Call {
                      const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
                      return [=] { matmul(a, b); };
                    }});
  };
  product(4096, kBFloat16);
  product(8192, kBFloat16);
  product(4096, kFloat32);
  const Shape shape = tiny ? Shape{1, 2, 32, 16} : Shape{16, 12, 1024, 64};
  const std::string what = to_string(shape) + " bf16, causal";
  // half of the pairs: two products forward, five backward
  const double pairs = static_cast<double>(shape.numel() * shape[2]);
  for (const auto library : kLibraries) {
    const char* variant = variant_of(library);
    list.push_back({"attention", variant, what, 2 * pairs, "flop", [=]() -> Call {
                      const Tensor q = random(shape, kBFloat16), k = random(shape, kBFloat16);
                      const Tensor v = random(shape, kBFloat16);
                      return [=] {
                        const AttentionBy by(library);
                        scaled_dot_product_attention(q, k, v, {.is_causal = true});
                      };
                    }});
    list.push_back({"attention_backward", variant, what + ", forward and backward", 7 * pairs,
                    "flop", [=]() -> Call {
                      const Tensor q = random(shape, kBFloat16, true);
                      const Tensor k = random(shape, kBFloat16, true);
                      const Tensor v = random(shape, kBFloat16, true);
                      const Tensor g = random(shape, kBFloat16);
                      return [=] {
                        const AttentionBy by(library);
                        grad({scaled_dot_product_attention(q, k, v, {.is_causal = true})},
                             {q, k, v}, {.grad_outputs = {g}});
                      };
                    }});
  }
}

}  // namespace

std::vector<Case> cases(bool tiny) {
  List list;
  gpt_steps(list, tiny);
  fused(list, tiny);
  feed_forward(list, tiny);
  small_operations(list, tiny);
  memory_bound(list, tiny);
  products(list, tiny);
  return list;
}

}  // namespace hero_bench
