// Pooling: one thread for every element of the result, which reads its inputs in row-major order,
// so that the bits are those of the CPU; backward gathers, so that no two threads add to one
// element.
#include <limits>

#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/nn/window.cuh>

namespace hero::cuda {

namespace {

// The taps of a window at one place.
struct Taps {
  int start, first, last, counted;
  __device__ Taps(const Axis& axis, int place)
      : start(axis.start(place)),
        first(axis.taps_below(0, start)),
        last(axis.taps_below(axis.size, start)),
        counted(axis.taps_below(axis.size + axis.padding, start)) {
    if (last < first) last = first;
  }
};

// What an average divides by.
template <class C>
__device__ C divisor(bool count_padding, const Taps& rows, const Taps& columns) {
  const int count = count_padding ? rows.counted * columns.counted
                                  : (rows.last - rows.first) * (columns.last - columns.first);
  return static_cast<C>(count > 1 ? count : 1);
}

template <class C>
__device__ C lowest() {
  if constexpr (std::numeric_limits<C>::has_infinity) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::lowest();
}

// Position i of a run: the plane, and the row and column in it.
struct Position {
  uint32_t plane;
  int y, x;
  __device__ Position(uint32_t i, const Divider& per_plane, const Divider& per_row)
      : plane(per_plane(i)) {
    const uint32_t rest = i - plane * per_plane.divisor;
    const uint32_t above = per_row(rest);
    y = static_cast<int>(above);
    x = static_cast<int>(rest - above * per_row.divisor);
  }
};

// The window's element in row-major order that is the first largest, or the
// first NaN; without any element -inf and position 0.
template <class T>
__global__ void max_pool_kernel(Planes<const T> x, Planes<T> out, Planes<int64_t> indices,
                                Axis rows, Axis cols, Divider per_plane, Divider per_row,
                                uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const Position at(i, per_plane, per_row);
    const Taps down(rows, at.y), right(cols, at.x);
    const T* from = x.plane(first + at.plane);
    C best = lowest<C>();
    int64_t best_at = -1;
    for (int ky = down.first; ky < down.last; ++ky) {
      const int row = down.start + ky * rows.dilation;
      for (int kx = right.first; kx < right.last; ++kx) {
        const int column = right.start + kx * cols.dilation;
        const C value = convert<C>(from[row * x.row + column * x.column]);
        const bool nan = value != value && best == best;
        if (value > best || nan || best_at < 0) {
          best = value;
          best_at = static_cast<int64_t>(row) * cols.size + column;
        }
      }
    }
    out.plane(first + at.plane)[at.y * out.row + at.x * out.column] = convert<T>(best);
    if (indices.data) {
      indices.plane(first + at.plane)[at.y * indices.row + at.x * indices.column] =
          best_at < 0 ? 0 : best_at;
    }
  }
}

template <class T>
__global__ void average_pool_kernel(Planes<const T> x, Planes<T> out, Axis rows, Axis cols,
                                    bool count_padding, Divider per_plane, Divider per_row,
                                    uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const Position at(i, per_plane, per_row);
    const Taps down(rows, at.y), right(cols, at.x);
    const T* from = x.plane(first + at.plane);
    C sum = C(0);
    for (int ky = down.first; ky < down.last; ++ky) {
      const int row = down.start + ky * rows.dilation;
      for (int kx = right.first; kx < right.last; ++kx) {
        const int column = right.start + kx * cols.dilation;
        sum = static_cast<C>(sum + convert<C>(from[row * x.row + column * x.column]));
      }
    }
    const C mean = static_cast<C>(sum / divisor<C>(count_padding, down, right));
    out.plane(first + at.plane)[at.y * out.row + at.x * out.column] = convert<T>(mean);
  }
}

// The gradients of the places that chose an element, rounded once as on the
// CPU. Places without any element chose the first one.
template <class T>
__global__ void max_pool_backward_kernel(const T* g, const int64_t* indices, T* out, Axis rows,
                                         Axis cols, bool has_empty_places, Divider per_plane,
                                         Divider per_row, uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const Position at(i, per_plane, per_row);
    const int64_t here = static_cast<int64_t>(at.y) * cols.size + at.x;
    const int64_t start = static_cast<int64_t>(first + at.plane) * rows.places * cols.places;
    const bool all = has_empty_places && here == 0;
    const int top = all ? 0 : rows.first_place(at.y), left = all ? 0 : cols.first_place(at.x);
    const int bottom = all ? rows.places : rows.last_place(at.y);
    const int right = all ? cols.places : cols.last_place(at.x);
    C sum = C(0);
    for (int oy = top; oy < bottom; ++oy) {
      for (int ox = left; ox < right; ++ox) {
        const int64_t place = start + static_cast<int64_t>(oy) * cols.places + ox;
        if (indices[place] != here) continue;
        sum = static_cast<C>(sum + convert<C>(g[place]));
      }
    }
    out[static_cast<int64_t>(first) * per_plane.divisor + i] = convert<T>(sum);
  }
}

