#pragma once
// ShardRange: the elements of a value that a rank holds, as text in the files of a checkpoint, and
// a check that several ranges make up the whole value.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hero/autograd/sharding/layout.h>
#include <hero/core/dtype.h>

namespace hero::dist {

/// Elements first ... first + count - 1 of the concatenated boxes of a row-major array of shape
/// `whole`; without boxes, of the array.
struct ShardRange {
  Shape whole;
  std::vector<Box> boxes = {};
  int64_t first = 0;
  int64_t count = 0;

  /// All elements in the order of the array.
  bool is_whole() const { return boxes.empty() && count == whole.numel(); }
  layout::Runs runs() const { return {whole, boxes, first, count}; }
};

/// The part of one value that a file holds.
struct SavedPart {
  DType dtype = kFloat32;
  ShardRange range;
};

/// The values of a file, by name.
using FileIndex = std::map<std::string, SavedPart>;

/// The same elements without boxes, if they are contiguous in the array, so that an interval has
/// one text, however it was cut.
ShardRange simplest(ShardRange range);

/// "45 of 13,7": elements from the 45th on of an array of shape [13, 7]; "45 of 13,7 in
/// 0:13,2:3;0:13,6:1": of these boxes of it (offset and extent of each dimension).
std::string place_text(const ShardRange& range);

/// Parses a text of place_text() for `count` elements; nothing if the text is not valid, or if
/// there is no room for so many elements.
std::optional<ShardRange> parse_place(std::string_view text, int64_t count);

/// "21@45 of 13,7": 21 elements and their place.
std::string part_text(const ShardRange& range);
/// Parses a text of part_text(); nothing if it is not valid.
std::optional<ShardRange> parse_part(std::string_view text);

/// Returns "" if the ranges together contain each element of the array of shape `whole` once;
/// otherwise the first fault: "overlap at element 7", "leave a hole at element 7", "end at element
/// 7 of 91".
std::string cover_fault(const Shape& whole, const std::vector<const ShardRange*>& ranges);

}  // namespace hero::dist
