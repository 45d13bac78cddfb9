// Optimizer steps and what follows a product, against the CPU's.
#include <optional>

#include "cuda/close.h"

#include <hero/core/functions/map.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/kernels/elementwise.h>

using namespace hero;
using namespace hero_test;
using namespace hero::test;
namespace k = hero::core::kernels;

namespace {

template <class... Fs, class Body>
void each_update(TypeList<Fs...>, Body&& body) {
  (body(TypeTag<Fs>{}), ...);
}

// Numbers between 0 and 1 without a pattern, as every coefficient of a step could be.
template <class F>
typename F::template Step<double> coefficients() {
  std::array<double, k::kCoefficients<F>> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.9 / static_cast<double>(i + 1) + 0.01;
  return std::bit_cast<typename F::template Step<double>>(values);
}

// A dense array that begins `shift` elements into its memory.
Array at_offset(const Array& x, int64_t shift) {
  const Array whole = Array::zeros({x.numel() + shift}, x.dtype());
  const Array view = whole.slice(0, shift).reshape(x.shape());
  core::backend(kCpu).run(core::call::Copy{x, view});
  return view;
}

std::vector<const Array*> pointers(const std::vector<Array>& arrays) {
  std::vector<const Array*> list;
  for (const Array& array : arrays) list.push_back(&array);
  return list;
}

// A parameter's arrays, on the CPU and on the GPU; they begin `shift` elements into their memory.
struct Both {
  Array param, grad, gpu_param, gpu_grad;
  Array norms = noise({2}, kFloat64, 9), gpu_norms;
  std::vector<Array> states, gpu_states;
  Array low, gpu_low;  // copies in 16 bits, where there are any

  Both(int count, int64_t n, DType dtype, int64_t shift, uint64_t seed,
       std::optional<DType> low_dtype = {}) {
    param = at_offset(noise({n}, dtype, seed), shift);
    grad = at_offset(noise({n}, low_dtype.value_or(dtype), seed + 1), shift);
    if (low_dtype) {
      low = at_offset(Array::zeros({n}, *low_dtype), shift);
      gpu_low = on_gpu(low);
    }
    gpu_param = on_gpu(param);
    gpu_grad = on_gpu(grad);
    core::map_into<k::Abs>(norms, norms);
    gpu_norms = norms.to(kGpu);
    for (int i = 0; i < count; ++i) {
      const auto more = static_cast<uint64_t>(i + 2);
      const Array state = noise({n}, core::state_dtype(dtype), seed + more);
      // sums of squares are not negative
      core::map_into<k::Abs>(state, state);
      states.push_back(at_offset(state, shift));
      gpu_states.push_back(on_gpu(states.back()));
    }
  }
  template <class F>
  void add(core::UpdateBatch& here, core::UpdateBatch& there) const {
    constexpr bool kNorms = k::TakesNorms<F>;
    here.add<F>(coefficients<F>(), param, grad, pointers(states), kNorms ? &norms : nullptr,
                low.defined() ? &low : nullptr);
    there.add<F>(coefficients<F>(), gpu_param, gpu_grad, pointers(gpu_states),
                 kNorms ? &gpu_norms : nullptr, low.defined() ? &gpu_low : nullptr);
  }
  void check() const {
    INFO(to_string(param.shape()) << " of " << to_string(param.dtype()) << ", shifted by "
                                  << param.offset());
    CHECK(same_bits(gpu_param, param));
    if (low.defined()) {
      CHECK(same_bits(gpu_low, low));
      CHECK(same_bits(low, param.to(low.dtype())));
    }
    for (size_t i = 0; i < states.size(); ++i) CHECK(same_bits(gpu_states[i], states[i]));
  }
};

template <class F>
void compare(const std::vector<Both>& params) {
  INFO(F::name << ", " << F::states << " states");
  for (int step = 0; step < 2; ++step) {
    core::UpdateBatch here, there;
    for (const Both& param : params) param.add<F>(here, there);
    here.run();
    there.run();
  }
  for (const Both& param : params) param.check();
}

template <class F>
void compare(int64_t n, DType dtype, int64_t shift = 0) {
  compare<F>({Both(F::states, n, dtype, shift, 1)});
}

constexpr DType kFloats[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

// In double gelu's erfc and exp are the C library's on the CPU and CUDA's on a GPU; all else are
// the same operations on both.
bool agree([[maybe_unused]] core::Activation activation, const Array& gpu, const Array& cpu) {
#if !defined(HERO_TEST_CUSIM)  // there both are the CPU's library
  const bool by_library =
      activation == core::Activation::gelu || activation == core::Activation::gelu_tanh;
  if (by_library && cpu.dtype() == kFloat64) return distance(gpu, cpu) <= allowed(kFloat64);
#endif
  return same_bits(gpu, cpu);
}

}  // namespace

TEST_CASE("every optimizer step gives the CPU's bits") {
  HERO_NEEDS_GPU();
  each_update(k::UpdateList{}, [](auto tag) {
    using F = typename decltype(tag)::type;
    for (const DType dtype : kFloats) compare<F>(523, dtype);
  });
}

TEST_CASE("many parameters of any size, place and dtype are stepped together") {
  HERO_NEEDS_GPU();
  each_update(k::UpdateList{}, [](auto tag) {
    using F = typename decltype(tag)::type;
    std::vector<Both> params;
    // More than one launch of each dtype, empty ones among them, every third off its vector.
    for (int64_t i = 0; i < 150; ++i) {
      const DType dtype = kFloats[i < 140 ? 2 * (i % 2) : i % 4];
      const int64_t n = i % 7 == 3 ? 0 : i % 50 == 20 ? 4097 + i : i * 5 % 37;
      params.emplace_back(F::states, n, dtype, i % 3 == 2 ? 1 : 0, static_cast<uint64_t>(i));
    }
    compare<F>(params);
  });
}

TEST_CASE("gradients and copies of 16 bits are read and set in the same pass") {
  HERO_NEEDS_GPU();
  each_update(k::UpdateList{}, [](auto tag) {
    using F = typename decltype(tag)::type;
    if constexpr (!k::TakesNorms<F>) {
      std::vector<Both> params;
      // both dtypes, and parameters without a copy, among each other
      for (int64_t i = 0; i < 40; ++i) {
        const std::optional<DType> dtypes[] = {kBFloat16, kFloat16, std::nullopt};
        const int64_t n = i % 7 == 3 ? 0 : i % 20 == 10 ? 4097 + i : i * 5 % 37;
        params.emplace_back(F::states, n, kFloat32, i % 5 == 2 ? 1 : 0, static_cast<uint64_t>(i),
                            dtypes[i / 3 % 3]);
      }
      compare<F>(params);
    }
  });
}

TEST_CASE("parameters of any size and place are stepped to their last element") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloats) {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 255, 1025, 4096, 8195}) compare<k::Adam>(n, dtype);
    compare<k::Adam>(77, dtype, 1);
    compare<k::SGD>(77, dtype, 3);
  }
}

