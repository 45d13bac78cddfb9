// Cases of single operations: what is bound by memory, and products.
#include "attention_by.h"
#include "bench_cases.h"

#include <hero/autograd/autograd.h>

namespace hero_bench {

namespace {

using namespace hero;
using Tensors = std::vector<Tensor>;

std::string text(int64_t n) { return std::to_string(n); }

// The products of GPT-2's linear layers for 16 x 1024 tokens: forward, the gradient of the input
// and that of the weight.
void shapes_of_gpt2(List& list, bool tiny, Device device) {
  const Random random{device};
  struct Layer {
    const char* name;
    int64_t in, out;
  };
  constexpr Layer kLayers[] = {{"c_attn", 768, 2304},
                               {"attn_c_proj", 768, 768},
                               {"c_fc", 768, 3072},
                               {"mlp_c_proj", 3072, 768},
                               {"lm_head", 768, 50304}};
  const int64_t rows = tiny ? 32 : 16384;
  for (const Layer& layer : kLayers) {
    const int64_t in = tiny ? layer.in / 48 : layer.in, out = tiny ? layer.out / 48 : layer.out;
    const auto add = [&](const char* kind, const Shape& a, const Shape& b, bool turn_a, bool turn_b,
                         const std::string& what) {
      list.push_back({std::string("gemm_") + layer.name + "_" + kind, "eager", what + " bf16",
                      2.0 * static_cast<double>(rows * in * out), "flop", [=]() -> Call {
                        const Tensor x = random(a, kBFloat16), y = random(b, kBFloat16);
                        const Tensor left = turn_a ? x.t() : x, right = turn_b ? y.t() : y;
                        return [=]() -> Tensors { return {matmul(left, right)}; };
                      }});
    };
    const std::string m = text(rows), k = text(in), n = text(out);
    add("forward", {rows, in}, {out, in}, false, true, m + " x " + k + " x " + n);
    add("input", {rows, out}, {out, in}, false, false, m + " x " + n + " x " + k);
    add("weight", {rows, out}, {rows, in}, true, false, n + " x " + m + " x " + k);
  }
}

}  // namespace

void memory_bound(List& list, bool tiny, Device device) {
  const Random random{device};
  const int64_t n = tiny ? 1 << 10 : int64_t{1} << 28, quarter = n / 4;
  const auto words = static_cast<double>(n);
  list.push_back({"copy", "eager", text(n) + " float32", 8 * words, "bytes", [=]() -> Call {
                    const Tensor x = random({n}, kFloat32);
                    return [=]() -> Tensors { return {clone(x)}; };
                  }});
  list.push_back({"add", "eager", text(quarter) + " float32", 3 * words, "bytes", [=]() -> Call {
                    const Tensor a = random({quarter}, kFloat32), b = random({quarter}, kFloat32);
                    return [=]() -> Tensors { return {a + b}; };
                  }});
  list.push_back({"sum", "eager", text(n) + " float32", 4 * words, "bytes", [=]() -> Call {
                    const Tensor x = random({n}, kFloat32);
                    return [=]() -> Tensors { return {sum(x)}; };
                  }});
  const int64_t rows = tiny ? 8 : 16384, columns = tiny ? 128 : 4096;
  list.push_back({"softmax", "eager", text(rows) + " x " + text(columns) + " bf16",
                  4.0 * static_cast<double>(rows * columns), "bytes", [=]() -> Call {
                    const Tensor x = random({rows, columns}, kBFloat16);
                    return [=]() -> Tensors { return {softmax(x, -1)}; };
                  }});
  const int64_t vocabulary = tiny ? 64 : 50304, C = tiny ? 16 : 768;
  list.push_back(
      {"embedding_backward", "eager",
       text(rows) + " rows of " + text(C) + " float32 into " + text(vocabulary),
       8.0 * static_cast<double>(rows * C), "bytes", [=]() -> Call {
         const Tensor w = random({vocabulary, C}, kFloat32, true);
         const Tensor y = random.classes(vocabulary, {rows}), g = random({rows, C}, kFloat32);
         return [=] { return grad({embedding(w, y)}, {w}, {.grad_outputs = {g}}); };
       }});
  const int64_t keys = n / 16;
  list.push_back({"sort", "eager", text(keys) + " float32", 8.0 * static_cast<double>(keys),
                  "bytes", [=]() -> Call {
                    const Tensor x = random({keys}, kFloat32);
                    return [=]() -> Tensors { return {sort(x).values}; };
                  }});
}

void products(List& list, bool tiny, Device device) {
  const Random random{device};
  const auto product = [&](int64_t full, DType dtype) {
    const int64_t n = tiny ? full / 128 : full;
    const auto side = static_cast<double>(n);
    list.push_back({"matmul_" + text(full) + "_" + name(dtype), "eager", text(n) + " cubed",
                    2 * side * side * side, "flop", [=]() -> Call {
                      const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
                      return [=]() -> Tensors { return {matmul(a, b)}; };
                    }});
  };
  product(4096, kBFloat16);
  product(8192, kBFloat16);
  product(4096, kFloat32);
  const Shape shape = tiny ? Shape{1, 2, 32, 16} : Shape{16, 12, 1024, 64};
  const std::string what = to_string(shape) + " bf16, causal";
  // half of the pairs: two products forward, five backward
  const double pairs = static_cast<double>(shape.numel() * shape[2]);
  for (const auto library : kAttentionLibraries) {
    const char* variant = variant_of(library);
    list.push_back({"attention", variant, what, 2 * pairs, "flop", [=]() -> Call {
                      const Tensor q = random(shape, kBFloat16), k = random(shape, kBFloat16);
                      const Tensor v = random(shape, kBFloat16);
                      return [=]() -> Tensors {
                        const AttentionBy by(library);
                        return {scaled_dot_product_attention(q, k, v, {.is_causal = true})};
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
                        return grad({scaled_dot_product_attention(q, k, v, {.is_causal = true})},
                                    {q, k, v}, {.grad_outputs = {g}});
                      };
                    }});
  }
  shapes_of_gpt2(list, tiny, device);
}

}  // namespace hero_bench
