#pragma once
// Arrays of a GPU beside the CPU's.
#include <cstring>

#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/device/backend.h>

namespace hero_test {

/// A copy on the GPU with x's strides: gaps and order of dimensions are kept.
inline hero::Array on_gpu(const hero::Array& x) {
  int64_t extent = 1;
  for (int d = 0; d < x.ndim(); ++d) extent += (x.shape()[d] - 1) * x.strides()[d];
  if (x.numel() == 0) return hero::Array::empty(x.shape(), x.dtype(), kGpu);
  const int64_t offset = x.offset();
  const hero::Array whole = x.as_strided({offset + extent}, {1}).to(kGpu);
  return whole.as_strided(x.shape(), x.strides(), offset);
}

/// One element's bits, with one pattern for every NaN: processors give different signs and payloads
/// to a NaN that they make (x86 sets the sign, NVIDIA's GPUs return 0x7fffffff), and IEEE 754
/// leaves both open.
template <class T>
uint64_t bits_of(T value) {
  if (hero::convert<double>(value) != hero::convert<double>(value)) return ~uint64_t{0};
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// Whether shape, dtype and the bits of all elements agree; `gpu` may lie anywhere.
inline bool same_bits(const hero::Array& gpu, const hero::Array& cpu) {
  if (!(gpu.shape() == cpu.shape()) || gpu.dtype() != cpu.dtype()) return false;
  const hero::Array a = gpu.to(hero::kCpu).contiguous(), b = cpu.contiguous();
  return hero::dispatch(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < a.numel(); ++i) {
      if (bits_of(a.data<T>()[i]) == bits_of(b.data<T>()[i])) continue;
      UNSCOPED_INFO("element " << i << ": " << hero::convert<double>(a.data<T>()[i])
                               << " on the GPU, " << hero::convert<double>(b.data<T>()[i])
                               << " on the CPU");
      return false;
    }
    return true;
  });
}

}  // namespace hero_test
