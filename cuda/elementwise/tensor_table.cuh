#pragma once
// Launches over many tensors: their addresses are kernel parameters, which have at most 4 KB.
#include <bit>
#include <cstddef>
#include <cstdint>

#include <hero/core/array.h>
#include <hero/cuda/elementwise/elements.cuh>

namespace hero::cuda {

inline constexpr size_t kMostParameterBytes = 4096;

/// The assignment of the blocks, or other shares, of a launch to up to kMost tensors.
template <int kMost>
struct Shares {
  int tensors = 0;
  uint32_t first[kMost + 1] = {};  ///< the first share of each tensor, then the number of all

  bool full() const { return tensors == kMost; }
  HERO_HD uint32_t all() const { return first[tensors]; }
  /// Adds a tensor of n elements, of which `each` elements are a share. Returns its position.
  int append(int64_t n, int64_t each) {
    first[tensors + 1] = first[tensors] + static_cast<uint32_t>((n + each - 1) / each);
    return tensors++;
  }
  /// The tensor of a share.
  __device__ int find(uint32_t share) const {
    int tensor = 0;
#pragma unroll 1
    for (int step = std::bit_ceil(unsigned{kMost}) / 2; step > 0; step /= 2) {
      const int next = tensor + step;
      if (next < tensors && share >= first[next]) tensor = next;
    }
    return tensor;
  }
};

/// Dense tensors of one dtype.
struct TensorTable {
  static constexpr int kMost = 160;
  Shares<kMost> shares;
  bool vectors[kMost];    ///< the address is that of a vector of kVectorBytes
  int32_t places[kMost];  ///< in the list that all tables are made of
  int64_t sizes[kMost];
  std::byte* data[kMost];

  void append(const Array& x, size_t place, int64_t each) {
    const int at = shares.append(x.numel(), each);
    places[at] = static_cast<int32_t>(place);
    sizes[at] = x.numel();
    data[at] = x.bytes();
    vectors[at] = aligned(x.bytes(), kVectorBytes);
  }
};
static_assert(sizeof(TensorTable) <= kMostParameterBytes - 64);  // beside other parameters

/// Calls body(TypeTag<T>{}, table) for tables of all arrays of each floating dtype T, which are
/// dense and of which share(TypeTag<T>{}) elements are one; empty ones are left out.
template <class Share, class Body>
void each_table(std::span<const Array> xs, const Share& share, const Body& body) {
  const auto of_type = [&]<class T>(TypeTag<T> tag) {
    TensorTable table;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (xs[i].dtype() != kDTypeOf<T> || xs[i].numel() == 0) continue;
      table.append(xs[i], i, share(tag));
      if (!table.shares.full()) continue;
      body(tag, table);
      table.shares = {};
    }
    if (table.shares.tensors > 0) body(tag, table);
  };
  of_type(TypeTag<Float16>{});
  of_type(TypeTag<BFloat16>{});
  of_type(TypeTag<float>{});
  of_type(TypeTag<double>{});
}

}  // namespace hero::cuda
