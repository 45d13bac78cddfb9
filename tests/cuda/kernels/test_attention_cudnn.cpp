// Attention by cuDNN: the graphs' results (over tests/cusim those of operations carried out one by
// one), and whether the real library takes the graphs, which needs no GPU.
#include "cuda/close.h"
#include "support/child.h"

#include <hero/autograd/ops.h>
#include <hero/cuda/nn/attention_cudnn.cuh>
#if defined(HERO_CUSIM)
#include <cudnn_graph.h>
#elif __has_include(<dlfcn.h>)
#include <dlfcn.h>
#endif

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using cuda::AttentionLibrary;
using hero::test::error_of;
using hero::test::noise;
using hero::test::same;

namespace {

// cuDNN while it lives; false, with the reason printed, where there is none.
class WithCudnn {
 public:
  WithCudnn() {
    const std::string error =
        error_of([] { cuda::set_attention_library(AttentionLibrary::cudnn); });
    if (!error.empty()) std::cout << "skipped: " << error << std::endl;
    there_ = error.empty();
  }
  ~WithCudnn() { cuda::set_attention_library(AttentionLibrary::own); }
  explicit operator bool() const { return there_; }

 private:
  bool there_ = false;
};

// How many graphs ran; the real library does not say.
#if defined(HERO_CUSIM)
constexpr int64_t kCounted = 1;
int64_t runs() { return cusim::cudnn_runs(); }
#else
constexpr int64_t kCounted = 0;
int64_t runs() { return 0; }
#endif

struct Case {
  int64_t B, H, G, T, S, D;
  bool is_causal;
};

// Output and gradients of q, k and v, which are views of one [B, T, H + 2 G, D] where sizes allow.
std::vector<Array> attend(const Case& c, DType dtype, Device device) {
  const auto heads = [&](const Tensor& x, int64_t from, int64_t to) {
    return transpose(x.slice(2, from, to), 1, 2);
  };
  const auto leaf = [&](const Shape& shape, uint64_t seed) {
    return Tensor(noise(shape, kBFloat16, seed).to(dtype).to(device)).requires_grad_();
  };
  std::vector<Tensor> leaves;
  Tensor q, k, v;
  if (c.T == c.S) {
    leaves = {leaf({c.B, c.T, c.H + 2 * c.G, c.D}, 1)};
    q = heads(leaves[0], 0, c.H);
    k = heads(leaves[0], c.H, c.H + c.G);
    v = heads(leaves[0], c.H + c.G, c.H + 2 * c.G);
  } else {
    leaves = {leaf({c.B, c.H, c.T, c.D}, 1), leaf({c.B, c.G, c.S, c.D}, 2),
              leaf({c.B, c.G, c.S, c.D}, 3)};
    q = leaves[0], k = leaves[1], v = leaves[2];
  }
  const Tensor y =
      scaled_dot_product_attention(q, k, v, {.is_causal = c.is_causal, .enable_gqa = c.G != c.H});
  y.backward(Tensor(noise(y.shape(), kBFloat16, 9).to(dtype).to(device)));
  std::vector<Array> results{y.array()};
  for (const Tensor& x : leaves) results.push_back(x.grad().array());
  return results;
}

}  // namespace

TEST_CASE("cuDNN's attention and its gradients are those of float64") {
  HERO_NEEDS_GPU();
  const WithCudnn cudnn;
  if (!cudnn) return;
  const DType dtype = GENERATE(kBFloat16, kFloat16);
  const Case c = GENERATE(Case{2, 3, 3, 17, 17, 16, true}, Case{1, 2, 2, 9, 9, 8, false},
                          Case{2, 4, 2, 13, 13, 24, true}, Case{1, 4, 1, 7, 12, 16, false},
                          Case{1, 2, 2, 12, 7, 40, true}, Case{1, 1, 1, 1, 5, 128, false},
                          Case{1, 2, 2, 64, 64, 64, true});
  INFO("B" << c.B << " H" << c.H << " G" << c.G << " T" << c.T << " S" << c.S << " D" << c.D);
  const std::vector<Array> expected = attend(c, kFloat64, kCpu);
  const int64_t before = runs();
  std::vector<Array> got, again;
  try {
    got = attend(c, dtype, kGpu);
    again = attend(c, dtype, kGpu);
  } catch (const Error& error) {
    // Which odd sizes it takes is the library's to say; those of models it must take.
    const bool of_models = c.T % 64 == 0 && c.D % 64 == 0;
    if (of_models || std::string(error.what()).find("cuDNN has no engine") == std::string::npos) {
      throw;
    }
    std::cout << "skipped: " << error.what() << std::endl;
    return;
  }
  CHECK(runs() == before + kCounted * 4);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i << " in " << to_string(dtype));
    // Probabilities, their gradients and the results are rounded to halves, and differences of
    // near numbers pass on what was rounded before.
    CHECK(distance(got[i], expected[i]) <= 4.0 * rounding(dtype));
    CHECK(same(got[i].to(kCpu), again[i].to(kCpu)));
  }
}

