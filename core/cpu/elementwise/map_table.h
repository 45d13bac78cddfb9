#pragma once
// Expands MapList into the kernel table of one compute type; included by map_<type>.cpp only.
#include <array>
#include <cstddef>

#include <hero/core/cpu/elementwise/map_kernels.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core::cpu {

// The elements of an input, or the one element that is repeated for all.
template <class T, bool kRepeated>
struct InputElements {
  explicit InputElements(const std::byte* from) : all(reinterpret_cast<const T*>(from)) {
    if constexpr (kRepeated) one = *all;
  }
  T operator[](int64_t i) const {
    if constexpr (kRepeated) return one;
    return all[i];
  }
  const T* all;
  T one = T();
};

template <class F, class T, unsigned kRepeated = 0>
void run_map_as(int64_t n, const std::byte* const* inputs, std::byte* out) {
  using Out = std::conditional_t<F::predicate, bool, T>;
  const F f;
  auto* result = reinterpret_cast<Out*>(out);
  // ivdep: an output may be one of the inputs, but element i only ever meets element i.
  const InputElements<T, (kRepeated & 1u) != 0> a(inputs[0]);
  if constexpr (F::arity == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) result[i] = f(a[i]);
  } else {
    const InputElements<T, (kRepeated & 2u) != 0> b(inputs[1]);
    if constexpr (F::arity == 2) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i]);
    } else {
      const InputElements<T, (kRepeated & 4u) != 0> c(inputs[2]);
      if constexpr (F::arity == 3) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i], c[i]);
      } else {
        const InputElements<T, (kRepeated & 8u) != 0> d(inputs[3]);
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i], c[i], d[i]);
      }
    }
  }
}

// One loop for each set of repeated inputs that kernel_repeats() names.
template <class F, class T>
void run_map(int64_t n, const std::byte* const* inputs, unsigned repeated, std::byte* out) {
  if constexpr (F::repeats && std::is_floating_point_v<T>) {
    if constexpr (F::arity == 2) {
      if (repeated == 0b01) return run_map_as<F, T, 0b01>(n, inputs, out);
      if (repeated == 0b10) return run_map_as<F, T, 0b10>(n, inputs, out);
    } else if constexpr (F::arity == 3) {
      if (repeated == 0b110) return run_map_as<F, T, 0b110>(n, inputs, out);
    }
  }
  run_map_as<F, T>(n, inputs, out);
}

template <class F, class T>
constexpr MapKernel kernel_or_null() {
  if constexpr (kernels::computes_in<F, T>()) {
    return &run_map<F, T>;
  } else {
    return nullptr;
  }
}

template <class T, class... Fs>
constexpr std::array<MapKernel, sizeof...(Fs)> map_table(TypeList<Fs...>) {
  return {kernel_or_null<Fs, T>()...};
}

}  // namespace hero::core::cpu
