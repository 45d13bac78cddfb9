#pragma once
// Elements of memory by their indices, a[i][j], as PyTorch's TensorAccessor.
#include <array>
#include <cstdint>
#include <span>

namespace hero {

/// A view of N dimensions of elements of type T, which may be const, in memory that the accessor
/// does not own. a[i] is the accessor of the last N - 1 dimensions at index i of the first one or,
/// if N is 1, the element itself. Indices count from 0 and are not checked. The accessor has copies
/// of the sizes and strides (in elements), so only the memory has to outlive it.
template <class T, int N>
class TensorAccessor {
  static_assert(N > 0, "an accessor has dimensions; a tensor without any has item()");

 public:
  /// `data` is the address of the first element; both lists have N numbers.
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = sizes[i];
      strides_[i] = strides[i];
    }
  }

  /// At index `i` of the first dimension: the element if N is 1, else an accessor of the other
  /// dimensions.
  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1) {
      return (data_[i * strides_[0]]);
    } else {
      return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_.data() + 1,
                                      strides_.data() + 1);
    }
  }

  /// The number of elements in dimension `dim`, from 0 to N - 1.
  int64_t size(int dim) const { return sizes_[static_cast<size_t>(dim)]; }
  /// The distance, in elements, between neighbouring indices of dimension `dim`.
  int64_t stride(int dim) const { return strides_[static_cast<size_t>(dim)]; }
  /// All sizes.
  std::span<const int64_t, N> sizes() const { return sizes_; }
  /// All strides.
  std::span<const int64_t, N> strides() const { return strides_; }
  /// The address of the first element.
  T* data() const { return data_; }

 private:
  T* data_;
  std::array<int64_t, N> sizes_;
  std::array<int64_t, N> strides_;
};

}  // namespace hero
