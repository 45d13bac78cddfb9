// Pooling: planes of H * W are independent, and threads share them.
#include <limits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/window.h>
#include <hero/core/cpu/workspace.h>
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
  // Of windows larger than the image only a part counts.
  const int64_t taps = std::min(window.kernel[0], kGrain) * std::min(window.kernel[1], kGrain);
  const int64_t work = std::min(pooled.shape()[2] * pooled.shape()[3], kGrain) * taps;
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

// [note: pooling pairs]
// Windows of two by two side by side, the usual case: first the better of every two rows, element
// by element, then of every two neighbours in what came out. Both are loops without branches over
// dense memory, and choose what max_pool chooses: a later element wins where it is larger or the
// first NaN. Places are counted from the first element of the upper row.
template <class T>
using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // lanes as wide as T's

// `count` places, a vector of so many bytes at a time; the last vector ends with the row and may
// repeat some places.
template <class T, int bytes>
void better_rows_by(const T* upper, const T* lower, int64_t count, T* best, Position<T>* is_lower) {
  typedef T Values __attribute__((vector_size(bytes)));
  typedef Position<T> Flags __attribute__((vector_size(bytes)));
  constexpr int64_t lanes = bytes / sizeof(T);
  for (int64_t i = 0; i < count; i += lanes) {
    const int64_t at = std::min(i, count - lanes);
    Values u, l;
    std::memcpy(&u, upper + at, bytes);
    std::memcpy(&l, lower + at, bytes);
    const Flags better = (l > u) | ((l != l) & (u == u));
    const Values winner = better ? l : u;
    const Flags flags = better & 1;
    std::memcpy(best + at, &winner, bytes);
    std::memcpy(is_lower + at, &flags, bytes);
  }
}

template <class T>
void better_rows(const T* upper, const T* lower, int64_t count, T* best, Position<T>* is_lower) {
  constexpr int64_t kSize = sizeof(T);
  if (count * kSize >= 64) return better_rows_by<T, 64>(upper, lower, count, best, is_lower);
  if (count * kSize >= 32) return better_rows_by<T, 32>(upper, lower, count, best, is_lower);
  if (count * kSize >= 16) return better_rows_by<T, 16>(upper, lower, count, best, is_lower);
  for (int64_t i = 0; i < count; ++i) {
    const bool better = lower[i] > upper[i] || (lower[i] != lower[i] && upper[i] == upper[i]);
    best[i] = better ? lower[i] : upper[i];
    is_lower[i] = better ? 1 : 0;
  }
}

// The better of neighbours. Where they are alike the one from the upper row comes first, then the
// left one.
template <class T>
void better_neighbours(const T* best, const Position<T>* is_lower, int64_t count, Position<T> width,
                       T* out, Position<T>* at) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T a = best[2 * i], b = best[2 * i + 1];
    const Position<T> a_lower = is_lower[2 * i], b_lower = is_lower[2 * i + 1];
    const bool larger = (b > a) | ((b != b) & (a == a));
    const bool alike = (b == a) | ((b != b) & (a != a));
    const bool better = larger | (alike & (b_lower < a_lower));
    out[i] = better ? b : a;
    at[i] = better ? static_cast<Position<T>>(1 + b_lower * width)
                   : static_cast<Position<T>>(a_lower * width);
  }
}

template <class T>
void max_pool_pairs(const Array& x, const Array& out, const Array* indices, int64_t begin,
                    int64_t end) {
  const int64_t width = x.shape()[3], rows = out.shape()[2], columns = out.shape()[3];
  const int64_t count = rows * columns;
  const Workspace<T> best(2 * count);
  const Workspace<Position<T>> is_lower(2 * count), at(count);
  const Workspace<int64_t> starts(count);
  for (int64_t i = 0; i < count; ++i) {
    starts.data()[i] = 2 * (i / columns * width + i % columns);
  }
  for (int64_t p = begin; p < end; ++p) {
    const Plane<const T> plane(x, p);
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t first = 2 * y * columns;
      better_rows(&plane.at(2 * y, 0), &plane.at(2 * y + 1, 0), 2 * columns, best.data() + first,
                  is_lower.data() + first);
    }
    better_neighbours(best.data(), is_lower.data(), count, static_cast<Position<T>>(width),
                      &Plane<T>(out, p).at(0, 0), at.data());
    if (indices == nullptr) continue;
    int64_t* found = &Plane<int64_t>(*indices, p).at(0, 0);
    const Position<T>* offset = at.data();
    const int64_t* start = starts.data();
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) found[i] = start[i] + offset[i];
  }
}

bool are_pairs(const Array& x, const Window& window, const Array& out, const Array* indices) {
  for (int axis = 0; axis < 2; ++axis) {
    if (window.kernel[axis] != 2 || window.stride[axis] != 2 || window.padding[axis] != 0 ||
        window.dilation[axis] != 1 || 2 * out.shape()[2 + axis] > x.shape()[2 + axis]) {
      return false;
    }
  }
  const bool dense = x.strides()[3] == 1 && out.is_contiguous() && x.shape()[3] <= INT32_MAX;
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

// Planes are independent; places of a plane in order. Sums of halves are kept in float and stored
// when they are whole.
template <class T>
void max_pool_gradient(const Array& g, const Array& indices, const Array& out, int64_t begin,
                       int64_t end) {
  using C = Compute<T>;
  const int64_t places = g.shape()[2] * g.shape()[3], size = out.shape()[2] * out.shape()[3];
  std::vector<C> wide(std::is_same_v<T, C> ? 0 : static_cast<size_t>(size));
  for (int64_t p = begin; p < end; ++p) {
    T* to = out.data<T>() + p * size;
    C* sums = wide.data();
    if constexpr (std::is_same_v<T, C>) sums = to;
    const T* from = g.data<T>() + p * places;
    const int64_t* at = indices.data<int64_t>() + p * places;
    std::fill_n(sums, size, C(0));
    for (int64_t i = 0; i < places; ++i) {
      C& sum = sums[at[i]];
      sum = static_cast<C>(sum + convert<C>(from[i]));
    }
    if constexpr (!std::is_same_v<T, C>) {
      for (int64_t i = 0; i < size; ++i) to[i] = convert<T>(sums[i]);
    }
  }
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

void CpuBackend::max_pool_backward(const Array& g, const Window&, const Array& indices,
                                   const Array& out) {
  if (out.numel() == 0) return;
  if (g.numel() == 0) return fill(out, 0);
  const int64_t planes = out.shape()[0] * out.shape()[1];
  const int64_t grain = std::max<int64_t>(1, kGrain / (out.shape()[2] * out.shape()[3]));
  dispatch(out.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, grain, [&](int64_t begin, int64_t end) {
      max_pool_gradient<T>(g, indices, out, begin, end);
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
