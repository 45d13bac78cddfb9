// Convolutions of bfloat16 by the machine's products: windows are packed from padded copies of the
// images, bias and activation are applied to float32 sums in the cache, and the rounded results are
// written once.
#include <algorithm>

#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/nn/conv_phases.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_windows.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core::cpu {

namespace {

using bf16::WindowPanel;

// The windows of some images side by side.
class WindowColumns final : public Bf16Columns {
 public:
  WindowColumns(const ShiftedRows& windows, int64_t images, const uint16_t* from, int64_t from_step)
      : windows_(windows),
        places_{images * windows.columns(), from_step, 0},
        from_(reinterpret_cast<const BFloat16*>(from)) {}
  int64_t count() const { return places_.count; }
  void pack(int64_t column, int64_t, int64_t first, int64_t length, uint32_t* to) const override {
    const WindowPanel panel(windows_, places_, column);
    bf16::pack_windows(panel, windows_.steps.data() + first, length, from_, to);
  }

 private:
  const ShiftedRows& windows_;
  ShiftedPlaces places_;
  const BFloat16* from_;
};

// y = the sums and a bias of their row, or relu of that, rounded.
class IntoPlaces final : public HalfSums {
 public:
  IntoPlaces(const ShiftedRows& windows, int64_t images, int64_t outputs, const HalfEnd& end,
             BFloat16* y)
      : windows_(windows),
        places_{images * windows.columns(), 0, outputs * windows.columns()},
        end_(end),
        y_(y) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t, float* sums,
            int64_t step) const override {
    const WindowPanel panel(windows_, places_, column);
    BFloat16 halves[2 * kSumsColumns];
    for (int64_t i = 0; i < rows; ++i) {
      const float* const from = sums + i * step;
      const float bias = end_.bias != nullptr ? end_.bias[row + i] : 0.0f;
      if (end_.is_relu) {
        const kernels::Relu relu;
        each_column(kSumsColumns, [&](int64_t j) { halves[j] = BFloat16(relu(from[j] + bias)); });
      } else if (end_.bias != nullptr) {
        each_column(kSumsColumns, [&](int64_t j) { halves[j] = BFloat16(from[j] + bias); });
      } else {
        each_column(kSumsColumns, [&](int64_t j) { halves[j] = BFloat16(from[j]); });
      }
      bf16::store_places(panel, halves, y_ + (row + i) * windows_.columns());
    }
  }

 private:
  const ShiftedRows& windows_;
  ShiftedPlaces places_;
  const HalfEnd& end_;
  BFloat16* y_;
};

// Rows of windows along the places of some images, of which an odd number gets a zero.
class WindowRows final : public Bf16Rows {
 public:
  WindowRows(const ShiftedRows& windows, int64_t images, const uint16_t* from, int64_t from_step)
      : windows_(windows), from_(reinterpret_cast<const BFloat16*>(from)) {
    const int64_t each = windows.columns();
    for (int64_t i = 0; i < images; ++i) {
      places_ = each_run(windows, i * from_step, kRun, places_,
                         [&](int64_t place, int64_t offset, int64_t count) {
                           runs_.push_back({place, offset, count});
                         });
      if (each % 2 != 0) runs_.push_back({places_++, -1, 1});
    }
  }
  int64_t count() const { return places_; }
  void copy(int64_t row, int64_t count, int64_t first, int64_t length, uint32_t* to,
            int64_t row_words) const override {
    const auto behind = [](const bf16::HalfRun& run, int64_t place) { return run.place < place; };
    const auto begin = std::lower_bound(runs_.begin(), runs_.end(), first, behind);
    const auto end = std::lower_bound(begin, runs_.end(), first + length, behind);
    const bf16::HalfRun* const runs = runs_.data();
    for (int64_t i = 0; i < count; ++i) {
      bf16::copy_runs(runs + (begin - runs_.begin()), runs + (end - runs_.begin()), first,
                      from_ + windows_.steps[static_cast<size_t>(row + i)],
                      reinterpret_cast<BFloat16*>(to + i * row_words));
    }
  }

 private:
  static constexpr int64_t kRun =
      kBf16Chain;  // every block ends at a multiple of it, or at the end

  const ShiftedRows& windows_;
  const BFloat16* from_;
  std::vector<bf16::HalfRun> runs_;
  int64_t places_ = 0;
};

