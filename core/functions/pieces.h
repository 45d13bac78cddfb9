#pragma once
// Pieces: many arrays as one line of elements, to divide work on them among threads.
#include <algorithm>
#include <cstdint>

#include <hero/core/array/inline_vector.h>

namespace hero::core {

/// Arrays one after the other, each of which begins at a multiple of 64 elements. If this line is
/// cut into equal chunks, regardless of the arrays' ends, many small arrays keep all threads as
/// busy as one large array.
class Pieces {
 public:
  /// Puts one more array, of n elements, at the end of the line.
  void append(int64_t n) {
    arrays_.push_back({length_, n});
    length_ += (n + kAlign - 1) / kAlign * kAlign;
  }
  /// Returns the length of the line in elements, the gaps between arrays included.
  int64_t length() const { return length_; }
  /// Calls body(i, from, to) for the elements from ... to - 1 of each array i that lies on
  /// [begin, end) of the line.
  template <class Body>
  void each(int64_t begin, int64_t end, const Body& body) const {
    auto at = std::upper_bound(arrays_.begin(), arrays_.end(), begin,
                               [](int64_t place, const Placed& a) { return place < a.first; });
    for (--at; at != arrays_.end() && at->first < end; ++at) {
      const int64_t from = std::max<int64_t>(begin - at->first, 0);
      const int64_t to = std::min(end - at->first, at->size);
      if (from < to) body(static_cast<size_t>(at - arrays_.begin()), from, to);
    }
  }

 private:
  static constexpr int64_t kAlign = 64;
  struct Placed {
    int64_t first, size;
  };
  InlineVector<Placed, 4> arrays_;  // few arrays need no heap memory
  int64_t length_ = 0;
};

}  // namespace hero::core
