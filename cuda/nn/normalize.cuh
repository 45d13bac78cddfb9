#pragma once
// What both directions of the normalisation of rows share.
#include <initializer_list>

#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

/// Contiguous rows [rows, n].
struct RowsOfNorm {
  int64_t rows, n;
  Team team;
  bool whole;             ///< all arrays of rows fit packs
  bool whole_parameters;  ///< weight and bias do, which may lie anywhere: shards of many parameters
};

template <class E>
const E* elements_or_null(const core::Array* array) {
  return array != nullptr ? reinterpret_cast<const E*>(array->bytes()) : nullptr;
}

/// Rows of E's or, beside float32, of a half's: which, kernels learn as they run, so that no kernel
/// is compiled for each pair.
template <class E>
struct RowsBeside {
  std::byte* bytes;  ///< null where there are none
  DType dtype;

  explicit RowsBeside(const core::Array* array)
      : bytes(array != nullptr ? array->bytes() : nullptr),
        dtype(array != nullptr ? array->dtype() : kDTypeOf<E>) {}

  /// Elements at.. of the row that begins at `start`, 0 behind its end; `whole` as in load_pack.
  __device__ void load(Compute<E> (&values)[kRowPack<E>], int64_t start, int64_t at, int64_t n,
                       bool whole) const {
    if constexpr (std::is_same_v<E, float>) {
      if (dtype != DType::float32) {
        uint16_t bits[kRowPack<E>];
        read_vector(reinterpret_cast<const uint16_t*>(bytes) + start + at, n - at, bits, whole);
#pragma unroll
        for (int j = 0; j < kRowPack<E>; ++j) {
          values[j] = dtype == DType::bfloat16 ? convert<float>(std::bit_cast<BFloat16>(bits[j]))
                                               : convert<float>(std::bit_cast<Float16>(bits[j]));
        }
        return;
      }
    }
    read_vector(reinterpret_cast<const E*>(bytes) + start + at, n - at, values, whole);
  }
  /// Stores elements at.. of a row, rounded, where rows are of a half's dtype.
  __device__ void store(const RowPack<E>& pack, int64_t start, int64_t at, int64_t n,
                        bool whole) const {
    if constexpr (std::is_same_v<E, float>) {
      uint16_t bits[kRowPack<E>];
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j) {
        bits[j] =
            dtype == DType::bfloat16 ? BFloat16(pack.value[j]).bits : Float16(pack.value[j]).bits;
      }
      write_vector(reinterpret_cast<uint16_t*>(bytes) + start + at, n - at, bits, whole);
    }
  }
};

/// Whether rows of n of all arrays that are there fit packs.
template <class E>
bool all_fit(int64_t n, std::initializer_list<const core::Array*> arrays) {
  bool fit = true;
  for (const core::Array* array : arrays) {
    fit = fit && (array == nullptr || packs_fit<E>(array->bytes(), n));
  }
  return fit;
}

}  // namespace hero::cuda
