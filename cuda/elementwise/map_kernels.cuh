#pragma once
// The kernels of MapList and their tables: a table for each compute type of the form for any
// strides and dtypes, and for each floating storage type of the form for whole vectors.
#include <cstddef>

#include <hero/core/device/backend.h>
#include <hero/cuda/elementwise/walk.cuh>

namespace hero::cuda {

inline constexpr int kMaxArity = 4;

/// The parameters of a kernel; array 0 of the walk is the output, array k + 1 is input k.
template <class T>
struct MapArgs {
  Walk walk;
  int64_t elements;  ///< elements behind the output's first; for a last vector that is not full
  std::byte* out;
  const std::byte* inputs[kMaxArity];  ///< null if the input is a scalar
  T scalars[kMaxArity];
  DType out_dtype;
  DType dtypes[kMaxArity];
};

template <class T>
using MapKernel = void (*)(MapArgs<T>);

/// Kernels for any strides and dtypes, for compute type T (float, double, int64_t, int32_t,
/// uint8_t); null if the functor does not compute in T.
template <class T>
MapKernel<T> strided_map_kernel(uint16_t index);

/// All inputs stored as S (a floating dtype), and the output too or, for predicates, as bool.
/// Positions are vectors of 16 bytes of S; an input's stride of 0 along the last dimension repeats
/// one element, which beside halves may be float32.
template <class S>
MapKernel<std::conditional_t<sizeof(S) == 8, double, float>> vector_map_kernel(uint16_t index);

template <>
MapKernel<float> strided_map_kernel<float>(uint16_t index);
template <>
MapKernel<double> strided_map_kernel<double>(uint16_t index);
template <>
MapKernel<int64_t> strided_map_kernel<int64_t>(uint16_t index);
template <>
MapKernel<int32_t> strided_map_kernel<int32_t>(uint16_t index);
template <>
MapKernel<uint8_t> strided_map_kernel<uint8_t>(uint16_t index);
template <>
MapKernel<float> vector_map_kernel<float>(uint16_t index);
template <>
MapKernel<float> vector_map_kernel<BFloat16>(uint16_t index);
template <>
MapKernel<float> vector_map_kernel<Float16>(uint16_t index);
template <>
MapKernel<double> vector_map_kernel<double>(uint16_t index);

}  // namespace hero::cuda