template <class T>
__global__ void average_pool_backward_kernel(Planes<const T> g, Planes<T> out, Axis rows, Axis cols,
                                             bool count_padding, Divider per_plane, Divider per_row,
                                             uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const Position at(i, per_plane, per_row);
    const T* from = g.plane(first + at.plane);
    C sum = C(0);
    for (int oy = rows.first_place(at.y); oy < rows.last_place(at.y); ++oy) {
      if (!rows.sees(oy, at.y)) continue;
      const Taps down(rows, oy);
      for (int ox = cols.first_place(at.x); ox < cols.last_place(at.x); ++ox) {
        if (!cols.sees(ox, at.x)) continue;
        const C value = convert<C>(from[oy * g.row + ox * g.column]);
        const C share = static_cast<C>(value / divisor<C>(count_padding, down, Taps(cols, ox)));
        sum = static_cast<C>(sum + share);
      }
    }
    out.plane(first + at.plane)[at.y * out.row + at.x * out.column] = convert<T>(sum);
  }
}

// Runs of the planes of `result`, a thread for each of its elements.
template <class Launch>
void each_plane(const char* op, const Array& result, const Launch& run) {
  const int64_t each = result.size(2) * result.size(3);
  const Divider per_row(static_cast<uint32_t>(result.size(3)));
  each_run(op, result.size(0) * result.size(1), each, [&](uint32_t first, uint32_t n) {
    run(Divider(static_cast<uint32_t>(each)), per_row, first, n);
  });
}

struct Axes {
  Axis rows, cols;
  Axes(const core::Window& window, const Array& image, const Array& pooled)
      : rows(window, 0, image.size(2), pooled.size(2)),
        cols(window, 1, image.size(3), pooled.size(3)) {}
};

}  // namespace

void CudaBackend::run(const call::Pool& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Axes axes(call.window, call.x, call.out);
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    const Planes<const T> from(call.x);
    const Planes<T> to(call.out);
    each_plane("pool", call.out,
               [&](Divider per_plane, Divider per_row, uint32_t first, uint32_t n) {
                 if (call.op == PoolOp::average) {
                   return launch("pool", average_pool_kernel<T>, loop_blocks(n), dim3(kThreads), 0,
                                 from, to, axes.rows, axes.cols, call.window.count_padding,
                                 per_plane, per_row, first, n);
                 }
                 Planes<int64_t> found(call.indices ? *call.indices : call.out);
                 if (!call.indices) found.data = nullptr;
                 launch("pool", max_pool_kernel<T>, loop_blocks(n), dim3(kThreads), 0, from, to,
                        found, axes.rows, axes.cols, per_plane, per_row, first, n);
               });
  });
}

void CudaBackend::run(const call::MaxPoolBack& call) {
  if (call.out.numel() == 0) return;
  if (call.g.numel() == 0) return run(call::Fill{call.out, 0});
  const DeviceGuard guard(index_);
  const Axes axes(call.window, call.out, call.g);
  const bool has_empty_places = axes.rows.has_empty_places() || axes.cols.has_empty_places();
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    const auto* from = reinterpret_cast<const T*>(call.g.bytes());
    const auto* chosen = reinterpret_cast<const int64_t*>(call.indices.bytes());
    auto* to = reinterpret_cast<T*>(call.out.bytes());
    each_plane("max_pool_backward", call.out,
               [&](Divider per_plane, Divider per_row, uint32_t first, uint32_t n) {
                 launch("max_pool_backward", max_pool_backward_kernel<T>, loop_blocks(n),
                        dim3(kThreads), 0, from, chosen, to, axes.rows, axes.cols, has_empty_places,
                        per_plane, per_row, first, n);
               });
  });
}

void CudaBackend::run(const call::AveragePoolBack& call) {
  if (call.out.numel() == 0) return;
  if (call.g.numel() == 0) return run(call::Fill{call.out, 0});
  const DeviceGuard guard(index_);
  const Axes axes(call.window, call.out, call.g);
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    const Planes<const T> from(call.g);
    const Planes<T> to(call.out);
    each_plane("average_pool_backward", call.out,
               [&](Divider per_plane, Divider per_row, uint32_t first, uint32_t n) {
                 launch("average_pool_backward", average_pool_backward_kernel<T>, loop_blocks(n),
                        dim3(kThreads), 0, from, to, axes.rows, axes.cols,
                        call.window.count_padding, per_plane, per_row, first, n);
               });
  });
}

}  // namespace hero::cuda
