// hero_bench_gpu [JSON FILE]: times of the library on GPU 0, as a table and as JSON lines. With
// --device it says which GPU there is, or why none (exit 77), and ends.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

#include <hero/autograd/autograd.h>
#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>
#include <hero/core/backend.h>
#include <hero/cuda/cuda.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

constexpr Device kGpu{DeviceType::cuda, 0};
// Everything must be over within a minute; a case that would start later is left out and named.
constexpr double kBudget = 75.0;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

const double started = now();

std::string device_name() {
  cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "unknown";
}

// What a case does in one call: seconds become this unit a second.
struct Work {
  double amount;
  const char* unit;  // "GB/s", "TFLOP/s" or "tokens/s"
};

std::ofstream json;

// The median over groups of calls that are waited for together.
double median_seconds(const std::function<void()>& call) {
  for (int i = 0; i < 3; ++i) call();
  cuda::synchronize(kGpu);
  const double first = now();
  call();
  cuda::synchronize(kGpu);
  // Groups of about 20 ms, so that waiting does not count; at most 200 calls.
  const int group = std::clamp(static_cast<int>(0.02 / (now() - first)), 1, 200);
  std::vector<double> times;
  for (int g = 0; g < 7; ++g) {
    const double start = now();
    for (int i = 0; i < group; ++i) call();
    cuda::synchronize(kGpu);
    times.push_back((now() - start) / group);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// `make` builds the case's data and returns what is timed. An error is a line of the table.
void run(const char* name, const Work& work, const std::function<std::function<void()>()>& make) {
  if (now() - started > kBudget) {
    std::printf("%-44s left out: the minute is over\n", name);
    return;
  }
  try {
    const double seconds = median_seconds(make());
    const double scale = std::strcmp(work.unit, "GB/s") == 0      ? 1e-9
                         : std::strcmp(work.unit, "TFLOP/s") == 0 ? 1e-12
                                                                  : 1.0;
    const double rate = work.amount * scale / seconds;
    std::printf("%-44s %12.1f us %12.1f %s\n", name, seconds * 1e6, rate, work.unit);
    json << "{\"name\": \"" << name << "\", \"seconds\": " << seconds << ", \"rate\": " << rate
         << ", \"unit\": \"" << work.unit << "\", \"device\": \"" << device_name() << "\"}\n"
         << std::flush;
  } catch (const Error& error) {
    std::printf("%-44s failed: %s\n", name, error.what());
    json << "{\"name\": \"" << name << "\", \"failed\": true}\n" << std::flush;
  }
  std::fflush(stdout);
}

TensorOptions there(DType dtype) { return {.dtype = dtype, .device = kGpu}; }

Tensor random(const Shape& shape, DType dtype, bool grad = false) {
  return randn(shape, {.dtype = dtype, .device = kGpu, .requires_grad = grad});
}

void memory_bound() {
  constexpr int64_t kWords = int64_t{1} << 28;
  run("copy of 1 GiB", {2.0 * 4 * kWords, "GB/s"}, [] {
    const Tensor x = random({kWords}, kFloat32);
    return [=] { x.clone(); };
  });
  run("a + b of 2^26 float32", {3.0 * 4 * (1 << 26), "GB/s"}, [] {
    const Tensor a = random({1 << 26}, kFloat32), b = random({1 << 26}, kFloat32);
    return [=] { a + b; };
  });
  run("sum of 2^28 float32", {4.0 * kWords, "GB/s"}, [] {
    const Tensor x = random({kWords}, kFloat32);
    return [=] { sum(x); };
  });
  run("softmax 16384 x 4096 bf16", {4.0 * 16384 * 4096, "GB/s"}, [] {
    const Tensor x = random({16384, 4096}, kBFloat16);
    return [=] { softmax(x, -1); };
  });
  run("layer norm 65536 x 1024 bf16, with backward", {5.0 * 2 * 65536 * 1024, "GB/s"}, [] {
    const Tensor x = random({65536, 1024}, kBFloat16, true);
    const Tensor w = random({1024}, kBFloat16, true), b = random({1024}, kBFloat16, true);
    const Tensor g = random({65536, 1024}, kBFloat16);
    return [=] { grad({layer_norm(x, {1024}, w, b)}, {x, w, b}, {.grad_outputs = {g}}); };
  });
  run("the same of x + residual, 8 passes", {8.0 * 2 * 65536 * 1024, "GB/s"}, [] {
    const Shape shape{65536, 1024};
    const Tensor x = random(shape, kBFloat16, true), r = random(shape, kBFloat16, true);
    const Tensor w = random({1024}, kBFloat16, true), b = random({1024}, kBFloat16, true);
    const Tensor g = random(shape, kBFloat16), h = random(shape, kBFloat16);
    return [=] {
      const auto [sum, norm] = add_layer_norm(x, r, {1024}, w, b);
      grad({sum, norm}, {x, r, w, b}, {.grad_outputs = {g, h}});
    };
  });
  run("cross entropy 16384 x 50304 bf16, with backward", {3.0 * 2 * 16384 * 50304, "GB/s"}, [] {
    const Tensor x = random({16384, 50304}, kBFloat16, true);
    const Tensor y = randint(0, 50304, {16384}, there(kInt64));
    return [=] { grad({cross_entropy(x, y)}, {x}); };
  });
  run("embedding backward, 16384 rows of 768 float32", {2.0 * 4 * 16384 * 768, "GB/s"}, [] {
    const Tensor w = random({50304, 768}, kFloat32, true);
    const Tensor y = randint(0, 50304, {16384}, there(kInt64));
    const Tensor g = random({16384, 768}, kFloat32);
    return [=] { grad({embedding(w, y)}, {w}, {.grad_outputs = {g}}); };
  });
  run("sort of 2^24 float32", {2.0 * 4 * (1 << 24), "GB/s"}, [] {
    const Tensor x = random({1 << 24}, kFloat32);
    return [=] { sort(x); };
  });
}

void products() {
  for (const int64_t n : {4096, 8192}) {
    const double flops = 2.0 * static_cast<double>(n * n * n);
    for (const DType dtype : {kBFloat16, kFloat32}) {
      if (n == 8192 && dtype == kFloat32) continue;
      const std::string name = "matmul " + std::to_string(n) + "^3 " + hero::name(dtype);
      run(name.c_str(), {flops, "TFLOP/s"}, [=] {
        const Tensor a = random({n, n}, dtype), b = random({n, n}, dtype);
        return [=] { matmul(a, b); };
      });
    }
  }
  for (const bool whole : {true, false}) {
    const char* name =
        whole ? "feed-forward 16384 x 768 x 3072 bf16, with backward" : "the same as two layers";
    run(name, {6 * 2.0 * 16384 * 768 * 3072, "TFLOP/s"}, [=] {
      const Tensor x = random({16384, 768}, kBFloat16, true), g = random(x.shape(), kBFloat16);
      const LinearWeights in{random({3072, 768}, kBFloat16, true), random({3072}, kBFloat16, true)};
      const LinearWeights out{random({768, 3072}, kBFloat16, true), random({768}, kBFloat16, true)};
      return [=] {
        const Tensor y =
            whole ? linear_gelu_linear(x, in, out, Gelu::tanh)
                  : linear(linear_gelu(x, in.weight, in.bias, Gelu::tanh), out.weight, out.bias);
        grad({y}, {x, in.weight, in.bias, out.weight, out.bias}, {.grad_outputs = {g}});
      };
    });
  }
  run("weight and bias gradients 16384 x 768 x 3072 bf16", {2.0 * 16384 * 768 * 3072, "TFLOP/s"},
      [] {
        const Array x = random({16384, 768}, kBFloat16).array();
        const Array g = random({16384, 3072}, kBFloat16).array();
        core::LinearBack back;
        back.g = g;
        back.x = x;
        back.g_w = Array::empty({3072, 768}, kBFloat16, kGpu);
        back.g_bias = Array::empty({3072}, kBFloat16, kGpu);
        return [=] { core::backend(kGpu).linear_backward(back); };
      });
  run("the same as product and sums", {2.0 * 16384 * 768 * 3072, "TFLOP/s"}, [] {
    const Tensor x = random({16384, 768}, kBFloat16), g = random({16384, 3072}, kBFloat16);
    return [=] {
      matmul(g.t(), x);
      sum(g, {0});
    };
  });
  run("cross entropy of 16384 x 768 x 50304 bf16", {3 * 2.0 * 16384 * 768 * 50304, "TFLOP/s"}, [] {
    const Tensor x = random({16384, 768}, kBFloat16, true);
    const Tensor w = random({50304, 768}, kBFloat16, true);
    const Tensor y = randint(0, 50304, {16384}, there(kInt64));
    return [=] { grad({linear_cross_entropy(x, w, y)}, {x, w}); };
  });
  // Half of the pairs: 2 products forward, 5 backward.
  const double pair = 2.0 * 16 * 12 * 1024 * 1024 * 64 / 2;
  for (const auto library : {cuda::AttentionLibrary::own, cuda::AttentionLibrary::cudnn}) {
    const std::string by = library == cuda::AttentionLibrary::cudnn ? " by cuDNN" : "";
    run(("causal attention 16 x 12 x 1024 x 64 bf16" + by).c_str(), {2 * pair, "TFLOP/s"}, [=] {
      cuda::set_attention_library(library);
      const Tensor q = random({16, 12, 1024, 64}, kBFloat16), k = random(q.shape(), kBFloat16);
      const Tensor v = random(q.shape(), kBFloat16);
      return [=] { scaled_dot_product_attention(q, k, v, {.is_causal = true}); };
    });
    run(("the same with backward" + by).c_str(), {7 * pair, "TFLOP/s"}, [=] {
      cuda::set_attention_library(library);
      const Shape shape{16, 12, 1024, 64};
      const Tensor q = random(shape, kBFloat16, true), k = random(shape, kBFloat16, true);
      const Tensor v = random(shape, kBFloat16, true), g = random(shape, kBFloat16);
      return [=] {
        grad({scaled_dot_product_attention(q, k, v, {.is_causal = true})}, {q, k, v},
             {.grad_outputs = {g}});
      };
    });
  }
  cuda::set_attention_library(cuda::AttentionLibrary::own);
}

void steps() {
  run("1000 additions of 256 float32, in a row", {1000, "ops/s"}, [] {
    const Tensor x = random({256}, kFloat32);
    return [=] {
      Tensor y = x;
      for (int i = 0; i < 1000; ++i) y = y + x;
    };
  });
  for (const int64_t batch : {1, 16}) {
    const std::string name = "GPT-2 124M step, B = " + std::to_string(batch) + ", T = 1024, bf16";
    run(name.c_str(), {static_cast<double>(batch * 1024), "tokens/s"}, [=] {
      const nn::DeviceScope scope(kGpu);
      auto model = std::make_shared<nn::GPT>(nn::GPTConfig{});
      auto adamw = std::make_shared<optim::AdamW>(model->parameters());
      const Tensor x = randint(0, 50304, {batch, 1024}, there(kInt64));
      const Tensor y = randint(0, 50304, {batch * 1024}, there(kInt64));
      return [=] {
        adamw->zero_grad();
        {
          const Autocast autocast;
          cross_entropy(reshape((*model)(x), {batch * 1024, 50304}), y).backward();
        }
        optim::clip_grad_norm(model->parameters(), 1.0);
        adamw->step();
      };
    });
  }
  run("clip and AdamW of 124M float32", {32.0 * 124e6, "GB/s"}, [] {
    const nn::DeviceScope scope(kGpu);
    auto model = std::make_shared<nn::GPT>(nn::GPTConfig{});
    auto adamw = std::make_shared<optim::AdamW>(model->parameters());
    for (Tensor p : model->parameters()) p.set_grad(randn(p.shape(), there(kFloat32)));
    return [=] {
      optim::clip_grad_norm(model->parameters(), 1.0);
      adamw->step();
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::is_available()) {
    std::printf("no GPU: %s\n", cuda::reason().c_str());
    return 77;
  }
  if (argc > 1 && std::strcmp(argv[1], "--device") == 0) {
    std::printf("%s\n", device_name().c_str());
    return 0;
  }
  if (argc > 1) json.open(argv[1]);
  manual_seed(1);
  std::printf("%s\n", device_name().c_str());
  memory_bound();
  products();
  steps();
  return 0;
}
