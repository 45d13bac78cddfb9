// A convolution as a product, whose second factor is packed straight from a padded copy of the
// image.
#include <cmath>
#include <limits>

#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/nn/conv_phases.h>
#include <hero/core/cpu/nn/conv_taps.h>
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

// w = the sum over all images, a product each, of the gradient of the weight of each group.
void add_group_weights(const Convolution& of, const float* y, float* w) {
  Convolution one = of;
  one.images = one.groups = 1;
  one.channels /= of.groups;
  one.outputs /= of.groups;
  const ShiftedRows windows = windows_of(one, padded_image_of(one));
  const int64_t places = one.outputs * windows.columns();
  const int64_t size = one.outputs * one.channels * one.taps();
  parallel_for(of.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      Convolution part = one;
      for (int64_t n = 0; n < of.images; ++n) {
        part.x = static_cast<const float*>(of.x) + n * of.x_strides[0] +
                 g * one.channels * of.x_strides[1];
        const PaddedCopies<float> copies(part);
        const ShiftedSums<float> sums(one.outputs, 1, 1, windows);
        sums.add(y + (n * of.groups + g) * places, 0, copies.data(), 0, n == 0, w + g * size);
      }
    }
  });
}

// w += the gradient of one volume, a product for every `planes` planes of places.
void add_volume_weights(const Convolution& of, const float* y, int64_t planes, bool fresh,
                        float* w) {
  const PaddedCopies<float> copies(of);
  const ShiftedRows all = windows_of(of, copies.image());
  const int64_t lines = of.places[1], area = lines * of.places[2], places = all.columns();
  const Workspace<float> room(of.outputs * std::min(planes, of.places[0]) * area);
  for (int64_t begin = 0; begin < of.places[0]; begin += planes) {
    const int64_t end = std::min(begin + planes, of.places[0]), each = (end - begin) * area;
    ShiftedRows part{all.steps, {}, all.width};
    part.rows.assign(all.rows.begin() + begin * lines, all.rows.begin() + end * lines);
    for (int64_t o = 0; o < of.outputs; ++o) {
      std::copy_n(y + o * places + begin * area, each, room.data() + o * each);
    }
    const ShiftedSums<float> sums(of.outputs, 1, 1, part);
    sums.add(room.data(), 0, copies.data(), 0, fresh && begin == 0, w);
  }
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

int64_t back_padding(const Convolution& of, int axis) { return reached_padding(of, axis); }

template <class T>
void convolve(const Convolution& of, const T* w, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    if (of.groups > 1) return convolve_groups(of, w, {}, y);
  }
  const ShiftedRows windows = windows_of(of, padded_image_of(of));
  const auto rows = static_cast<int64_t>(windows.steps.size());
  const ShiftedProduct<T> product({of.outputs, w, rows}, windows);
  const int64_t each = of.outputs * windows.columns();
  each_copies<T>(of, [&](const PaddedCopies<T>& copies, int64_t first, int64_t count) {
    product.run(count, copies.data(), copies.each(), y + first * each, each);
  });
}

bool convolve_back(const Convolution& of, const float* w, float* y) {
  const int64_t columns = of.outputs / of.groups * of.taps();
  if (!all_finite(of.channels * columns, w)) return false;
  if (of.groups > 1) {
    convolve_groups_back(of, w, {}, y);
    return true;
  }
  const BackPhases phases(of);
  const int64_t pitch = round_up(of.channels, micro::kLanes<float>);
  const Workspace<float> turned(columns * pitch);
  const Workspace<float> gathered(phases.is_one() ? 0 : columns * pitch);
  turn(of.channels, columns, w, pitch, turned.data());
  const int64_t most = std::min(of.at_once, of.images) * of.outputs;
  const Workspace<float> room(phases.is_one() ? 0 : phases.size(most));
  each_copies<float>(phases.padded(), [&](const PaddedCopies<float>& copies, int64_t first,
                                          int64_t count) {
    float* const to = y + phases.size(first * of.outputs);
    const int64_t planes = count * of.outputs;
    phases.each(planes, phases.is_one() ? to : room.data(), [&](const BackPhase& phase, float* c) {
      const int64_t each = of.outputs * phase.places();
      const auto taps = static_cast<int64_t>(phase.taps.size());
      if (taps == 0) return void(std::fill_n(c, count * each, 0.0f));
      const float* weights = turned.data();
      if (!phases.is_one()) {
        gather_taps(of, phase, pitch, turned.data(), gathered.data());
        weights = gathered.data();
      }
      const ShiftedProduct<float> product({of.outputs, weights, taps * pitch, taps, pitch},
                                          phase.windows);
      product.run(count, copies.data(), copies.each(), c, each);
    });
    if (!phases.is_one()) phases.join(planes, phases.parts(planes, room.data()), to);
  });
  return true;
}

void add_weights(const Convolution& of, const float* y, int64_t chain, bool fresh, float* w) {
  if (of.is_depthwise()) return depthwise_weights(of, y, w);
  if (of.groups > 1 && have_lanes(of.channels / of.groups, of.outputs / of.groups)) {
    return group_weights(of, y, w);
  }
  if (of.groups > 1) return add_group_weights(of, y, w);
  if (of.places[0] > 1) return add_volume_weights(of, y, chain, fresh, w);
  const int64_t each = of.outputs * of.places[1] * of.places[2];
  if (TapSums::can(of) && all_finite(of.images * each, y)) {
    return TapSums(of, chain).add(y, fresh, w);
  }
  const PaddedCopies<float> copies(of);
  const ShiftedRows windows = windows_of(of, copies.image());
  const ShiftedSums<float> sums(of.outputs, of.images, chain, windows);
  sums.add(y, each, copies.data(), copies.each(), fresh, w);
}

template void convolve(const Convolution&, const float*, float*);
template void convolve(const Convolution&, const double*, double*);

}  // namespace hero::core::cpu