TEST_CASE("cuDNN gets rows of their own where a gradient repeats one") {
  HERO_NEEDS_GPU();
  const WithCudnn cudnn;
  if (!cudnn) return;
  const auto gradient = [](DType dtype, Device device) {
    const Tensor q = Tensor(noise({1, 2, 5, 16}, kBFloat16, 1).to(dtype).to(device));
    q.requires_grad_();
    const Tensor keys = expand(q.slice(1, 0, 1), {1, 2, 5, 16});
    sum(scaled_dot_product_attention(q, keys, keys)).backward();
    return q.grad().array();
  };
  CHECK(distance(gradient(kBFloat16, kGpu), gradient(kFloat64, kCpu)) <= 4.0 * rounding(kBFloat16));
}

TEST_CASE("what cuDNN does not take stays with our own kernels") {
  HERO_NEEDS_GPU();
  const Array x = noise({1, 2, 5, 16}, kBFloat16, 1).to(kGpu);
  const auto attention = [](const Array& in, const AttentionOptions& options) {
    const Tensor q(in);
    return scaled_dot_product_attention(q, q, q, options).array().to(kCpu);
  };
  const Tensor mask(Array::ones({5, 5}, kBool, kGpu)), bias(Array::zeros({5, 5}, kFloat32, kGpu));
  const Array wide = x.to(kFloat32), odd = x.slice(3, 0, 12).contiguous();
  const auto all = [&] {
    return std::vector<Array>{attention(wide, {}), attention(odd, {}), attention(x, {.mask = mask}),
                              attention(x, {.bias = bias})};
  };
  const std::vector<Array> own = all();
  const WithCudnn cudnn;
  if (!cudnn) return;
  CHECK(cuda::attention_library() == AttentionLibrary::cudnn);
  const int64_t before = runs();
  const std::vector<Array> kept = all();
  CHECK(runs() == before);
  for (size_t i = 0; i < own.size(); ++i) CHECK(same(kept[i], own[i]));
}

TEST_CASE("child: cuDNN is looked for where HERO_CUDNN says", "[.]") {
  const std::string error = error_of([] { cuda::set_attention_library(AttentionLibrary::cudnn); });
  REQUIRE(error.rfind("attention: ", 0) == 0);
  REQUIRE_THAT(error, ContainsSubstring(Child::argument()));
  REQUIRE(cuda::attention_library() == AttentionLibrary::own);
}

TEST_CASE("attention that asks for cuDNN says what is missing") {
  HERO_NEEDS_GPU();
  const WithCudnn cudnn;
  if (!cudnn) return;  // nor would a build without it know what to look for
  const auto child_with = [](const char* file, const char* wanted) {
    ::setenv("HERO_CUDNN", file, 1);
    Child child("child: cuDNN is looked for where HERO_CUDNN says", wanted);
    const int code = child.wait();
    ::unsetenv("HERO_CUDNN");
    return code;
  };
  CHECK(child_with("0", "HERO_CUDNN=0 turns cuDNN off") == 0);
  CHECK(child_with("/nowhere/libcudnn.so", "/nowhere/libcudnn.so, which cannot be opened") == 0);
  CHECK(child_with("libm.so.6", "has no function cudnnCreate") == 0);
}

#if defined(HERO_CUSIM)
TEST_CASE("a shape that cuDNN refuses is an error that names it") {
  const WithCudnn cudnn;
  const Array q = noise({1, 1, 1, 8}, kBFloat16, 1).to(kGpu);
  const Array k = noise({1, 1, 2000, 8}, kBFloat16, 2).to(kGpu);  // too many for the one of cusim
  CHECK_THROWS_WITH(scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(k)),
                    ContainsSubstring("attention: cuDNN has no engine for bfloat16 q [1, 1, 1, 8], "
                                      "k [1, 1, 2000, 8]"));
}
#endif

TEST_CASE("cuDNN proposes engines for attention's graphs on an H100, forward and backward") {
#if !defined(HERO_CUSIM)
  // The library opens the driver's; where there is no driver the toolkit's stand-in does.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL);
  }
#endif
  const WithCudnn cudnn;
  if (!cudnn) return;
  const std::string h100 =
      R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
          "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
          "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
          "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
          "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
          "supportCoopLaunch": 1, "totalGlobalMem": 85000000000, "smClockRateKHz": 1980000,
          "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "cudaDeviceId": 0,
          "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3"})";
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const Case& c : {Case{16, 12, 12, 1024, 1024, 64, true}, Case{2, 3, 3, 37, 37, 64, false},
                          Case{2, 8, 2, 100, 100, 128, true}, Case{1, 4, 1, 7, 130, 8, false},
                          Case{1, 2, 2, 1, 64, 40, false}, Case{1, 2, 2, 64, 33, 96, true}}) {
      const auto heads = [&](int64_t count, int64_t rows) {
        return Array::empty({c.B, rows, count, c.D}, dtype, kMeta).permute({0, 2, 1, 3});
      };
      INFO("B" << c.B << " H" << c.H << " G" << c.G << " T" << c.T << " S" << c.S << " D" << c.D);
      const Array k = heads(c.G, c.S);
      const cuda::CudnnEngines found =
          cuda::cudnn_engines(h100, c.is_causal, heads(c.H, c.T), k, k);
      CHECK(found.forward > 0);
      CHECK(found.backward > 0);
    }
  }
#if !defined(HERO_CUSIM)
  const Array odd = Array::empty({1, 2, 64, 20}, kBFloat16, kMeta);
  CHECK(cuda::cudnn_engines(h100, true, odd, odd, odd).forward == 0);
#endif
}
