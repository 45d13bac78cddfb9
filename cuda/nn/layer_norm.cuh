#pragma once
// Helpers of the normalisation of rows, forward and backward.
#include <initializer_list>

#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/reduce/lines.cuh>
#include <hero/cuda/reduce/rows.cuh>

namespace hero::cuda {

/// Contiguous rows [rows, n].
struct RowsOfNorm {
  int64_t rows, n;
  RowTeam team;
  bool whole;             ///< all arrays of rows can be read in packs
  bool whole_parameters;  ///< weight and bias can, which may be unaligned, as shards are
};

template <class E>
const E* elements_or_null(const core::Array* array) {
  return array != nullptr ? reinterpret_cast<const E*>(array->bytes()) : nullptr;
}

/// Rows of elements E or, beside float32, of half precision. Kernels read the dtype at run time, so
/// that no kernel is compiled for each pair of dtypes.
template <class E>
struct RowsBeside {
  std::byte* bytes;  ///< null if there are no rows
  DType dtype;

  explicit RowsBeside(const core::Array* array)
      : bytes(array != nullptr ? array->bytes() : nullptr),
        dtype(array != nullptr ? array->dtype() : kDTypeOf<E>) {}

  /// Packs at, at + step, ... of the row that begins at `start`, 0 behind its end, as they lie:
  /// halves in the first half of a pack. `whole` as in load_pack.
  template <int kHeld>
  __device__ void load(RowPack<E> (&packs)[kHeld], int64_t start, int64_t at, int64_t step,
                       int64_t n, bool whole) const {
    if constexpr (std::is_same_v<E, float>) {
      if (dtype != DType::float32) {
        const uint16_t* row = reinterpret_cast<const uint16_t*>(bytes) + start;
#pragma unroll
        for (int k = 0; k < kHeld; ++k) packs[k] = halves(row, at + k * step, n, whole);
        return;
      }
    }
    load_packs(packs, reinterpret_cast<const E*>(bytes) + start, at, step, n, whole,
               convert<E>(Compute<E>(0)));
  }
  /// The numbers of a pack that load() returned.
  __device__ void unpack(const RowPack<E>& pack, Compute<E> (&values)[kRowPack<E>]) const {
    if constexpr (std::is_same_v<E, float>) {
      if (dtype != DType::float32) {
#pragma unroll
        for (int j = 0; j < kRowPack<E>; ++j) {
          const auto word = std::bit_cast<uint32_t>(pack.value[j / 2]);
          const auto bits = static_cast<uint16_t>(j % 2 == 0 ? word : word >> 16);
          values[j] = dtype == DType::bfloat16 ? convert<float>(std::bit_cast<BFloat16>(bits))
                                               : convert<float>(std::bit_cast<Float16>(bits));
        }
        return;
      }
    }
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) values[j] = convert<Compute<E>>(pack.value[j]);
  }
  /// Element i of all.
  __device__ Compute<E> at(int64_t i) const {
    if constexpr (std::is_same_v<E, float>) return read_as<float>(bytes, dtype, i);
    return convert<Compute<E>>(reinterpret_cast<const E*>(bytes)[i]);
  }
  /// Stores elements at.. of a row, rounded if rows are of half precision.
  __device__ void store(const RowPack<E>& pack, int64_t start, int64_t at, int64_t n,
                        bool whole) const {
    if constexpr (std::is_same_v<E, float>) {
      if (dtype != DType::float32) {
        uint16_t bits[kRowPack<E>];
#pragma unroll
        for (int j = 0; j < kRowPack<E>; ++j) {
          bits[j] =
              dtype == DType::bfloat16 ? BFloat16(pack.value[j]).bits : Float16(pack.value[j]).bits;
        }
        write_vector(reinterpret_cast<uint16_t*>(bytes) + start + at, n - at, bits, whole);
        return;
      }
    }
    store_pack(pack, reinterpret_cast<E*>(bytes) + start, at, n, whole);
  }

 private:
  // Four halves at.. of a row in the first two words.
  __device__ static RowPack<float> halves(const uint16_t* row, int64_t at, int64_t n, bool whole) {
    Pack<uint32_t, 2> words{};
    if (whole && at + 4 <= n) {
      words = *reinterpret_cast<const Pack<uint32_t, 2>*>(row + at);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (at + j < n) words.at[j / 2] |= uint32_t{row[at + j]} << (j % 2 * 16);
      }
    }
    return {{std::bit_cast<float>(words.at[0]), std::bit_cast<float>(words.at[1]), 0.0f, 0.0f}};
  }
};

/// Whether rows of n elements of all arrays that are not null can be read in packs.
template <class E>
bool all_fit(int64_t n, std::initializer_list<const core::Array*> arrays) {
  bool fit = true;
  for (const core::Array* array : arrays) {
    fit = fit && (array == nullptr || packs_fit<E>(array->bytes(), n));
  }
  return fit;
}

}  // namespace hero::cuda
