#pragma once
// Expands MapList into the kernel table of one compute type; included by map_<type>.cpp only.
#include <array>
#include <cstddef>

#include <hero/core/cpu/map_kernels.h>
#include <hero/core/elementwise.h>

namespace hero::core::cpu {

template <class F, class T>
void run_map(int64_t n, const std::byte* const* inputs, std::byte* out) {
  using Out = std::conditional_t<F::predicate, bool, T>;
  const F f;
  auto* result = reinterpret_cast<Out*>(out);
  const auto in = [inputs](int i) { return reinterpret_cast<const T*>(inputs[i]); };
  // ivdep: an output may be one of the inputs, but element i only ever meets element i.
  const T* a = in(0);
  if constexpr (F::arity == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) result[i] = f(a[i]);
  } else if constexpr (F::arity == 2) {
    const T* b = in(1);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i]);
  } else if constexpr (F::arity == 3) {
    const T* b = in(1);
    const T* c = in(2);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i], c[i]);
  } else {
    const T* b = in(1);
    const T* c = in(2);
    const T* d = in(3);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) result[i] = f(a[i], b[i], c[i], d[i]);
  }
}

template <class F, class T>
constexpr MapKernel kernel_or_null() {
  if constexpr (F::domain == kernels::Domain::floats && !std::is_floating_point_v<T>) {
    return nullptr;
  } else {
    return &run_map<F, T>;
  }
}

template <class T, class... Fs>
constexpr std::array<MapKernel, sizeof...(Fs)> map_table(TypeList<Fs...>) {
  return {kernel_or_null<Fs, T>()...};
}

}  // namespace hero::core::cpu
