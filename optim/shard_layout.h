#pragma once
// ShardLayout: which elements of a whole parameter a local array holds, and how such an array is
// cut anew when the layout changes.
#include <string>
#include <vector>

#include <hero/autograd/sharding/layout.h>
#include <hero/autograd/tensor.h>

namespace hero::optim {

/// The elements of a parameter that a leaf held when the layout was taken: elements first to first
/// + shape.numel() - 1 of the boxes of a parameter of shape `whole`; see Partition.
struct ShardLayout {
  Shape shape;                  ///< shape of the leaf
  Shape whole;                  ///< shape of the whole parameter
  std::vector<Box> boxes = {};  ///< as in the leaf's partition
  int64_t first = 0;            ///< as in the leaf's partition

  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// The elements that a leaf holds now.
ShardLayout shard_layout_of(const Tensor& leaf);
/// True if a leaf holds these elements now, in this shape.
bool has_layout(const ShardLayout& layout, const Tensor& leaf);
/// True if two leaves hold the same elements, in the same shape.
bool is_same_place(const Tensor& a, const Tensor& b);
/// "elements 0 to 11 of a parameter of shape [6, 4]", for messages.
std::string describe(const ShardLayout& layout);

/// True if an array with the elements `then` of a parameter has all elements `now`.
bool covers(const ShardLayout& then, const ShardLayout& now);
/// The elements `now` of an array of shape then.shape that has the elements `then`, contiguous in
/// now.shape. It shares memory if these are the same elements, and has memory of its own if not.
/// Throws an Error unless covers(then, now).
Array recut(const Array& array, const ShardLayout& then, const ShardLayout& now);

}  // namespace hero::optim
