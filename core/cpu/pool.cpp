// Pooling: planes of H * W are independent, and threads share them.
#include <limits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/window.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Calls body(plane, place_y, place_x, taps_y, taps_x) for every place of every plane of the pooled
// array.
template <class Body>
void each_place(const Array& pooled, const Shape& image, const Window& window, int64_t begin,
                int64_t end, Body&& body) {
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t y = 0; y < pooled.shape()[2]; ++y) {
      const Taps rows = taps_at(window, 0, y, image[2]);
      for (int64_t x = 0; x < pooled.shape()[3]; ++x) {
        body(p, y, x, rows, taps_at(window, 1, x, image[3]));
      }
    }
  }
}

int64_t planes_grain(const Array& pooled, const Window& window) {
  const int64_t work = pooled.shape()[2] * pooled.shape()[3] * window.kernel[0] * window.kernel[1];
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
}

// What an average divides by.
template <class C>
C divisor(const Window& window, const Taps& rows, const Taps& columns) {
  const int64_t count = window.count_padding
                            ? rows.counted * columns.counted
                            : (rows.last - rows.first) * (columns.last - columns.first);
  return static_cast<C>(std::max<int64_t>(count, 1));
}

template <class C>
constexpr C lowest() {
  return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                              : std::numeric_limits<C>::lowest();
}

// The first largest element in row-major order, the first NaN if there is one. A window without any
// element gives -inf and position 0.
template <class T>
void max_pool(const Array& x, const Window& window, const Array& out, const Array* indices,
              int64_t begin, int64_t end) {
  using C = Compute<T>;
  each_place(out, x.shape(), window, begin, end,
             [&](int64_t p, int64_t y, int64_t x_place, const Taps& rows, const Taps& columns) {
               const Plane<const T> plane(x, p);
               C best = lowest<C>();
               int64_t best_at = -1;
               for (int64_t i = rows.first; i < rows.last; ++i) {
                 const int64_t row = rows.start + i * window.dilation[0];
                 for (int64_t j = columns.first; j < columns.last; ++j) {
                   const int64_t column = columns.start + j * window.dilation[1];
                   const C value = convert<C>(plane.at(row, column));
                   const bool nan = value != value && best == best;
                   if (value > best || nan || best_at < 0) {
                     best = value;
                     best_at = row * x.shape()[3] + column;
                   }
                 }
               }
               Plane<T>(out, p).at(y, x_place) = convert<T>(best);
               if (indices) {
                 Plane<int64_t>(*indices, p).at(y, x_place) = std::max<int64_t>(best_at, 0);
               }
             });
}

// The same for windows of two by two side by side, the usual case, without looking for borders.
template <class T>
void max_pool_pairs(const Array& x, const Array& out, const Array* indices, int64_t begin,
                    int64_t end) {
  const int64_t width = x.shape()[3];
  for (int64_t p = begin; p < end; ++p) {
    const Plane<const T> plane(x, p);
    for (int64_t y = 0; y < out.shape()[2]; ++y) {
      const T* upper = plane.data + 2 * y * plane.row_stride;
      const T* lower = upper + plane.row_stride;
      T* target = &Plane<T>(out, p).at(y, 0);
      int64_t* found = indices != nullptr ? &Plane<int64_t>(*indices, p).at(y, 0) : nullptr;
      for (int64_t j = 0; j < out.shape()[3]; ++j) {
        const T values[4] = {upper[2 * j], upper[2 * j + 1], lower[2 * j], lower[2 * j + 1]};
        T best = values[0];
        int64_t at = 0;
        for (int64_t k = 1; k < 4; ++k) {
          const bool better = (values[k] > best) | ((values[k] != values[k]) & (best == best));
          best = better ? values[k] : best;
          at = better ? k : at;
        }
        target[j] = best;
        if (found != nullptr) found[j] = (2 * y + (at >> 1)) * width + 2 * j + (at & 1);
      }
    }
  }
}

