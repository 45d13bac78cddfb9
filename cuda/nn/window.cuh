#pragma once
// Sliding windows over planes [H, W] with 32-bit indices: the positions of taps, and the windows
// that contain an element. Kernels process the planes of an array in pieces that 32 bits can count.
#include <hero/core/device/backend.h>
#include <hero/cuda/elementwise/walk.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

/// A window along one dimension of the input.
struct Axis {
  int size = 1;    ///< elements of the input
  int places = 1;  ///< positions of the window
  int kernel, padding, dilation;
  Divider stride;

  /// axis 0: rows, 1: columns of the planes `input`, at the places of `pooled`.
  Axis(const core::Window& window, int axis, int64_t input, int64_t pooled)
      : size(static_cast<int>(input)),
        places(static_cast<int>(pooled)),
        kernel(static_cast<int>(window.kernel[axis])),
        padding(static_cast<int>(window.padding[axis])),
        dilation(static_cast<int>(window.dilation[axis])),
        stride(static_cast<uint32_t>(window.stride[axis])) {
    for (const int64_t number : {input, pooled, window.kernel[axis], window.padding[axis],
                                 window.dilation[axis], window.stride[axis]}) {
      check(number < (1 << 20), "window: sizes of a million and more are not for cuda: ", number,
            "; compute it on cpu");
    }
  }
  /// Position of tap 0 at a place; may be outside.
  HERO_HD int start(int place) const { return place * static_cast<int>(stride.divisor) - padding; }
  /// Taps before `bound`, given where tap 0 lies.
  HERO_HD int taps_below(int bound, int start) const {
    const int room = bound - start;
    const int taps = room <= 0 ? 0 : dilation == 1 ? room : (room + dilation - 1) / dilation;
    return taps < kernel ? taps : kernel;
  }
  /// Places [first, last) some tap of which may see position `at`; sees() says
  /// whether one does.
  HERO_HD int first_place(int at) const {
    const int before = at + padding - (kernel - 1) * dilation;
    return before <= 0
               ? 0
               : static_cast<int>(stride(static_cast<uint32_t>(before) + stride.divisor - 1));
  }
  HERO_HD int last_place(int at) const {
    const int past = static_cast<int>(stride(static_cast<uint32_t>(at + padding))) + 1;
    return past < places ? past : places;
  }
  HERO_HD bool sees(int place, int at) const {
    return dilation == 1 || (at - start(place)) % dilation == 0;
  }
  /// Whether at some position of the window no tap is inside the input.
  bool has_empty_places() const {
    for (int place = 0; place < places; ++place) {
      if (taps_below(0, start(place)) >= taps_below(size, start(place))) return true;
    }
    return false;
  }
};

/// The planes of an array [N, C, H, W] by its strides.
template <class T>
struct Planes {
  T* data;
  int64_t image, channel, row, column;
  Divider channels;

  explicit Planes(const Array& x)
      : data(reinterpret_cast<T*>(x.bytes())),
        image(x.strides()[0]),
        channel(x.strides()[1]),
        row(x.strides()[2]),
        column(x.strides()[3]),
        channels(static_cast<uint32_t>(x.shape()[1])) {}
  HERO_HD T* plane(uint32_t p) const {
    const uint32_t n = channels(p);
    return data + n * image + (p - n * channels.divisor) * channel;
  }
};

/// Calls body(first, count) for runs of `parts` parts that have `each` elements
/// each: the first part and the elements, few enough for 32 bits.
template <class Body>
void each_run(const char* op, int64_t parts, int64_t each, const Body& body) {
  check(each <= kMaxPositions, op, ": ", each,
        " elements in one part (an image plane with all taps, or a row) are "
        "too many for cuda; "
        "compute it on cpu");
  const int64_t run = std::max<int64_t>(1, kMaxPositions / each);
  for (int64_t first = 0; first < parts; first += run) {
    body(static_cast<uint32_t>(first), static_cast<uint32_t>(std::min(run, parts - first) * each));
  }
}

}  // namespace hero::cuda
