// A convolution as a product, whose second factor is packed straight from a padded copy of the
// image.
#include <cmath>
#include <limits>

#include <hero/core/cpu/nn/convolve_windows.h>
#include <hero/core/cpu/products/gemm_shifted_sums.h>

namespace hero::core::cpu {

namespace {

bool all_finite(int64_t n, const float* x) {
  int bad = 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) bad |= !(std::fabs(x[i]) <= std::numeric_limits<float>::max());
  return bad == 0;
}

// to [columns, pitch] = from [rows, columns], turned; the pitch is whole vectors.
void turn(int64_t rows, int64_t columns, const float* from, int64_t pitch, float* to) {
  constexpr int64_t lanes = micro::kLanes<float>, strip = 8 * lanes;
  parallel_for(ceil_div(columns, strip), 1, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin * strip; column < std::min(columns, end * strip); column += strip) {
      const int64_t width = std::min(strip, columns - column);
      for (int64_t row = 0; row < rows; row += lanes) {
        const int64_t count = std::min(lanes, rows - row);
        micro::transpose_lanes(count, width, from + row * columns + column, columns,
                               to + column * pitch + row, pitch);
      }
    }
  });
}

}  // namespace

int64_t padded_image(int64_t channels, const int64_t (&size)[3], const int64_t (&padding)[3],
                     int64_t width_stride) {
  int64_t before = channels, after = channels;
  for (int i = 0; i < 3; ++i) {
    if (padding[i] > 1 << 20 || size[i] > int64_t{1} << 40) return -1;
    before *= size[i];
    after *= size[i] + 2 * padding[i];
    if (after > 4 * before + (1 << 16)) return -1;
  }
  const PaddedImage image = padded_of(size, padding, width_stride);
  return image.phase > 0 ? channels * image.channel() : -1;
}

template <class T>
void convolve(const Convolution& of, const T* w, T* y) {
  const ShiftedRows windows = windows_of(of, padded_image_of(of));
  const auto rows = static_cast<int64_t>(windows.steps.size());
  const ShiftedProduct<T> product({of.outputs, w, rows}, windows);
  const int64_t each = of.outputs * windows.columns();
  each_copies<T>(of, [&](const PaddedCopies<T>& copies, int64_t first, int64_t count) {
    product.run(count, copies.data(), copies.each(), y + first * each, each);
  });
}

bool convolve_back(const Convolution& of, const float* w, float* y) {
  const int64_t columns = of.outputs * of.taps();
  if (!all_finite(of.channels * columns, w)) return false;
  const ShiftedRows windows = mirrored_windows_of(of, padded_image_of(of));
  const int64_t pitch = round_up(of.channels, micro::kLanes<float>);
  const Workspace<float> turned(columns * pitch);
  turn(of.channels, columns, w, pitch, turned.data());
  const ShiftedProduct<float> product(
      {of.outputs, turned.data(), of.taps() * pitch, of.taps(), pitch}, windows);
  const int64_t each = of.outputs * windows.columns();
  each_copies<float>(of, [&](const PaddedCopies<float>& copies, int64_t first, int64_t count) {
    product.run(count, copies.data(), copies.each(), y + first * each, each);
  });
  return true;
}

void add_weights(const Convolution& of, const float* y, int64_t chain, bool fresh, float* w) {
  const PaddedCopies<float> copies(of);
  const ShiftedRows windows = windows_of(of, copies.image());
  const ShiftedSums<float> sums(of.outputs, of.images, chain, windows);
  sums.add(y, of.outputs * windows.columns(), copies.data(), copies.each(), fresh, w);
}

template void convolve(const Convolution&, const float*, float*);
template void convolve(const Convolution&, const double*, double*);

}  // namespace hero::core::cpu
