#pragma once
// What both directions of the normalisation of rows share.
#include <initializer_list>

#include <hero/cuda/lines.cuh>

namespace hero::cuda {

/// Contiguous rows [rows, n]; `whole`: all arrays fit packs.
struct RowsOfNorm {
  int64_t rows, n;
  Team team;
  bool whole;
};

template <class E>
const E* elements_or_null(const core::Array* array) {
  return array != nullptr ? reinterpret_cast<const E*>(array->bytes()) : nullptr;
}

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
