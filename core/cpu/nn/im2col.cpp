// Columns of windows, with which a convolution is a matrix product, and the reverse.
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/nn/window.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// What one row of the columns [N, C * kh * kw, oh * ow] is made of.
struct ColumnRow {
  int64_t plane, ky, kx;

  ColumnRow(const Window& window, int64_t row)
      : plane(row / (window.kernel[0] * window.kernel[1])),
        ky(row / window.kernel[1] % window.kernel[0]),
        kx(row % window.kernel[1]) {}
};

// The places [first, last) along `axis` at which tap `tap` lies inside an input of `size`, of
// `count` places.
struct Span {
  int64_t first, last;
};
Span inside(const Window& window, int axis, int64_t tap, int64_t size, int64_t count) {
  const int64_t offset = tap * window.dilation[axis] - window.padding[axis];
  const int64_t stride = window.stride[axis];
  const int64_t first = offset < 0 ? std::min(count, (-offset + stride - 1) / stride) : 0;
  const int64_t last = std::clamp<int64_t>((size - offset + stride - 1) / stride, 0, count);
  return {first, std::max(first, last)};
}

// Calls step(at, size) for pieces that make up `bytes`, with sizes known to the compiler: runs are
// short, and a call for each would cost more than the run.
template <class Step>
void in_pieces(size_t bytes, Step&& step) {
  size_t at = 0;
  for (; at + 32 <= bytes; at += 32) step(at, std::integral_constant<size_t, 32>());
  const auto rest = [&](auto size) {
    if ((bytes & size) == 0) return;
    step(at, size);
    at += size;
  };
  rest(std::integral_constant<size_t, 16>());
  rest(std::integral_constant<size_t, 8>());
  rest(std::integral_constant<size_t, 4>());
  rest(std::integral_constant<size_t, 2>());
  rest(std::integral_constant<size_t, 1>());
}

template <class T>
void copy_run(const T* from, int64_t count, T* to) {
  const auto* source = reinterpret_cast<const std::byte*>(from);
  auto* target = reinterpret_cast<std::byte*>(to);
  in_pieces(static_cast<size_t>(count) * sizeof(T),
            [=](size_t at, auto size) { std::memcpy(target + at, source + at, size); });
}

template <class T>
void clear_run(T* to, int64_t count) {
  auto* target = reinterpret_cast<std::byte*>(to);
  in_pieces(static_cast<size_t>(count) * sizeof(T),
            [=](size_t at, auto size) { std::memset(target + at, 0, size); });
}

// Windows that move by one and have as many places in a row as the input: a row of the columns is
// the plane moved by one offset, with zeros where a tap lies outside.
template <class T>
void moved_plane(const Plane<const T>& plane, int64_t offset, int64_t width, const Span& ys,
                 const Span& xs, int64_t places, T* to) {
  if (ys.first == ys.last || xs.first == xs.last) {
    return clear_run(to, places);
  }
  const int64_t first = ys.first * width + xs.first, last = (ys.last - 1) * width + xs.last;
  clear_run(to, first);
  std::memcpy(to + first, plane.data + first + offset,
              static_cast<size_t>(last - first) * sizeof(T));
  clear_run(to + last, places - last);
  for (int64_t y = ys.first; y < ys.last; ++y) {
    for (int64_t x = 0; x < xs.first; ++x) to[y * width + x] = T();
    for (int64_t x = xs.last; x < width; ++x) to[y * width + x] = T();
  }
}