// y [images, outputs, each] with all places of an output as a column, as WindowRows has them.
class PlaceColumns final : public Bf16Columns {
 public:
  PlaceColumns(const BFloat16* y, int64_t outputs, int64_t each)
      : y_(y), outputs_(outputs), each_(each) {}
  void pack(int64_t column, int64_t count, int64_t first, int64_t length,
            uint32_t* to) const override {
    const int64_t even = round_up(each_, 2);
    for (int64_t at = first; at < first + length;) {
      const int64_t image = at / even, place = at % even;
      const int64_t here = std::min(even - place, first + length - at);
      bf16::pack_columns(count, std::min(here, each_ - place),
                         y_ + (image * outputs_ + column) * each_ + place, each_, 1,
                         to + (at - first) / 2 * kSumsColumns);
      at += here;
    }
  }

 private:
  const BFloat16* y_;
  int64_t outputs_, each_;
};

// The sums of which images these are, and what those before them gave: [rows, outputs].
struct WeightSums {
  float* former;
  bool is_first, is_last;
};

// w [outputs, rows] = the sums over all images, turned and rounded.
class IntoWeights final : public HalfSums {
 public:
  IntoWeights(const WeightSums& part, int64_t outputs, int64_t rows, BFloat16* w)
      : part_(part), outputs_(outputs), rows_(rows), w_(w) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      float* const sum = sums + i * step;
      const int64_t at = (row + i) * outputs_ + column;
      float* const former = part_.is_first && part_.is_last ? nullptr : part_.former + at;
      if (!part_.is_first) each_column(columns, [=](int64_t j) { sum[j] = former[j] + sum[j]; });
      if (!part_.is_last) each_column(columns, [=](int64_t j) { former[j] = sum[j]; });
    }
    if (part_.is_last) bf16::store_turned(rows, columns, sums, w_ + column * rows_ + row, rows_);
  }

 private:
  const WeightSums& part_;
  int64_t outputs_, rows_;
  BFloat16* w_;
};

bool are_finite(int64_t n, const BFloat16* x) {
  int bad = 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) bad |= (x[i].bits & 0x7F80) == 0x7F80;
  return bad == 0;
}

// to [columns, outputs] = w [outputs, columns], turned.
void turn_weights(const BFloat16* w, int64_t outputs, int64_t columns, BFloat16* to) {
  const int64_t words = round_up(outputs, 32) / 2;
  parallel_for(ceil_div(columns, kSumsColumns), 1, [&](int64_t begin, int64_t end) {
    const Workspace<uint32_t> rows(kSumsColumns * words);
    for (int64_t at = begin * kSumsColumns; at < std::min(columns, end * kSumsColumns);
         at += kSumsColumns) {
      const int64_t count = std::min(kSumsColumns, columns - at);
      // whole tiles of 16 rows and 32 outputs are written
      bf16::pack_whole_rows(count, outputs, w + at, 1, columns, rows.data(), words);
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(reinterpret_cast<const BFloat16*>(rows.data() + i * words), outputs,
                    to + (at + i) * outputs);
      }
    }
  });
}

// y [count, outputs, columns of windows] = w [outputs, k] times the windows of some images.
void multiply_windows(const bf16::TileKernel& kernel, int64_t outputs, const ShiftedRows& windows,
                      const BFloat16* w, const HalfEnd& end, const PaddedCopies<uint16_t>& copies,
                      int64_t count, BFloat16* y) {
  const auto k = static_cast<int64_t>(windows.steps.size());
  const WindowColumns columns(windows, count, copies.data(), copies.each());
  gemm_bf16(kernel, outputs, columns.count(), k, {w, k, 1}, columns,
            IntoPlaces(windows, count, outputs, end, y));
}

// y [count, outputs, places] where nothing is multiplied.
void end_zeros(int64_t count, int64_t outputs, int64_t places, const HalfEnd& end, BFloat16* y) {
  for (int64_t i = 0; i < count * outputs; ++i) {
    const float bias = end.bias != nullptr ? end.bias[i % outputs] : 0.0f;
    std::fill_n(y + i * places, places, BFloat16(end.is_relu ? kernels::Relu()(bias) : bias));
  }
}

// Whether all groups are computed at once by dot_kernel(), for so many rows of results in each: at
// level amx where they do not fill a tile. A product of few rows for each group of each image takes
// ten times as long as all of them together.
bool joins_groups(const bf16::TileKernel& kernel, int64_t rows) {
  constexpr int64_t kTileRows = 16;
  return bf16::kHasGroups && (&kernel == &bf16::dot_kernel() || rows < kTileRows);
}

