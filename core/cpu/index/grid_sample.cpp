// Sampling of images at points. A tile of points finds its pixels once, for all channels.
#include <algorithm>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/index/grid_cells.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

int64_t tiles_of(const Sampled& s) { return (s.points + kTile - 1) / kTile; }

// The pixels of a tap, 0 outside of the image. Behind a tile's points there are pixels, too.
template <class T>
[[gnu::noinline]] void read_tap(const Cells<T>& cells, int tap, const T* plane, T* values) {
  const int32_t* const place = cells.place[tap];
  const Mask<T>* const inside = cells.inside[tap];
  each_point([&](int64_t i) { values[i] = masked(plane[place[i]], inside[i]); });
}

// to = a * b, or, behind the first term, to += a * b.
template <class T>
void add_term(bool is_first, const T* a, const T* b, T* to) {
  if (is_first) {
    each_point([&](int64_t i) { to[i] = a[i] * b[i]; });
  } else {
    each_point([&](int64_t i) { to[i] += a[i] * b[i]; });
  }
}

// A plane at the points of a tile. Cubic samples are sums over lines of sums along lines.
template <class T>
[[gnu::noinline]] void sample(const Sampled& s, const Cells<T>& cells, const T* plane, T* to) {
  const bool is_cubic = s.how.taps == 4;
  const int along = is_cubic ? 4 : cells.taps;
  T line[kTile], values[kTile];
  for (int tap = 0; tap < cells.taps; ++tap) {
    const int in_line = tap % along, row = tap / along;
    read_tap(cells, tap, plane, values);
    add_term<T>(in_line == 0, values, is_cubic ? cells.axes[1].weight[in_line] : cells.weight[tap],
                is_cubic ? line : to);
    if (is_cubic && in_line == 3) add_term<T>(row == 0, line, cells.axes[0].weight[row], to);
  }
}

// Calls body(cells, image, first, count) for the tiles of points of all images.
template <class T, class Body>
void each_tile(const Sampled& s, const T* grid, const Body& body) {
  const int64_t tiles = tiles_of(s), work = kTile * s.how.taps * s.how.taps * s.channels;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
  parallel_for(s.images * tiles, grain, [&](int64_t begin, int64_t end) {
    Cells<T> cells;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t image = at / tiles, first = (at - image * tiles) * kTile;
      const int64_t count = std::min(kTile, s.points - first);
      cells.find(s, grid + (image * s.points + first) * s.dims, count);
      body(cells, image, first, count);
    }
  });
}

// Adds the terms of a tile's points to the places of a plane.
template <class T>
[[gnu::noinline]] void spread(const Cells<T>& cells, const T* g, int64_t count, T* plane) {
  for (int tap = 0; tap < cells.taps; ++tap) {
    for (int64_t i = 0; i < count; ++i) {
      if (cells.inside[tap][i] != 0) plane[cells.place[tap][i]] += g[i] * cells.weight[tap][i];
    }
  }
}

// The gradients of a tile's points from those of its weights.
template <class T>
[[gnu::noinline]] void finish_grid(const Sampled& s, const Cells<T>& cells, const T (*sums)[kTile],
                                   int64_t count, T* g_grid) {
  for (int d = 0; d < s.dims; ++d) {
    T total[kTile] = {};
    for (int tap = 0; tap < cells.taps; ++tap) {
      T term[kTile];
      std::copy_n(sums[tap], kTile, term);
      for (int e = 0; e < s.dims; ++e) {
        const int own = Cells<T>::along(s, e, tap);
        const T* const factor =
            e == d ? cells.axes[e].weight_slope[own] : cells.axes[e].weight[own];
        each_point([&](int64_t i) { term[i] *= factor[i]; });
      }
      each_point([&](int64_t i) { total[i] += term[i]; });
    }
    const GridAxis<T>& axis = cells.axes[d];
    each_point([&](int64_t i) { total[i] = masked(total[i] * axis.slope[i], axis.moves[i]); });
#pragma GCC unroll 1
    for (int64_t i = 0; i < count; ++i) g_grid[i * s.dims + s.dims - 1 - d] = total[i];
  }
}

