#pragma once
// Expands MapList into kernels; included by map_<type>.cu only.
#include <array>
#include <utility>

#include <hero/core/kernels/elementwise.h>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/map_kernels.cuh>

namespace hero::cuda {

namespace {

template <class F, class T, size_t... I>
__device__ auto call(const T* values, std::index_sequence<I...>) {
  return F{}(values[I]...);
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads) strided_kernel(const MapArgs<T> args) {
  using Out = std::conditional_t<F::predicate, bool, T>;
  const auto step = static_cast<uint32_t>(grid_threads());
  for (auto i = static_cast<uint32_t>(global_thread()); i < args.walk.count; i += step) {
    int64_t places[F::arity + 1];
    args.walk.at(i, places);
    T values[F::arity];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) {
      values[k] = args.inputs[k] ? read_as<T>(args.inputs[k], args.dtypes[k], places[k + 1])
                                 : args.scalars[k];
    }
    const Out result = call<F>(values, std::make_index_sequence<F::arity>{});
    write_as(args.out, args.out_dtype, places[0], result);
  }
}

// One element that all of a vector's meet; beside halves it may be float32.
template <class S>
__device__ ComputeOf<S> read_one(const std::byte* array, DType dtype, int64_t place) {
  if constexpr (sizeof(S) == 2) {
    if (dtype == DType::float32) return reinterpret_cast<const float*>(array)[place];
  }
  return convert<ComputeOf<S>>(reinterpret_cast<const S*>(array)[place]);
}

template <class F, class S>
__global__ void __launch_bounds__(kThreads) vector_kernel(const MapArgs<ComputeOf<S>> args) {
  using T = ComputeOf<S>;
  using Out = std::conditional_t<F::predicate, bool, T>;
  using Stored = std::conditional_t<F::predicate, bool, S>;
  constexpr int kVector = kVectorBytes / sizeof(S);
  const auto step = static_cast<uint32_t>(grid_threads());
  for (auto i = static_cast<uint32_t>(global_thread()); i < args.walk.count; i += step) {
    int64_t places[F::arity + 1];
    args.walk.at(i, places);
    const int64_t have = args.elements - places[0];
    T values[F::arity][kVector];
#pragma unroll
    for (int k = 0; k < F::arity; ++k) {
      const auto* input = reinterpret_cast<const S*>(args.inputs[k]);
      if (input && args.walk.strides[k + 1][args.walk.ndim - 1] != 0) {
        read_vector(input + places[k + 1], have, values[k]);
      } else {
        const T one =
            input ? read_one<S>(args.inputs[k], args.dtypes[k], places[k + 1]) : args.scalars[k];
#pragma unroll
        for (int j = 0; j < kVector; ++j) values[k][j] = one;
      }
    }
    Out results[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      T element[F::arity];
#pragma unroll
      for (int k = 0; k < F::arity; ++k) element[k] = values[k][j];
      results[j] = call<F>(element, std::make_index_sequence<F::arity>{});
    }
    write_vector(reinterpret_cast<Stored*>(args.out) + places[0], have, results);
  }
}

template <class F, class T>
constexpr MapKernel<T> strided_or_null() {
  if constexpr (core::kernels::computes_in<F, T>()) {
    return &strided_kernel<F, T>;
  } else {
    return nullptr;
  }
}

template <class F, class S>
constexpr MapKernel<ComputeOf<S>> vector_or_null() {
  if constexpr (F::vectors && core::kernels::computes_in<F, ComputeOf<S>>()) {
    return &vector_kernel<F, S>;
  } else {
    return nullptr;
  }
}

template <class T, class... Fs>
MapKernel<T> strided_kernel_of(uint16_t index, TypeList<Fs...>) {
  static constexpr MapKernel<T> table[] = {strided_or_null<Fs, T>()...};
  return table[index];
}

template <class S, class... Fs>
MapKernel<ComputeOf<S>> vector_kernel_of(uint16_t index, TypeList<Fs...>) {
  static constexpr MapKernel<ComputeOf<S>> table[] = {vector_or_null<Fs, S>()...};
  return table[index];
}

}  // namespace

}  // namespace hero::cuda
