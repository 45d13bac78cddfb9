#pragma once
// Which elements of a value somebody holds, as text in the files of a checkpoint, and whether what
// several hold is the whole.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hero/autograd/sharding/layout.h>
#include <hero/core/dtype.h>

namespace hero::dist {

/// Elements first ... first + count - 1 of boxes of a row-major array of shape `whole`, laid one
/// behind the other; without boxes, of the array.
struct ShardRange {
  Shape whole;
  std::vector<Box> boxes = {};
  int64_t first = 0;
  int64_t count = 0;

  /// All elements in the order of the array.
  bool is_whole() const { return boxes.empty() && count == whole.numel(); }
  layout::Runs runs() const { return {whole, boxes, first, count}; }
};

/// What a file holds of one value.
struct SavedPart {
  DType dtype = kFloat32;
  ShardRange range;
};

/// The values of a file, by name.
using FileIndex = std::map<std::string, SavedPart>;

/// The same elements without boxes, where there are none or they lie side by side in the array: so
/// that what is an interval has one text, however it was cut.
ShardRange simplest(ShardRange range);

/// "45 of 13,7": elements from the 45th on of an array of shape [13, 7]; "45 of 13,7 in
/// 0:13,2:3;0:13,6:1": of these boxes of it (offset and extent of each dimension).
std::string place_text(const ShardRange& range);

/// What a text of place_text() says of `count` elements; nothing where it says something else, or
/// where so many elements have no place there.
std::optional<ShardRange> parse_place(std::string_view text, int64_t count);

/// "21@45 of 13,7": 21 elements and their place.
std::string part_text(const ShardRange& range);
/// What part_text() wrote; nothing where a text says something else.
std::optional<ShardRange> parse_part(std::string_view text);

/// "" where the ranges together are the array of shape `whole`, each element once; else what is
/// wrong first: "overlap at element 7", "leave a hole at element 7", "end at element 7 of 91".
std::string cover_fault(const Shape& whole, const std::vector<const ShardRange*>& ranges);

}  // namespace hero::dist
