// Pooling: planes of H * W are independent, and threads share them.
#include <limits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/nn/pool.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

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

// [note: pooling by lines]
// The largest of a window is the largest of the largest of its columns. Rows of the image are
// compared element by element into a line, whose neighbours are then compared: loops without
// branches over dense memory. Every number carries its position in the plane, which decides
// between equals; a later column with the smaller position lies in an earlier row. So windows get
// what max_pool gives them: the first of the largest, or the first NaN.
template <class T>
using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // lanes as wide as T's

// Elements and their positions, one after the other.
template <class T>
struct Found {
  T* value;
  Position<T>* at;
};

// `count` elements of a row that starts at `position`: into the line if `first`, else where they
// are better. A vector of so many bytes at a time; the last one ends with the row and may repeat
// some elements, which changes nothing.
template <class T, int bytes, bool first>
void take_row_by(const T* row, int64_t count, int64_t position, const Found<T>& line) {
  typedef T Values __attribute__((vector_size(bytes)));
  typedef Position<T> Positions __attribute__((vector_size(bytes)));
  constexpr int64_t lanes = bytes / sizeof(T);
  Positions lane;
  for (int64_t l = 0; l < lanes; ++l) lane[l] = static_cast<Position<T>>(l);
  for (int64_t i = 0; i < count; i += lanes) {
    const int64_t at = std::min(i, count - lanes);
    Values value, best;
    Positions place = lane + static_cast<Position<T>>(position + at), best_place;
    std::memcpy(&value, row + at, bytes);
    if constexpr (!first) {
      std::memcpy(&best, line.value + at, bytes);
      std::memcpy(&best_place, line.at + at, bytes);
      const Positions better = (value > best) | ((value != value) & (best == best));
      value = better ? value : best;
      place = better ? place : best_place;
    }
    std::memcpy(line.value + at, &value, bytes);
    std::memcpy(line.at + at, &place, bytes);
  }
}

template <class T, bool first>
void take_row(const T* row, int64_t count, int64_t position, const Found<T>& line) {
  constexpr int64_t kSize = sizeof(T);
  if (count * kSize >= 64) return take_row_by<T, 64, first>(row, count, position, line);
  if (count * kSize >= 16) return take_row_by<T, 16, first>(row, count, position, line);
  return take_row_by<T, kSize, first>(row, count, position, line);
}

// The best of `taps` neighbours from every `stride` elements on; a stride of 2 is `fixed`.
template <class T, int fixed>
void take_neighbours(const Found<T>& line, int64_t count, int64_t any_stride, int64_t taps,
                     const Found<T>& out) {
  const int64_t stride = fixed > 0 ? fixed : any_stride;
  std::fill_n(out.value, count, lowest<T>());
  std::fill_n(out.at, count, std::numeric_limits<Position<T>>::max());
  for (int64_t tap = 0; tap < taps; ++tap) {
    const T* const value = line.value + tap;
    const Position<T>* const at = line.at + tap;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const T a = out.value[i], b = value[stride * i];
      const Position<T> a_at = out.at[i], b_at = at[stride * i];
      const bool larger = (b > a) | ((b != b) & (a == a));
      const bool alike = (b == a) | ((b != b) & (a != a));
      const bool better = larger | (alike & (b_at < a_at));
      out.value[i] = better ? b : a;
      out.at[i] = better ? b_at : a_at;
    }
  }
}

