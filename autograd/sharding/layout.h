#pragma once
// Layouts: which elements of a row-major array belong to a part. A part is an interval of the
// elements of some boxes, counted through one box after the other, and consists of contiguous runs
// of the array.
#include <cstdint>
#include <string>
#include <vector>

#include <hero/core/dims.h>

namespace hero {

/// A box of a larger array, with the same number of dimensions: its elements are those at offset[d]
/// to offset[d] + extent[d] - 1 in every dimension d, in row-major order.
struct Box {
  Shape offset, extent;

  friend bool operator==(const Box&, const Box&) = default;
};

namespace layout {

/// Elements whole to whole + count - 1 of an array, which are elements part to part + count - 1 of
/// a part of it.
struct Run {
  int64_t whole = 0, part = 0, count = 0;

  friend bool operator==(const Run&, const Run&) = default;
};

/// True when the box has the dimensions of `whole` and lies in it.
bool is_inside(const Shape& whole, const Box& box);

/// Throws an Error that names `op` and the box if a box does not lie in an array of shape `whole`,
/// or two boxes share elements.
void check_boxes(const char* op, const Shape& whole, const std::vector<Box>& boxes);

/// The number of elements of all boxes together, or of the whole array if there are no boxes.
/// Throws an Error if it is 2^63 or more.
int64_t numel(const Shape& whole, const std::vector<Box>& boxes);

/// "0:13,2:3;0:13,5:1": offset and extent of each dimension, of each box.
std::string text(const std::vector<Box>& boxes);

/// Gives the contiguous runs of a part, in the order of the part, each as long as possible, one at
/// a time, since a part may have many. The part is elements first to first + count - 1 of the boxes
/// of an array of shape `whole`, one box after the other, each row-major; without boxes, of the
/// array. Throws an Error if a box or the interval lies outside.
class Runs {
 public:
  Runs(const Shape& whole, std::vector<Box> boxes, int64_t first, int64_t count);
  /// Sets `run` to the next run, which is not empty. Returns false if there is none.
  bool next(Run& run);

 private:
  void enter(size_t box);
  Run step();

  Shape whole_;
  Dims strides_;
  std::vector<Box> boxes_;
  size_t box_ = 0;    // the box that the next run lies in
  int64_t size_ = 0;  // the elements of that box
  int outer_ = 0;     // dimensions before those that a line spans
  int64_t line_ = 1;  // elements of the box that lie side by side in the array
  int64_t at_ = 0;    // the next element of the box
  int64_t left_ = 0;  // elements of the part that are still to come
  int64_t part_ = 0;  // the next element of the part
  Run ahead_;         // the run after the one that was returned last; count 0: not known
};

}  // namespace layout

}  // namespace hero
