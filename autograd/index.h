#pragma once
// Indexing as Python writes it: x({Slice(0, 2), None, Ellipsis, mask}) is x[0:2, None, ..., mask].
#include <variant>

#include <hero/autograd/ops.h>

namespace hero {

/// Stands for a new dimension of size 1, or for a bound of a Slice that is left out.
struct NoneType {};
inline constexpr NoneType None{};

/// Stands for as many whole dimensions as the other indices leave over.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};

/// Stands for start:stop:step of a dimension. Negative bounds count from the end, and bounds are
/// limited to the dimension. A negative step goes backwards from start, in a copy; PyTorch does not
/// support it.
struct Slice {
  /// A position, or None.
  class Bound {
   public:
    Bound(NoneType) {}
    template <DimNumber I>
    Bound(I at) : at_(static_cast<int64_t>(at)) {}
    const std::optional<int64_t>& at() const { return at_; }

   private:
    std::optional<int64_t> at_;
  };

  /// Makes a slice, by default of the whole dimension.
  Slice(Bound from = None, Bound to = None, int64_t by = 1) : start(from), stop(to), step(by) {}

  Bound start, stop;  ///< the bounds
  int64_t step = 1;   ///< elements from one to the next; not 0
};

/// One of the indices in x({..}): a position (a negative one counts from the end), a Slice, None,
/// Ellipsis, a bool (a new dimension of size 1 or 0), a tensor of positions (int64 or int32), or a
/// mask. A tensor without dimensions is a position.
class Index {
 public:
  using Kind = std::variant<int64_t, Slice, NoneType, EllipsisType, bool, Tensor>;

  template <DimNumber I>
  Index(I position) : kind_(static_cast<int64_t>(position)) {}
  Index(std::same_as<bool> auto one) : kind_(bool{one}) {}
  Index(const Slice& slice) : kind_(slice) {}
  Index(NoneType none) : kind_(none) {}
  Index(EllipsisType rest) : kind_(rest) {}
  Index(const Tensor& tensor) : kind_(tensor) {}
  const Kind& kind() const { return kind_; }

 private:
  Kind kind_;
};

// Tensor::operator() takes them: numbers drop a dimension, slices and None give views, and tensors
// broadcast together; their common shape takes the place of the dimensions that they index where
// these are neighbours, and else comes first. index_put() and index_put_() write to what it reads.

}  // namespace hero