template <class T>
void grid_sample(const Sampled& s, const T* x, const T* grid, T* out) {
  const int64_t plane = s.plane();
  each_tile(s, grid, [&](const Cells<T>& cells, int64_t image, int64_t first, int64_t count) {
    T values[kTile];
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      sample(s, cells, x + c * plane, values);
      std::copy_n(values, count, out + c * s.points + first);
    }
  });
}

template <class T>
void grid_sample_back_x(const Sampled& s, const T* g, const T* grid, T* g_x) {
  const int64_t plane = s.plane(), work = std::max<int64_t>(1, s.points * s.how.taps * s.how.taps);
  // Some channels at a time, as each of them alone would find the pixels again.
  const int64_t some = std::clamp<int64_t>(s.channels / 4, 1, 16);
  parallel_for(
      s.images * s.channels, std::max(some, kGrain / work), [&](int64_t begin, int64_t end) {
        Cells<T> cells;
        std::fill(g_x + begin * plane, g_x + end * plane, T(0));
        for (int64_t at = begin; at < end;) {
          const int64_t image = at / s.channels, last = std::min(end, (image + 1) * s.channels);
          for (int64_t first = 0; first < s.points; first += kTile) {
            const int64_t count = std::min(kTile, s.points - first);
            cells.find(s, grid + (image * s.points + first) * s.dims, count);
            for (int64_t c = at; c < last; ++c) {
              spread(cells, g + c * s.points + first, count, g_x + c * plane);
            }
          }
          at = last;
        }
      });
}

template <class T>
void grid_sample_back_grid(const Sampled& s, const T* g, const T* x, const T* grid, T* g_grid) {
  const int64_t plane = s.plane();
  each_tile(s, grid, [&](const Cells<T>& cells, int64_t image, int64_t first, int64_t count) {
    T sums[Cells<T>::kMaxTaps][kTile], own[kTile] = {}, values[kTile];
    std::fill_n(sums[0], cells.taps * kTile, T(0));
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      std::copy_n(g + c * s.points + first, count, own);
      for (int tap = 0; tap < cells.taps; ++tap) {
        read_tap(cells, tap, x + c * plane, values);
        add_term<T>(false, own, values, sums[tap]);
      }
    }
    finish_grid(s, cells, sums, count, g_grid + (image * s.points + first) * s.dims);
  });
}

Sampled sampled_of(const GridSampling& how, const Shape& x, const Array& grid) {
  Sampled sampled{how, x[0], x[1], 1, {1, 1, 1}, x.size() - 2};
  for (int i = 0; i < sampled.dims; ++i) {
    sampled.size[i] = x[2 + i];
    sampled.points *= grid.size(1 + i);
  }
  return sampled;
}

template <class Body>
void with_type(const Array& out, Body&& body) {
  if (out.numel() == 0) return;
  out.dtype() == kFloat64 ? body(TypeTag<double>{}) : body(TypeTag<float>{});
}

}  // namespace

void CpuBackend::run(const call::GridSample& call) {
  const Sampled sampled = sampled_of(call.how, call.x.shape(), call.grid);
  with_type(call.out, [&]<class T>(TypeTag<T>) {
    grid_sample(sampled, call.x.data<T>(), call.grid.data<T>(), call.out.data<T>());
  });
}

void CpuBackend::run(const call::GridSampleBackX& call) {
  const Sampled sampled = sampled_of(call.how, call.out.shape(), call.grid);
  with_type(call.out, [&]<class T>(TypeTag<T>) {
    grid_sample_back_x(sampled, call.g.data<T>(), call.grid.data<T>(), call.out.data<T>());
  });
}

void CpuBackend::run(const call::GridSampleBackGrid& call) {
  const Sampled sampled = sampled_of(call.how, call.x.shape(), call.grid);
  with_type(call.out, [&]<class T>(TypeTag<T>) {
    grid_sample_back_grid(sampled, call.g.data<T>(), call.x.data<T>(), call.grid.data<T>(),
                          call.out.data<T>());
  });
}

}  // namespace hero::core::cpu