// One line after the other, as many as make a few hundred windows. A line has room for `each`
// windows, those behind the last one read into the next line; what lies outside of the image is
// never better. Elements of S are compared as T.
template <class T, class S>
void max_pool_lines(const Array& x, const Window& window, const Array& out, const Array* indices,
                    int64_t begin, int64_t end) {
  const int64_t height = x.shape()[2], width = x.shape()[3];
  const int64_t rows = out.shape()[2], columns = out.shape()[3];
  const int64_t stride = window.stride[1], taps = window.kernel[1], before = window.padding[1];
  const int64_t each = columns - 1 + (taps + stride - 1) / stride, pitch = each * stride;
  const int64_t inside = std::min(width, pitch - before);
  const int64_t lines = std::clamp<int64_t>(kBlock / each, 1, rows);
  const int64_t length = lines * pitch + taps;
  const Workspace<T> values(length), best_values(lines * each), room(inside);
  const Workspace<Position<T>> places(length), best_places(lines * each);
  std::fill_n(values.data(), length, lowest<T>());
  std::fill_n(places.data(), length, std::numeric_limits<Position<T>>::max());
  const Found<T> line{values.data(), places.data()}, best{best_values.data(), best_places.data()};
  const auto neighbours = stride == 2 ? take_neighbours<T, 2> : take_neighbours<T, 0>;
  for (int64_t p = begin; p < end; ++p) {
    const Plane<const S> plane(x, p);
    for (int64_t y = 0; y < rows; y += lines) {
      const int64_t count = std::min(lines, rows - y);
      for (int64_t l = 0; l < count; ++l) {
        const Taps down = taps_at(window, 0, y + l, height);
        const int64_t first = down.start + down.first, last = down.start + down.last;
        const Found<T> to{line.value + l * pitch + before, line.at + l * pitch + before};
        const auto row_of = [&](int64_t row) {
          return row_as(&plane.at(row, 0), inside, room.data());
        };
        take_row<T, true>(row_of(first), inside, first * width, to);
        for (int64_t row = first + 1; row < last; ++row) {
          take_row<T, false>(row_of(row), inside, row * width, to);
        }
      }
      neighbours(line, count * each, stride, taps, best);
      for (int64_t l = 0; l < count; ++l) {
        S* const to = &Plane<S>(out, p).at(y + l, 0);
        const T* const value = best.value + l * each;
#pragma GCC ivdep
        for (int64_t i = 0; i < columns; ++i) to[i] = convert<S>(value[i]);
        if (indices == nullptr) continue;
        int64_t* const found = &Plane<int64_t>(*indices, p).at(y + l, 0);
        const Position<T>* const at = best.at + l * each;
#pragma GCC ivdep
        for (int64_t i = 0; i < columns; ++i) found[i] = at[i];
      }
    }
  }
}

// Every window has an element of the image, dense rows, and lines that are not much longer than
// those of the image.
bool pools_lines(const Array& x, const Window& window, const Array& out, const Array* indices) {
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t size = x.shape()[2 + axis];
    const auto is_empty = [&](int64_t place) {
      const Taps taps = taps_at(window, axis, place, size);
      return taps.first == taps.last;
    };
    if (window.dilation[axis] != 1 || is_empty(0) || is_empty(out.shape()[2 + axis] - 1)) {
      return false;
    }
  }
  const int64_t width = x.shape()[3], most = 4 * width + kBlock;
  return window.kernel[1] <= most && window.stride[1] <= most && x.strides()[3] == 1 &&
         x.shape()[2] * width < INT32_MAX - kBlock && out.strides()[3] == 1 &&
         (indices == nullptr || indices->strides()[3] == 1);
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

}  // namespace

void CpuBackend::run(const call::Pool& call) {
  if (call.out.numel() == 0) return;
  if (call.op == PoolOp::average) return average_pool(call.x, call.window, call.out);
  const int64_t planes = call.out.shape()[0] * call.out.shape()[1];
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, planes_grain(call.out, call.window), [&](int64_t begin, int64_t end) {
      if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, BFloat16>) {
        if (pools_lines(call.x, call.window, call.out, call.indices)) {
          return max_pool_lines<Compute<T>, T>(call.x, call.window, call.out, call.indices, begin,
                                               end);
        }
      }
      max_pool<T>(call.x, call.window, call.out, call.indices, begin, end);
    });
  });
}

void CpuBackend::run(const call::MaxPoolBack& call) {
  if (call.out.numel() == 0) return;
  if (call.g.numel() == 0) return run(call::Fill{call.out, 0});
  const int64_t planes = call.out.shape()[0] * call.out.shape()[1];
  const int64_t grain = std::max<int64_t>(1, kGrain / (call.out.shape()[2] * call.out.shape()[3]));
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, grain, [&](int64_t begin, int64_t end) {
      max_pool_gradient<T>(call.g, call.indices, call.out, begin, end);
    });
  });
}

}  // namespace hero::core::cpu
