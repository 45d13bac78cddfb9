// Average pooling, and its gradient.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/nn/pool.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// What an average divides by.
template <class C>
C divisor(const Window& window, const Taps& rows, const Taps& columns) {
  const int64_t count = window.count_padding
                            ? rows.counted * columns.counted
                            : (rows.last - rows.first) * (columns.last - columns.first);
  return static_cast<C>(std::max<int64_t>(count, 1));
}

template <class T>
void pool_by_places(const Array& x, const Window& window, const Array& out, int64_t begin,
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
void gradient_by_places(const Array& g, const Window& window, const Array& out, int64_t begin,
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

// [note: averages by lines]
// The windows of a line take their terms tap by tap, in loops over neighbouring windows. Each
// window, and in the gradient each element of the image, still adds up its terms in the order of
// pool_by_places and gradient_by_places, and has their bits.
class LineWindows {
 public:
  LineWindows(const Window& window, int64_t width, int64_t columns)
      : window_(window), across_(static_cast<size_t>(columns)) {
    for (int64_t x = 0; x < columns; ++x) {
      const Taps taps = taps_at(window, 1, x, width);
      across_[static_cast<size_t>(x)] = counted(taps);
    }
    const int64_t stride = window.stride[1];
    for (int64_t j = 0; j < window.kernel[1]; ++j) {
      const int64_t start = j * window.dilation[1] - window.padding[1];
      const auto place = [&](int64_t bound) {
        return std::clamp<int64_t>((bound - start + stride - 1) / stride, 0, columns);
      };
      const int64_t first = start < 0 ? place(0) : 0;
      taps_.push_back({first, start < width ? std::max(first, place(width)) - first : 0,
                       start + first * stride});
    }
  }

  // sums += a row of the image.
  template <class C>
  void gather(const C* row, C* sums) const {
    for (const Tap& tap : taps_) {
      const C* const from = row + tap.position;
      C* const to = sums + tap.first;
      if (window_.stride[1] == 2) {
#pragma GCC ivdep
        for (int64_t i = 0; i < tap.count; ++i) to[i] += from[2 * i];
      } else {
        const int64_t stride = window_.stride[1];
#pragma GCC ivdep
        for (int64_t i = 0; i < tap.count; ++i) to[i] += from[stride * i];
      }
    }
  }

  // A row of the image += what each window has to give. Where windows overlap, earlier ones give
  // first.
  template <class C>
  void scatter(const C* shares, C* row) const {
    const int64_t stride = window_.stride[1];
    for (auto tap = taps_.rbegin(); tap != taps_.rend(); ++tap) {
      const C* const from = shares + tap->first;
      C* const to = row + tap->position;
      const int64_t count = tap->count;
      for (int64_t i = 0; i < count; ++i) to[stride * i] += from[i];
    }
  }

  // What the windows of a line divide by.
  template <class C>
  void divisors(const Taps& rows, std::vector<C>& by) const {
    const int64_t down = counted(rows);
    for (size_t x = 0; x < by.size(); ++x) {
      by[x] = static_cast<C>(std::max<int64_t>(down * across_[x], 1));
    }
  }

  template <class From, class C, class To>
  void divide(const From* from, const C* by, To* to) const {
    const auto count = static_cast<int64_t>(across_.size());
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(convert<C>(from[i]) / by[i]);
  }

  int64_t counted(const Taps& taps) const {
    return window_.count_padding ? taps.counted : taps.last - taps.first;
  }

 private:
  // A tap of the windows first ... first + count - 1, where it lies on the image: that of the first
  // one at `position`.
  struct Tap {
    int64_t first, count, position;
  };
  const Window& window_;
  std::vector<int64_t> across_;
  std::vector<Tap> taps_;
};

template <class T>
void pool_by_lines(const Array& x, const Window& window, const Array& out, int64_t begin,
                   int64_t end) {
  using C = Compute<T>;
  const int64_t width = x.shape()[3], columns = out.shape()[3];
  const LineWindows line(window, width, columns);
  std::vector<C> sums(static_cast<size_t>(columns)), by(sums.size());
  std::vector<C> room(std::is_same_v<T, C> ? 0 : static_cast<size_t>(width));
  int64_t divided_by = -1;
  for (int64_t p = begin; p < end; ++p) {
    const Plane<const T> plane(x, p);
    for (int64_t y = 0; y < out.shape()[2]; ++y) {
      const Taps rows = taps_at(window, 0, y, x.shape()[2]);
      if (line.counted(rows) != divided_by) line.divisors(rows, by);
      divided_by = line.counted(rows);
      std::fill(sums.begin(), sums.end(), C(0));
      for (int64_t i = rows.first; i < rows.last; ++i) {
        const T* const row = &plane.at(rows.start + i * window.dilation[0], 0);
        line.gather(row_as(row, width, room.data()), sums.data());
      }
      line.divide(sums.data(), by.data(), &Plane<T>(out, p).at(y, 0));
    }
  }
}

template <class T>
void gradient_by_lines(const Array& g, const Window& window, const Array& out, int64_t begin,
                       int64_t end) {
  using C = Compute<T>;
  const int64_t height = out.shape()[2], width = out.shape()[3], columns = g.shape()[3];
  const LineWindows line(window, width, columns);
  // Of windows apart from each other every row gets the same.
  const bool apart = window.stride[1] >= window.reach(1);
  std::vector<C> sums(static_cast<size_t>(height * width)), shares(static_cast<size_t>(columns)),
      by(shares.size()), each(static_cast<size_t>(width));
  int64_t divided_by = -1;
  for (int64_t p = begin; p < end; ++p) {
    std::fill(sums.begin(), sums.end(), C(0));
    for (int64_t y = 0; y < g.shape()[2]; ++y) {
      const Taps rows = taps_at(window, 0, y, height);
      if (line.counted(rows) != divided_by) line.divisors(rows, by);
      divided_by = line.counted(rows);
      line.divide(&Plane<const T>(g, p).at(y, 0), by.data(), shares.data());
      if (apart) {
        std::fill(each.begin(), each.end(), C(0));
        line.scatter(shares.data(), each.data());
      }
      for (int64_t i = rows.first; i < rows.last; ++i) {
        C* const row = sums.data() + (rows.start + i * window.dilation[0]) * width;
        if (!apart) {
          line.scatter(shares.data(), row);
          continue;
        }
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) row[c] += each[static_cast<size_t>(c)];
      }
    }
    const Plane<T> target(out, p);
    for (int64_t y = 0; y < height; ++y) {
      T* const to = &target.at(y, 0);
      const C* const row = sums.data() + y * width;
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = convert<T>(row[c]);
    }
  }
}

// Lines of several windows, each of a few taps.
bool averages_lines(const Array& image, const Array& pooled, const Window& window) {
  constexpr int64_t kFew = 32, kSeveral = 4;
  return image.strides()[3] == 1 && pooled.strides()[3] == 1 && window.kernel[1] <= kFew &&
         pooled.shape()[3] >= kSeveral;
}

template <class T>
constexpr bool kHasLines = std::is_floating_point_v<T> || std::is_same_v<T, BFloat16>;

}  // namespace

void average_pool(const Array& x, const Window& window, const Array& out) {
  const int64_t planes = out.shape()[0] * out.shape()[1];
  dispatch(x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, planes_grain(out, window), [&](int64_t begin, int64_t end) {
      if constexpr (kHasLines<T>) {
        if (averages_lines(x, out, window)) return pool_by_lines<T>(x, window, out, begin, end);
      }
      pool_by_places<T>(x, window, out, begin, end);
    });
  });
}

void CpuBackend::run(const call::AveragePoolBack& call) {
  if (call.out.numel() == 0) return;
  if (call.g.numel() == 0) return run(call::Fill{call.out, 0});
  const int64_t planes = call.out.shape()[0] * call.out.shape()[1];
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(planes, planes_grain(call.g, call.window), [&](int64_t begin, int64_t end) {
      if constexpr (kHasLines<T>) {
        if (averages_lines(call.out, call.g, call.window))
          return gradient_by_lines<T>(call.g, call.window, call.out, begin, end);
      }
      gradient_by_places<T>(call.g, call.window, call.out, begin, end);
    });
  });
}

}  // namespace hero::core::cpu
