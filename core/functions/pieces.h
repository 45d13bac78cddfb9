#pragma once
// Many arrays as one line of elements, for work that is shared out among threads.
#include <algorithm>
#include <cstdint>

#include <hero/core/array/inline_vector.h>

namespace hero::core {

/// Arrays one behind the other, each from a multiple of 64 elements on. Cut into chunks wherever it
/// falls, such a line keeps all threads busy with many small arrays as with one large one.
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
  InlineVector<Placed, 4> arrays_;  // few arrays need no memory of the heap
  int64_t length_ = 0;
};

}  // namespace hero::core