// Calls body(the convolution of one group of an image, w, what follows, y) for all of them.
template <class Body>
void each_group_alone(const Convolution& of, const BFloat16* w, const HalfEnd& end, BFloat16* y,
                      int64_t w_size, const Body& body) {
  Convolution one = of;
  one.images = one.groups = one.at_once = 1;
  one.channels /= of.groups;
  one.outputs /= of.groups;
  const int64_t size = one.outputs * of.places[0] * of.places[1] * of.places[2];
  for (int64_t i = 0; i < of.images * of.groups; ++i) {
    const int64_t image = i / of.groups, group = i % of.groups;
    one.x = static_cast<const BFloat16*>(of.x) + image * of.x_strides[0] +
            group * one.channels * of.x_strides[1];
    const float* const bias = end.bias != nullptr ? end.bias + group * one.outputs : nullptr;
    body(one, w + group * w_size, HalfEnd{bias, end.is_relu}, y + i * size);
  }
}

}  // namespace

void convolve_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* w,
                   const HalfEnd& end, BFloat16* y) {
  if (of.groups > 1) {
    if (joins_groups(kernel, of.outputs / of.groups)) return convolve_groups(of, w, end, y);
    const int64_t size = of.outputs / of.groups * (of.channels / of.groups) * of.taps();
    return each_group_alone(of, w, end, y, size,
                            [&](const Convolution& one, const BFloat16* own, const HalfEnd& e,
                                BFloat16* to) { convolve_bf16(kernel, one, own, e, to); });
  }
  const ShiftedRows windows = windows_of(of, padded_image_of(of));
  each_copies<uint16_t>(of,
                        [&](const PaddedCopies<uint16_t>& copies, int64_t first, int64_t count) {
                          multiply_windows(kernel, of.outputs, windows, w, end, copies, count,
                                           y + first * of.outputs * windows.columns());
                        });
}

bool convolve_back_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* w,
                        const HalfEnd& end, BFloat16* y) {
  const int64_t columns = of.outputs / of.groups * of.taps();
  if (!are_finite(of.channels * columns, w)) return false;
  if (of.groups > 1 && joins_groups(kernel, of.outputs / of.groups)) {
    convolve_groups_back(of, w, end, y);
    return true;
  }
  if (of.groups > 1) {
    each_group_alone(of, w, end, y, of.channels / of.groups * columns,
                     [&](const Convolution& one, const BFloat16* own, const HalfEnd& e,
                         BFloat16* to) { convolve_back_bf16(kernel, one, own, e, to); });
    return true;
  }
  const BackPhases phases(of);
  const Workspace<BFloat16> turned(of.channels * columns);
  const Workspace<BFloat16> gathered(phases.is_one() ? 0 : of.channels * columns);
  turn_weights(w, of.channels, columns, turned.data());
  const int64_t most = std::min(of.at_once, of.images) * of.outputs;
  const Workspace<BFloat16> room(phases.is_one() ? 0 : phases.size(most));
  each_copies<uint16_t>(
      phases.padded(), [&](const PaddedCopies<uint16_t>& copies, int64_t first, int64_t count) {
        BFloat16* const to = y + phases.size(first * of.outputs);
        BFloat16* const begin = phases.is_one() ? to : room.data();
        const int64_t planes = count * of.outputs;
        phases.each(planes, begin, [&](const BackPhase& phase, BFloat16* c) {
          if (phase.taps.empty()) return end_zeros(count, of.outputs, phase.places(), end, c);
          const BFloat16* weights = turned.data();
          if (!phases.is_one()) {
            gather_taps(of, phase, of.channels, turned.data(), gathered.data());
            weights = gathered.data();
          }
          multiply_windows(kernel, of.outputs, phase.windows, weights, end, copies, count, c);
        });
        if (!phases.is_one()) phases.join(planes, phases.parts(planes, room.data()), to);
      });
  return true;
}

void weights_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* y,
                  BFloat16* w) {
  if (of.is_depthwise()) return depthwise_weights(of, y, w);
  if (of.groups > 1) return group_weights(of, y, w);
  const ShiftedRows windows = windows_of(of, padded_image_of(of));
  const auto rows = static_cast<int64_t>(windows.steps.size());
  const bool waits = of.at_once < of.images;
  const Workspace<float> former(waits ? rows * of.outputs : 0);
  each_copies<uint16_t>(
      of, [&](const PaddedCopies<uint16_t>& copies, int64_t first, int64_t count) {
        const WindowRows places(windows, count, copies.data(), copies.each());
        const WeightSums part{former.data(), first == 0, first + count == of.images};
        gemm_bf16(
            kernel, rows, of.outputs, places.count(), places,
            PlaceColumns(y + first * of.outputs * windows.columns(), of.outputs, windows.columns()),
            IntoWeights(part, of.outputs, rows, w));
      });
}

}  // namespace hero::core::cpu
