#pragma once
// Where the windows of a convolution lie in a padded copy of the image. A step from one tap to the
// next is the same for all windows there, and windows of a line lie side by side. If they move by
// more than one column, the columns of a line are sorted by their remainder first, which brings
// neighbours together again. Only core/cpu/nn/convolve*.cpp includes this.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm_shifted.h>

namespace hero::core::cpu {

// An image [C, D, H, W] with its padding.
struct PaddedImage {
  int64_t depth, height, stride, phase;  // columns x = stride i + r at r phase + i

  int64_t line() const { return stride * phase; }
  int64_t plane() const { return height * line(); }
  int64_t channel() const { return depth * plane(); }
  int64_t column(int64_t x) const { return x % stride * phase + x / stride; }
};

inline PaddedImage padded_of(const int64_t (&size)[3], const int64_t (&padding)[3],
                             int64_t stride) {
  const int64_t width = size[2] + 2 * padding[2];
  return {size[0] + 2 * padding[0], size[1] + 2 * padding[1], stride,
          (width + stride - 1) / stride};
}

inline PaddedImage padded_image_of(const Convolution& of) {
  return padded_of(of.size, of.padding, of.stride[2]);
}

// memcpy for lines of an image, which are too short for a call of it.
[[gnu::always_inline]] inline void copy_short(int64_t bytes, const void* from_in, void* to_in) {
  const auto* const from = static_cast<const std::byte*>(from_in);
  auto* const to = static_cast<std::byte*>(to_in);
  const auto both_ends = [=](auto size) __attribute__((always_inline)) {
    std::byte first[size], last[size];
    std::memcpy(first, from, size);
    std::memcpy(last, from + bytes - size, size);
    std::memcpy(to, first, size);
    std::memcpy(to + bytes - size, last, size);
  };
  if (bytes > 256) return void(std::memcpy(to, from, static_cast<size_t>(bytes)));
  if (bytes >= 64) {
    for (int64_t at = 0; at + 64 < bytes; at += 64) std::memcpy(to + at, from + at, 64);
    return void(std::memcpy(to + bytes - 64, from + bytes - 64, 64));
  }
  if (bytes >= 32) return both_ends(std::integral_constant<int64_t, 32>{});
  if (bytes >= 16) return both_ends(std::integral_constant<int64_t, 16>{});
  if (bytes >= 8) return both_ends(std::integral_constant<int64_t, 8>{});
  for (int64_t at = 0; at < bytes; ++at) to[at] = from[at];
}

// Copies of all images with zeros around them, in turn planes of all channels.
template <class T>
class PaddedCopies {
 public:
  [[gnu::noinline]] explicit PaddedCopies(const Convolution& of)
      : of_(of), image_(padded_image_of(of)), room_(of.images * each() + kBehind<T>) {
    for (int64_t r = 0; r < image_.stride; ++r) {
      const auto reaching = [&](int64_t x) {
        return x > r ? std::min(image_.phase, (x - r + image_.stride - 1) / image_.stride) : 0;
      };
      const int64_t first = reaching(of.padding[2]), last = reaching(of.padding[2] + of.size[2]);
      phases_.push_back({first, last, first * image_.stride + r - of.padding[2]});
    }
    const int64_t channel = image_.channel(), planes = of.images * of.channels;
    std::fill_n(room_.data() + planes * channel, kBehind<T>, T(0));
    parallel_for(planes, std::max<int64_t>(1, kGrain / channel), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        T* const to = room_.data() + p * channel;
        const int64_t n = p / of.channels, c = p % of.channels;
        copy(static_cast<const T*>(of.x) + n * of.x_strides[0] + c * of.x_strides[1], to);
      }
    });
  }

  const PaddedImage& image() const { return image_; }
  const T* data() const { return room_.data(); }
  int64_t each() const { return of_.channels * image_.channel(); }

 private:
  void copy(const T* from, T* to) const {
    if (of_.stride[2] == 1 && of_.x_strides[4] == 1) return copy_whole_lines(from, to);
    T* at = to;
    for (int64_t d = 0; d < of_.size[0]; ++d) {
      for (int64_t h = 0; h < of_.size[1]; ++h) {
        T* const line =
            to + (d + of_.padding[0]) * image_.plane() + (h + of_.padding[1]) * image_.line();
        std::fill(at, line, T(0));
        copy_line(from + d * of_.x_strides[2] + h * of_.x_strides[3], line);
        at = line + image_.line();
      }
    }
    std::fill(at, to + image_.channel(), T(0));
  }
  // Lines that lie in the copy as they do in the image. They are written one after the other, so
  // the zeros between them may be whole vectors, over the beginning of the next line.
  void copy_whole_lines(const T* from, T* to) const {
    constexpr int64_t kLanes = 64 / sizeof(T);
    const int64_t width = of_.size[2];
    T* const end = to + image_.channel();
    T* at = to;
    for (int64_t d = 0; d < of_.size[0]; ++d) {
      for (int64_t h = 0; h < of_.size[1]; ++h) {
        T* const line = to + (d + of_.padding[0]) * image_.plane() +
                        (h + of_.padding[1]) * image_.line() + of_.padding[2];
        if (line - at <= kLanes && kLanes <= end - at) {
          std::memset(at, 0, 64);
        } else {
          std::fill(at, line, T(0));
        }
        copy_short(width * int64_t{sizeof(T)}, from + d * of_.x_strides[2] + h * of_.x_strides[3],
                   line);
        at = line + width;
      }
    }
    std::fill(at, end, T(0));
  }
  // Columns x = stride i + r of a line, for one r after the other: elements first .. last of each
  // lie in the image, where the first of them is column `from`.
  struct Phase {
    int64_t first, last, from;
  };
  void copy_line(const T* from, T* to) const {
    const int64_t step = of_.x_strides[4], move = image_.stride * step;
    for (const Phase& phase : phases_) {
      const T* const line = from + phase.from * step;
      const int64_t count = phase.last - phase.first;
      T* const target = to + phase.first;
      std::fill(to, target, T(0));
      if (move == 1) {
        std::memcpy(target, line, static_cast<size_t>(count) * sizeof(T));
      } else if (move == 2) {  // loops over a stride that the compiler knows become vectors
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) target[i] = line[2 * i];
      } else {
        for (int64_t i = 0; i < count; ++i) target[i] = line[i * move];
      }
      std::fill(target + count, to + image_.phase, T(0));
      to += image_.phase;
    }
  }

  const Convolution& of_;
  PaddedImage image_;
  std::vector<Phase> phases_;
  Workspace<T> room_;
};

