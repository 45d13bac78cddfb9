#pragma once
// Several arrays walked together: from an index among the elements of a shape to the offset of that
// element in each array. There is no CUDA in here: the index arithmetic is the same on the host.
#include <algorithm>
#include <bit>
#include <limits>

#include <hero/core/array.h>
#include <hero/core/kernels/config.h>

namespace hero::cuda {

/// Division of numbers below 2^31 by one that is known beforehand: a multiplication and a shift
/// (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
struct Divider {
  uint32_t divisor = 1, magic = 1, shift = 0;

  Divider() = default;
  explicit Divider(uint32_t by) : divisor(by) {
    shift = static_cast<uint32_t>(std::bit_width(by - 1));
    const uint64_t power = uint64_t{1} << shift;
    magic = static_cast<uint32_t>(((power - by) << 32) / by + 1);
  }
  HERO_HD uint32_t operator()(uint32_t x) const {
    return (static_cast<uint32_t>((uint64_t{x} * magic) >> 32) + x) >> shift;
  }
};

/// The largest number of arrays that a kernel walks together: four inputs and the output.
inline constexpr int kMaxWalked = 5;

/// The part of a walk that a kernel gets, by value: sizes as divisors and strides in elements.
struct Walk {
  int ndim = 1;
  uint32_t count = 1;  ///< the number of positions
  Divider sizes[kMaxDims];
  int64_t strides[kMaxWalked][kMaxDims];

  /// The places of position i in the first N arrays.
  template <int N>
  HERO_HD void at(uint32_t i, int64_t (&places)[N]) const {
    for (int k = 0; k < N; ++k) places[k] = 0;
    for (int d = ndim - 1; d > 0; --d) {
      const uint32_t above = sizes[d](i);
      const uint32_t rest = i - above * sizes[d].divisor;
      for (int k = 0; k < N; ++k) places[k] += rest * strides[k][d];
      i = above;
    }
    for (int k = 0; k < N; ++k) places[k] += i * strides[k][0];
  }
};

/// The host's side of a walk: dimensions are put into the order of the first array's memory and
/// joined where all arrays allow; at least one is left. Positions keep no order that a caller may
/// rely on.
class Joint {
 public:
  /// The array that is written.
  explicit Joint(const core::Array& first) : shape_(first.shape()) { add(first); }
  /// Adds an array, broadcast to the first one's shape.
  void add(const core::Array& array) {
    const int lead = shape_.size() - array.ndim();
    for (int d = 0; d < shape_.size(); ++d) {
      const bool repeated = d < lead || array.shape()[d - lead] == 1;
      strides_[arrays_][d] = repeated ? 0 : array.strides()[d - lead];
    }
    ++arrays_;
  }
  /// Adds a number in place of an array.
  void add_scalar() { std::fill_n(strides_[arrays_++], shape_.size(), 0); }
  /// To be called once, after the arrays.
  void join();

  int ndim() const { return ndim_; }
  int64_t size(int d) const { return sizes_[d]; }
  int64_t stride(int array, int d) const { return strides_[array][d]; }
  /// The stride of an array along the last dimension.
  int64_t inner_stride(int array) const { return strides_[array][ndim_ - 1]; }
  /// Where array k of this piece begins, in elements from its first; see pieces().
  int64_t start(int array) const { return starts_[array]; }
  int64_t count() const {
    int64_t count = 1;
    for (int d = 0; d < ndim_; ++d) count *= sizes_[d];
    return count;
  }
  /// Whether `vector` neighbours of the last dimension can be read at once: strides of 1 there, or
  /// 0 for what is repeated, and all others in whole vectors. The last vector of a single
  /// dimension may be partial.
  bool splits(int vector) const;
  /// From now on, positions count vectors in place of elements.
  void split(int vector);
  /// The walk without the dimensions a and b, a < b.
  Joint without(int a, int b) const;
  Walk walk() const;

