#pragma once
// The gradient of a convolution's input in planes as products with shifted copies of that of its
// output. Where windows move by s, only every s-th place of the input, counted from some first one,
// is reached by the same taps: these places are a phase, along the rows and along the columns. Only
// core/cpu/nn/convolve*.cpp includes this.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/nn/conv_windows.h>

namespace hero::core::cpu {

/// Places first + stride * j along one axis, j in [0, count), and the taps that reach them, in
/// order: tap taps[i] meets the output's place places[i] + j, which may not exist.
struct AxisPhase {
  int64_t first, count;
  std::vector<int64_t> taps, places;
};

/// `of` describes a convolution, but for x, which is the gradient of its output, of sizes `size`;
/// `places` are the sizes of its input.
[[gnu::cold]] inline std::vector<AxisPhase> phases_along(const Convolution& of, int axis) {
  const int64_t stride = of.stride[axis];
  std::vector<AxisPhase> phases;
  for (int64_t first = 0; first < std::min(stride, of.places[axis]); ++first) {
    AxisPhase phase{first, (of.places[axis] - first + stride - 1) / stride, {}, {}};
    for (int64_t tap = 0; tap < of.kernel[axis]; ++tap) {
      const int64_t moved = first + of.padding[axis] - tap * of.dilation[axis];
      if (moved % stride != 0) continue;
      phase.taps.push_back(tap);
      phase.places.push_back(moved / stride);
    }
    phases.push_back(phase);
  }
  return phases;
}

[[gnu::cold]] inline int64_t reached_padding(const Convolution& of, int axis) {
  int64_t padding = 0;
  for (const AxisPhase& phase : phases_along(of, axis)) {
    for (const int64_t place : phase.places) {
      padding = std::max({padding, -place, place + phase.count - of.size[axis]});
    }
  }
  return padding;
}

/// Windows of a padded copy of x, one for each place of a phase: a chain of channels for each tap.
struct BackPhase {
  AxisPhase rows, columns;
  ShiftedRows windows;
  std::vector<int64_t> taps;  ///< kernel[2] * row + column

  int64_t places() const { return rows.count * columns.count; }
};

class BackPhases {
 public:
  explicit BackPhases(const Convolution& of);

  /// Of x, with as much padding as the taps reach, for windows that move by one.
  const Convolution& padded() const { return padded_; }
  const std::vector<BackPhase>& all() const { return all_; }
  /// Whether there is one phase, whose places are those of the input.
  bool is_one() const { return all_.size() == 1 && of_.stride[1] * of_.stride[2] == 1; }

  /// Elements of so many planes of the input's gradient.
  int64_t size(int64_t planes) const { return planes * of_.places[1] * of_.places[2]; }
  /// Where the results of each phase begin, [planes, places of the phase], one phase after the
  /// other.
  template <class T>
  std::vector<const T*> parts(int64_t planes, const T* begin) const {
    std::vector<const T*> all;
    for (const BackPhase& phase : all_) {
      all.push_back(begin);
      begin += planes * phase.places();
    }
    return all;
  }
  /// Calls body(phase, where its results begin).
  template <class T, class Body>
  void each(int64_t planes, T* begin, const Body& body) const {
    for (const BackPhase& phase : all_) {
      body(phase, begin);
      begin += planes * phase.places();
    }
  }

  /// y [planes, places..] from the planes of all phases, those of phase i at from[i].
  template <class T>
  void join(int64_t planes, const std::vector<const T*>& from, T* y) const;

 private:
  const Convolution& of_;
  Convolution padded_;
  std::vector<BackPhase> all_;
};

/// to [outputs, taps of the phase, pitch] from w [outputs, taps, pitch].
template <class T>
void gather_taps(const Convolution& of, const BackPhase& phase, int64_t pitch, const T* w, T* to) {
  for (int64_t output = 0; output < of.outputs; ++output) {
    for (const int64_t tap : phase.taps) {
      std::copy_n(w + (output * of.taps() + tap) * pitch, pitch, to);
      to += pitch;
    }
  }
}

[[gnu::cold]] inline BackPhases::BackPhases(const Convolution& of) : of_(of), padded_(of) {
  for (int axis = 0; axis < 3; ++axis) {
    padded_.padding[axis] = reached_padding(of, axis);
    padded_.stride[axis] = 1;
  }
  const PaddedImage image = padded_image_of(padded_);
  const int64_t channels = of.channels / of.groups;
  for (const AxisPhase& rows : phases_along(of, 1)) {
    for (const AxisPhase& columns : phases_along(of, 2)) {
      BackPhase phase{rows, columns, {}, {}};
      phase.windows.width = columns.count;
      for (int64_t j = 0; j < rows.count; ++j) phase.windows.rows.push_back(j * image.line());
      for (size_t y = 0; y < rows.taps.size(); ++y) {
        for (size_t x = 0; x < columns.taps.size(); ++x) {
          phase.taps.push_back(rows.taps[y] * of.kernel[2] + columns.taps[x]);
          const int64_t begin = (rows.places[y] + padded_.padding[1]) * image.line() +
                                columns.places[x] + padded_.padding[2];
          for (int64_t c = 0; c < channels; ++c) {
            phase.windows.steps.push_back(c * image.channel() + begin);
          }
        }
      }
      all_.push_back(std::move(phase));
    }
  }
}

template <class T>
void BackPhases::join(int64_t planes, const std::vector<const T*>& from, T* y) const {
  const int64_t height = of_.places[1], width = of_.places[2], step = of_.stride[2];
  const auto across = static_cast<size_t>(std::min(step, width));
  parallel_for(planes * height, std::max<int64_t>(1, kGrain / width),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t plane = row / height, h = row % height;
                   const auto lines = static_cast<size_t>(h % of_.stride[1]) * across;
                   const auto line_of = [&](size_t i) {
                     const BackPhase& phase = all_[lines + i];
                     return from[lines + i] + plane * phase.places() +
                            h / of_.stride[1] * phase.columns.count;
                   };
                   T* const to = y + row * width;
                   if (step == 2 && across == 2) {  // a loop that the compiler makes vectors of
                     const T *const even = line_of(0), *const odd = line_of(1);
#pragma GCC ivdep
                     for (int64_t x = 0; x < width / 2; ++x) {
                       to[2 * x] = even[x];
                       to[2 * x + 1] = odd[x];
                     }
                     if (width % 2 != 0) to[width - 1] = even[width / 2];
                     continue;
                   }
                   for (size_t i = 0; i < across; ++i) {
                     const T* const line = line_of(i);
                     const int64_t count = all_[lines + i].columns.count;
                     for (int64_t x = 0; x < count; ++x)
                       to[static_cast<int64_t>(i) + x * step] = line[x];
                   }
                 }
               });
}

}  // namespace hero::core::cpu