/// Calls body(copies, first, count) for of.at_once images [first, first + count) at a time.
template <class T, class Body>
void each_copies(const Convolution& of, Body&& body) {
  for (int64_t first = 0; first < of.images; first += of.at_once) {
    Convolution part = of;
    part.images = std::min(of.at_once, of.images - first);
    part.x = static_cast<const T*>(of.x) + first * of.x_strides[0];
    body(PaddedCopies<T>(part), first, part.images);
  }
}

[[gnu::cold]] inline void set_rows(const Convolution& of, const PaddedImage& image,
                                   ShiftedRows& rows) {
  rows.width = of.places[2];
  for (int64_t d = 0; d < of.places[0]; ++d) {
    for (int64_t h = 0; h < of.places[1]; ++h) {
      rows.rows.push_back(d * of.stride[0] * image.plane() + h * of.stride[1] * image.line());
    }
  }
}

[[gnu::cold]] inline ShiftedRows windows_of(const Convolution& of, const PaddedImage& image) {
  ShiftedRows rows;
  set_rows(of, image, rows);
  for (int64_t kd = 0; kd < of.kernel[0]; ++kd) {
    for (int64_t c = 0; c < of.channels; ++c) {
      for (int64_t kh = 0; kh < of.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < of.kernel[2]; ++kw) {
          rows.steps.push_back(c * image.channel() + kd * of.dilation[0] * image.plane() +
                               kh * of.dilation[1] * image.line() +
                               image.column(kw * of.dilation[2]));
        }
      }
    }
  }
  return rows;
}

}  // namespace hero::core::cpu