TEST_CASE("bias and activation give the CPU's bits") {
  HERO_NEEDS_GPU();
  using core::Activation;
  constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu,
                                         Activation::gelu_tanh};
  const auto run = [](Activation activation, const Array* bias, const Array& z, bool in_place) {
    const Array here = z.clone(), there = z.to(kGpu);
    const Array out = in_place ? here : z.empty_like();
    const Array gpu_out = in_place ? there : there.empty_like();
    const Array gpu_bias = bias ? bias->to(kGpu) : Array();
    core::backend(kCpu).run(core::call::BiasActivation{activation, bias, here, out});
    core::backend(kGpu).run(
        core::call::BiasActivation{activation, bias ? &gpu_bias : nullptr, there, gpu_out});
    INFO("activation " << static_cast<int>(activation) << " of " << to_string(z.dtype()) << " "
                       << to_string(z.shape()) << (in_place ? " in place" : "") << ", bias "
                       << (bias ? to_string(bias->shape()) : "none"));
    CHECK(agree(activation, gpu_out, out));
    CHECK(agree(in_place ? activation : Activation::none, there, here));
  };
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape :
         {Shape{6, 16}, Shape{5, 7}, Shape{1, 1}, Shape{130, 3}, Shape{0, 4}}) {
      const Array z = noise(shape, dtype, 1);
      const Array columns = noise({shape[1]}, dtype, 2), rows = noise({1, 1}, dtype, 3);
      for (const Activation activation : kActivations) {
        for (const bool in_place : {false, true}) {
          run(activation, nullptr, z, in_place);
          run(activation, &columns, z, in_place);
          run(activation, &rows, z, in_place);
        }
      }
    }
    const Array channels = noise({3, 1}, dtype, 4);
    run(Activation::gelu, &channels, noise({6, 16}, dtype, 1), false);
    run(Activation::relu, &channels, noise({9, 5}, dtype, 1), true);
  }
}

TEST_CASE("bias and activation of halves round the sum, then the result") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const Shape& shape : {Shape{6, 16}, Shape{5, 7}}) {
      const Array z = noise(shape, dtype, 1), bias = noise({shape[1]}, dtype, 2);
      const Array sum = z.to(kFloat32), out = sum.empty_like(), wide = bias.to(kFloat32);
      core::backend(kCpu).run(core::call::BiasActivation{core::Activation::none, &wide, sum, sum});
      const Array rounded = sum.to(dtype);
      core::backend(kCpu).run(
          core::call::BiasActivation{core::Activation::gelu, nullptr, rounded.to(kFloat32), out});
      const Array there = z.to(kGpu), gpu_bias = bias.to(kGpu), gpu_out = there.empty_like();
      core::backend(kGpu).run(
          core::call::BiasActivation{core::Activation::gelu, &gpu_bias, there, gpu_out});
      CHECK(same_bits(there, rounded));
      CHECK(same_bits(gpu_out, out.to(dtype)));
    }
  }
}
