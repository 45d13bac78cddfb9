// im2col and col2im, by which a convolution is a matrix product.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/nn/window.cuh>

namespace hero::cuda {

namespace {

// Columns [N, C * kh * kw, oh * ow] as planes [kh * kw, oh * ow] of the images'
// channels.
template <class T>
struct Columns {
  T* data;
  int64_t image, row, place;
  Divider channels, places_in_row, taps_in_row;
  int taps;

  Columns(const Array& columns, const core::Window& window, int64_t image_channels,
          int64_t row_places)
      : data(reinterpret_cast<T*>(columns.bytes())),
        image(columns.strides()[0]),
        row(columns.strides()[1]),
        place(columns.strides()[2]),
        channels(static_cast<uint32_t>(image_channels)),
        places_in_row(static_cast<uint32_t>(row_places)),
        taps_in_row(static_cast<uint32_t>(window.kernel[1])),
        taps(static_cast<int>(window.kernel[0] * window.kernel[1])) {}
  __device__ T* plane(uint32_t p) const {
    const uint32_t n = channels(p);
    return data + n * image + static_cast<int64_t>(p - n * channels.divisor) * taps * row;
  }
};

// A thread for every element of the columns: neighbours are neighbouring places
// of one tap.
template <class T>
__global__ void im2col_kernel(Planes<const T> x, Columns<T> columns, Axis rows, Axis cols,
                              Divider per_tap, Divider per_plane, uint32_t first, uint32_t count) {
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const uint32_t p = per_plane(i), in_plane = i - p * per_plane.divisor;
    const uint32_t tap = per_tap(in_plane), place = in_plane - tap * per_tap.divisor;
    const uint32_t oy = columns.places_in_row(place), ky = columns.taps_in_row(tap);
    const auto ox = static_cast<int>(place - oy * columns.places_in_row.divisor);
    const auto kx = static_cast<int>(tap - ky * columns.taps_in_row.divisor);
    const int at_y = rows.start(static_cast<int>(oy)) + static_cast<int>(ky) * rows.dilation;
    const int at_x = cols.start(ox) + kx * cols.dilation;
    const bool inside = at_y >= 0 && at_y < rows.size && at_x >= 0 && at_x < cols.size;
    const T* from = x.plane(first + p);
    T* to = columns.plane(first + p) + tap * columns.row + place * columns.place;
    *to = inside ? from[at_y * x.row + at_x * x.column] : convert<T>(ComputeOf<T>(0));
  }
}

// A thread for every element of the image, which gathers what the taps took of
// it, in their order.
template <class T>
__global__ void col2im_kernel(Columns<const T> columns, Planes<T> out, Axis rows, Axis cols,
                              Divider per_row, Divider per_plane, uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t i = static_cast<uint32_t>(global_thread()); i < count;
       i += static_cast<uint32_t>(grid_threads())) {
    const uint32_t p = per_plane(i), in_plane = i - p * per_plane.divisor;
    const uint32_t y = per_row(in_plane), x = in_plane - y * per_row.divisor;
    const T* from = columns.plane(first + p);
    C sum = C(0);
    for (int ky = 0; ky < rows.kernel; ++ky) {
      const int down = static_cast<int>(y) + rows.padding - ky * rows.dilation;
      if (down < 0) break;
      const auto oy = static_cast<int>(rows.stride(static_cast<uint32_t>(down)));
      if (oy >= rows.places || rows.start(oy) + rows.padding != down) continue;
      for (int kx = 0; kx < cols.kernel; ++kx) {
        const int right = static_cast<int>(x) + cols.padding - kx * cols.dilation;
        if (right < 0) break;
        const auto ox = static_cast<int>(cols.stride(static_cast<uint32_t>(right)));
        if (ox >= cols.places || cols.start(ox) + cols.padding != right) continue;
        const int64_t tap = ky * cols.kernel + kx, place = oy * cols.places + ox;
        sum = static_cast<C>(sum + convert<C>(from[tap * columns.row + place * columns.place]));
      }
    }
    out.plane(first + p)[y * out.row + x * out.column] = convert<T>(sum);
  }
}

}  // namespace

void CudaBackend::run(const call::Im2col& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t oh = call.window.places(0, call.x.size(2)),
                ow = call.window.places(1, call.x.size(3));
  const Axis rows(call.window, 0, call.x.size(2), oh), cols(call.window, 1, call.x.size(3), ow);
  const int64_t each = call.window.kernel[0] * call.window.kernel[1] * oh * ow;
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    const Planes<const T> from(call.x);
    const Columns<T> to(call.out, call.window, call.x.size(1), ow);
    each_run("im2col", call.x.size(0) * call.x.size(1), each, [&](uint32_t first, uint32_t count) {
      launch("im2col", im2col_kernel<T>, loop_blocks(count), dim3(kThreads), 0, from, to, rows,
             cols, Divider(static_cast<uint32_t>(oh * ow)), Divider(static_cast<uint32_t>(each)),
             first, count);
    });
  });
}

void CudaBackend::run(const call::Col2im& call) {
  if (call.out.numel() == 0) return;
  if (call.columns.numel() == 0) return run(call::Fill{call.out, 0});
  const DeviceGuard guard(index_);
  const int64_t oh = call.window.places(0, call.out.size(2)),
                ow = call.window.places(1, call.out.size(3));
  const Axis rows(call.window, 0, call.out.size(2), oh), cols(call.window, 1, call.out.size(3), ow);
  const int64_t each = call.out.size(2) * call.out.size(3);
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    const Columns<const T> from(call.columns, call.window, call.out.size(1), ow);
    const Planes<T> to(call.out);
    const int64_t planes = call.out.size(0) * call.out.size(1);
    each_run("col2im", planes, each, [&](uint32_t first, uint32_t count) {
      launch("col2im", col2im_kernel<T>, loop_blocks(count), dim3(kThreads), 0, from, to, rows,
             cols, Divider(static_cast<uint32_t>(call.out.size(3))),
             Divider(static_cast<uint32_t>(each)), first, count);
    });
  });
}

}  // namespace hero::cuda