  /// Calls body(piece) for pieces of at most `limit` positions, which 32 bits can count.
  template <class Body>
  void pieces(int64_t limit, const Body& body) const {
    if (count() <= limit) return body(*this);
    const int d = static_cast<int>(std::max_element(sizes_, sizes_ + ndim_) - sizes_);
    Joint lower = *this, upper = *this;
    lower.sizes_[d] = sizes_[d] / 2;
    upper.sizes_[d] = sizes_[d] - sizes_[d] / 2;
    for (int k = 0; k < arrays_; ++k) upper.starts_[k] += strides_[k][d] * lower.sizes_[d];
    lower.pieces(limit, body);
    upper.pieces(limit, body);
  }

 private:
  Shape shape_;
  int arrays_ = 0;
  int ndim_ = 0;
  int64_t sizes_[kMaxDims];
  int64_t strides_[kMaxWalked][kMaxDims];
  int64_t starts_[kMaxWalked] = {};
};

/// Positions of a piece that a kernel counts.
inline constexpr int64_t kMaxPositions = std::numeric_limits<int32_t>::max();

inline void Joint::join() {
  // Insertion sort of the dimensions by the first array's strides, largest first; equal ones keep
  // their order. Sizes of 1 drop out.
  int order[kMaxDims], kept = 0;
  for (int d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 1) continue;
    int at = kept++;
    for (; at > 0 && strides_[0][order[at - 1]] < strides_[0][d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t strides[kMaxWalked][kMaxDims];
  for (int o = 0; o < kept; ++o) {
    const int64_t size = shape_[order[o]];
    bool joins = ndim_ > 0;
    for (int k = 0; k < arrays_ && joins; ++k) {
      joins = strides[k][ndim_ - 1] == strides_[k][order[o]] * size;
    }
    if (joins) {
      sizes_[ndim_ - 1] *= size;
    } else {
      sizes_[ndim_++] = size;
    }
    for (int k = 0; k < arrays_; ++k) strides[k][ndim_ - 1] = strides_[k][order[o]];
  }
  if (ndim_ == 0) {  // one position, with neighbours that no one asks for
    sizes_[ndim_++] = 1;
    for (int k = 0; k < arrays_; ++k) strides[k][0] = 1;
  }
  for (int k = 0; k < arrays_; ++k) std::copy_n(strides[k], ndim_, strides_[k]);
}

inline bool Joint::splits(int vector) const {
  const int inner = ndim_ - 1;
  for (int k = 0; k < arrays_; ++k) {
    if (strides_[k][inner] != 1 && (k == 0 || strides_[k][inner] != 0)) return false;
    for (int d = 0; d < inner; ++d) {
      if (strides_[k][inner] == 1 && strides_[k][d] % vector != 0) return false;
    }
  }
  return inner == 0 || sizes_[inner] % vector == 0;
}

inline void Joint::split(int vector) {
  const int inner = ndim_ - 1;
  sizes_[inner] = (sizes_[inner] + vector - 1) / vector;
  for (int k = 0; k < arrays_; ++k) strides_[k][inner] *= vector;
}

inline Joint Joint::without(int a, int b) const {
  Joint rest = *this;
  rest.ndim_ = 0;
  for (int d = 0; d < ndim_; ++d) {
    if (d == a || d == b) continue;
    rest.sizes_[rest.ndim_] = sizes_[d];
    for (int k = 0; k < arrays_; ++k) rest.strides_[k][rest.ndim_] = strides_[k][d];
    ++rest.ndim_;
  }
  if (rest.ndim_ == 0) rest.sizes_[rest.ndim_++] = 1;
  return rest;
}

inline Walk Joint::walk() const {
  Walk walk;
  walk.ndim = ndim_;
  walk.count = static_cast<uint32_t>(count());
  for (int d = 0; d < ndim_; ++d) walk.sizes[d] = Divider(static_cast<uint32_t>(sizes_[d]));
  for (int k = 0; k < arrays_; ++k) std::copy_n(strides_[k], ndim_, walk.strides[k]);
  return walk;
}

}  // namespace hero::cuda