template <class T>
void im2col_as(const Array& x, const Window& window, const Array& out) {
  const int64_t height = x.shape()[2], width = x.shape()[3];
  const int64_t oh = window.places(0, height), ow = window.places(1, width);
  const int64_t per_image = out.shape()[1], step = out.strides()[2];
  const int64_t grain = std::max<int64_t>(1, kGrain / (oh * ow));
  const bool moves = step == 1 && window.stride[0] == 1 && window.stride[1] == 1 && ow == width &&
                     x.strides()[2] == width && x.strides()[3] == 1;
  parallel_for(out.shape()[0] * per_image, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const ColumnRow part(window, row);
      const Plane<const T> plane(x, part.plane);
      const Span ys = inside(window, 0, part.ky, height, oh);
      const Span xs = inside(window, 1, part.kx, width, ow);
      T* target = reinterpret_cast<T*>(out.bytes()) + row / per_image * out.strides()[0] +
                  row % per_image * out.strides()[1];
      if (moves) {
        const int64_t down = part.ky * window.dilation[0] - window.padding[0];
        const int64_t right = part.kx * window.dilation[1] - window.padding[1];
        moved_plane(plane, down * width + right, width, ys, xs, oh * ow, target);
        continue;
      }
      for (int64_t oy = 0; oy < oh; ++oy, target += ow * step) {
        const bool in = oy >= ys.first && oy < ys.last;
        const Span run = in ? xs : Span{ow, ow};
        for (int64_t ox = 0; ox < run.first; ++ox) target[ox * step] = T();
        for (int64_t ox = run.last; ox < ow; ++ox) target[ox * step] = T();
        if (run.first == run.last) continue;
        const int64_t iy = oy * window.stride[0] - window.padding[0] + part.ky * window.dilation[0];
        const int64_t ix =
            run.first * window.stride[1] - window.padding[1] + part.kx * window.dilation[1];
        const T* from = &plane.at(iy, ix);
        const int64_t from_step = plane.column_stride * window.stride[1];
        T* to = target + run.first * step;
        const int64_t count = run.last - run.first;
        if (step == 1 && from_step == 1) {
          copy_run(from, count, to);
        } else {
          for (int64_t i = 0; i < count; ++i) to[i * step] = from[i * from_step];
        }
      }
    }
  });
}

// Adds the row of one tap into a plane of sums.
template <class T, class C>
void add_row(const Array& columns, const Window& window, int64_t row, const Shape& shape, C* sums) {
  const int64_t height = shape[2], width = shape[3];
  const int64_t oh = window.places(0, height), ow = window.places(1, width);
  const int64_t per_image = columns.shape()[1], step = columns.strides()[2];
  const ColumnRow part(window, row);
  const Span ys = inside(window, 0, part.ky, height, oh);
  const Span xs = inside(window, 1, part.kx, width, ow);
  const T* from = reinterpret_cast<const T*>(columns.bytes()) +
                  row / per_image * columns.strides()[0] + row % per_image * columns.strides()[1];
  for (int64_t oy = ys.first; oy < ys.last; ++oy) {
    const int64_t iy = oy * window.stride[0] - window.padding[0] + part.ky * window.dilation[0];
    const int64_t at = iy * width + part.kx * window.dilation[1] - window.padding[1];
    const T* line_from = from + oy * ow * step;
#pragma GCC ivdep
    for (int64_t ox = xs.first; ox < xs.last; ++ox) {
      C& sum = sums[at + ox * window.stride[1]];
      sum = static_cast<C>(sum + convert<C>(line_from[ox * step]));
    }
  }
}

template <class T>
void col2im_as(const Array& columns, const Window& window, const Array& out) {
  using C = Compute<T>;
  const int64_t height = out.shape()[2], width = out.shape()[3];
  const int64_t taps = window.kernel[0] * window.kernel[1];
  const int64_t work = columns.shape()[2] * taps + height * width;
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  parallel_for(out.shape()[0] * out.shape()[1], grain, [&](int64_t begin, int64_t end) {
    std::vector<C> sums(static_cast<size_t>(height * width));
    for (int64_t p = begin; p < end; ++p) {
      std::fill(sums.begin(), sums.end(), C(0));
      for (int64_t tap = 0; tap < taps; ++tap) {
        add_row<T>(columns, window, p * taps + tap, out.shape(), sums.data());
      }
      const Plane<T> plane(out, p);
      const C* sum = sums.data();
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) plane.at(y, x) = convert<T>(*sum++);
      }
    }
  });
}

}  // namespace

void CpuBackend::run(const call::Im2col& call) {
  if (call.out.numel() == 0) return;
  dispatch(call.x.dtype(),
           [&]<class T>(TypeTag<T>) { im2col_as<T>(call.x, call.window, call.out); });
}

void CpuBackend::run(const call::Col2im& call) {
  if (call.out.numel() == 0) return;
  if (call.columns.numel() == 0) return run(call::Fill{call.out, 0});
  dispatch(call.out.dtype(),
           [&]<class T>(TypeTag<T>) { col2im_as<T>(call.columns, call.window, call.out); });
}

}  // namespace hero::core::cpu