bool are_pairs(const Array& x, const Window& window, const Array& out, const Array* indices) {
  for (int axis = 0; axis < 2; ++axis) {
    if (window.kernel[axis] != 2 || window.stride[axis] != 2 || window.padding[axis] != 0 ||
        window.dilation[axis] != 1 || 2 * out.shape()[2 + axis] > x.shape()[2 + axis]) {
      return false;
    }
  }
  const bool dense = x.strides()[3] == 1 && out.is_contiguous();
  return dense && (indices == nullptr || indices->is_contiguous());
}

template <class T>
void average_pool(const Array& x, const Window& window, const Array& out, int64_t begin,
                  int64_t end) {
  using C = Compute<T>;
  each_place(out, x.shape(), window, begin, end,
             [&](int64_t p, int64_t y, int64_t x_place, const Taps& rows, const Taps& columns) {
               const Plane<const T> plane(x, p);
               C sum = C(0);
               for (int64_t i = rows.first; i < rows.last; ++i) {
                 const int64_t row = rows.start + i * window.dilation[0];
                 for (int64_t j = columns.first; j < columns.last; ++j) {
                   const int64_t column = columns.start + j * window.dilation[1];
                   sum = static_cast<C>(sum + convert<C>(plane.at(row, column)));
                 }
               }
               const C mean = static_cast<C>(sum / divisor<C>(window, rows, columns));
               Plane<T>(out, p).at(y, x_place) = convert<T>(mean);
             });
}

// Sums of one plane are kept in the computed type and stored when they are whole.
template <class T>
void average_pool_gradient(const Array& g, const Window& window, const Array& out, int64_t begin,
                           int64_t end) {
  using C = Compute<T>;
  const int64_t height = out.shape()[2], width = out.shape()[3];
  std::vector<C> sums(static_cast<size_t>(height * width));
  for (int64_t plane = begin; plane < end; ++plane) {
    std::fill(sums.begin(), sums.end(), C(0));
    each_place(g, out.shape(), window, plane, plane + 1,
               [&](int64_t p, int64_t y, int64_t x, const Taps& rows, const Taps& columns) {
                 const C share = static_cast<C>(convert<C>(Plane<const T>(g, p).at(y, x)) /
                                                divisor<C>(window, rows, columns));
                 for (int64_t i = rows.first; i < rows.last; ++i) {
                   const int64_t row = rows.start + i * window.dilation[0];
                   for (int64_t j = columns.first; j < columns.last; ++j) {
                     const int64_t column = columns.start + j * window.dilation[1];
                     C& sum = sums[static_cast<size_t>(row * width + column)];
                     sum = static_cast<C>(sum + share);
                   }
                 }
               });
    const Plane<T> target(out, plane);
    for (int64_t i = 0; i < height * width; ++i) {
      target.at(i / width, i % width) = convert<T>(sums[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

void CpuBackend::pool(PoolOp op, const Array& x, const Window& window, const Array& out,
                      const Array* indices) {
  if (out.numel() == 0) return;
  const int64_t planes = out.shape()[0] * out.shape()[1];
  dispatch(x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, planes_grain(out, window), [&](int64_t begin, int64_t end) {
      if (op == PoolOp::max) {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
          if (are_pairs(x, window, out, indices)) {
            return max_pool_pairs<T>(x, out, indices, begin, end);
          }
        }
        max_pool<T>(x, window, out, indices, begin, end);
      } else {
        average_pool<T>(x, window, out, begin, end);
      }
    });
  });
}

void CpuBackend::average_pool_backward(const Array& g, const Window& window, const Array& out) {
  if (out.numel() == 0) return;
  if (g.numel() == 0) return fill(out, 0);
  const int64_t planes = out.shape()[0] * out.shape()[1];
  dispatch(out.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, planes_grain(g, window), [&](int64_t begin, int64_t end) {
      average_pool_gradient<T>(g, window, out, begin, end);
    });
  });
}

}  // namespace hero::core::cpu
