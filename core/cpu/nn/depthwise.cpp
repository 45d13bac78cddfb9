// Depthwise convolutions, whose groups have one channel and one output, and the gradients of their
// inputs, with channels side by side: a vector holds one place of some channels, so that all of it
// works however narrow the planes are.
#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
#include <vector>

#include <hero/core/cpu/nn/channel_lanes.h>
#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/nn/conv_phases.h>

namespace hero::core::cpu {

namespace {

constexpr std::array kLinePieces = {1, 2, 4, 7, 14};  // places, whose sums are in registers
constexpr int64_t kMostLaneBytes = 384 << 10;         // of a padded copy, 0.4 of a 1 MiB cache

using LaneSums = micro::Vector<float>;

// What a place adds up: products of windows' elements, which lie at steps[p], in order.
struct LaneSteps {
  std::vector<int64_t> steps;
  bool rounds_products;  // before they are added
  bool ends_odd;         // a zero is added before the last step
};

// The sums of `count` places of a line, whose windows lie side by side.
template <int count>
[[gnu::noinline]] void add_line(const LaneSteps& of, const float* w, const float* from, float* to,
                                int64_t to_step) {
  const auto k = static_cast<int64_t>(of.steps.size());
  const int64_t* const steps = of.steps.data();
  LaneSums sums[count] = {};
  const auto each_step = [&](int64_t begin, int64_t end, const auto& add) {
    for (int64_t p = begin; p < end; ++p) {
      const float* const at = from + steps[p];
      const LaneSums weight = micro::load(w + p * kChannelLanes);
#pragma GCC unroll 14
      for (int v = 0; v < count; ++v) add(sums[v], weight, micro::load(at + v * kChannelLanes));
    }
  };
  const auto add_product = [](LaneSums& sum, const LaneSums& weight, const LaneSums& x) {
    sum = micro::multiply_add<float>(weight, x, sum);
  };
  if (of.rounds_products) {
    each_step(0, k, [](LaneSums& sum, const LaneSums& weight, const LaneSums& x) {
      sum = sum + micro::multiply_add<float>(weight, x, LaneSums{});
    });
  } else {
    const int64_t last = k - (of.ends_odd ? 1 : 0);
    each_step(0, last, add_product);
    if (last < k) {
      for (LaneSums& sum : sums) sum = sum + LaneSums{};
      each_step(last, k, add_product);
    }
  }
  for (int v = 0; v < count; ++v) micro::store<float>(to + v * to_step, sums[v]);
}

void add_piece(int count, const LaneSteps& of, const float* w, const float* from, float* to,
               int64_t to_step) {
  const auto add = count == 14  ? add_line<14>
                   : count == 7 ? add_line<7>
                   : count == 4 ? add_line<4>
                   : count == 2 ? add_line<2>
                                : add_line<1>;
  add(of, w, from, to, to_step);
}

// Where the results of a phase go among those of all: places in the order of the output.
struct LanePlaces {
  int64_t first, line, column;
};

// Every s-th place of every s-th line, which are reached by the same taps.
class LanePhase {
 public:
  // A channel multiplies the element at windows.steps[p] by its weight taps[p], of `w_step` of
  // them. `rounds_products`: before they are added.
  template <class T>
  [[gnu::cold]] LanePhase(const ShiftedRows& windows, const LanePlaces& to, int64_t channels,
                          bool rounds_products, const T* w, int64_t w_step,
                          const std::vector<int64_t>& taps)
      : lines_(windows.rows), width_(windows.width), to_(to) {
    constexpr bool is_half = !std::is_same_v<T, float>;
    const auto k = static_cast<int64_t>(windows.steps.size());
    of_ = {{}, rounds_products, is_half && k % 2 != 0};
    w_.resize(static_cast<size_t>(ceil_div(channels, kChannelLanes) * kChannelLanes * k));
    for (int64_t p = 0; p < k; ++p) {
      // of two elements the second one first, as a native product of halves has them
      const auto from = static_cast<size_t>(is_half && (p ^ 1) < k ? p ^ 1 : p);
      of_.steps.push_back(windows.steps[from] * kChannelLanes);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = (c / kChannelLanes * k + p) * kChannelLanes + c % kChannelLanes;
        w_[static_cast<size_t>(at)] = static_cast<float>(w[c * w_step + taps[from]]);
      }
    }
  }

  // Lines [begin, end) of those of the phase, of a block of channels; `to` begins at line `begin`
  // of the output.
  void run(int64_t block, int64_t begin, int64_t end, const float* planes, float* to) const {
    const float* const w =
        w_.data() + block * static_cast<int64_t>(of_.steps.size()) * kChannelLanes;
    for (int64_t line = begin; line < std::min(end, lines()); ++line) {
      const float* const from = planes + lines_[static_cast<size_t>(line)] * kChannelLanes;
      const int64_t place = to_.first + (line - begin) * to_.line;
      each_piece(kLinePieces, width_, [&](int64_t first, int count) {
        add_piece(count, of_, w, from + first * kChannelLanes,
                  to + (place + first * to_.column) * kChannelLanes, to_.column * kChannelLanes);
      });
    }
  }

 private:
  int64_t lines() const { return static_cast<int64_t>(lines_.size()); }

  std::vector<int64_t> lines_;
  int64_t width_;
  LanePlaces to_;
  LaneSteps of_;
  std::vector<float> w_;
};

// Lines of so many columns that together fill whole vectors of places.
int64_t lines_at_once(int64_t width) { return kChannelLanes / std::gcd(width, kChannelLanes); }

// Zeros, in the middle of which planes of some channels at a time are put, channels side by side.
template <class T>
class LanePlanes {
 public:
  explicit LanePlanes(const Convolution& of)
      : of_(of),
        image_(padded_image_of(of)),
        lines_(std::min(lines_at_once(of.size[2]), of.size[1])),
        room_(size(of)),
        turned_(lines_ * of.size[2] * kChannelLanes) {
    std::fill_n(room_.data(), size(of), 0.0f);
  }
  static int64_t size(const Convolution& of) {
    return padded_image_of(of).channel() * kChannelLanes;
  }
  const float* data() const { return room_.data(); }

  void fill(int64_t image, int64_t c, int64_t channels) const {
    const T* const planes =
        static_cast<const T*>(of_.x) + image * of_.x_strides[0] + c * of_.x_strides[1];
    const int64_t width = of_.size[2];
    for (int64_t h = 0; h < of_.size[1]; h += lines_) {
      const int64_t count = std::min(lines_, of_.size[1] - h);
      turn_channels(channels, count * width, planes + h * width, of_.x_strides[1], turned_.data());
      for (int64_t i = 0; i < count; ++i) {
        copy_line(turned_.data() + i * width * kChannelLanes,
                  room_.data() + (h + i + of_.padding[1]) * image_.line() * kChannelLanes);
      }
    }
  }

 private:
  void copy_line(const float* from, float* to) const {
    const int64_t width = of_.size[2], padding = of_.padding[2];
    if (image_.stride == 1) {
      std::copy_n(from, width * kChannelLanes, to + padding * kChannelLanes);
      return;
    }
    for (int64_t x = 0; x < width; ++x) {
      std::copy_n(from + x * kChannelLanes, kChannelLanes,
                  to + image_.column(padding + x) * kChannelLanes);
    }
  }

  const Convolution& of_;
  PaddedImage image_;
  int64_t lines_;
  Workspace<float> room_, turned_;
};

// The results of all phases, whose lines together are `lines` of `width` places.
template <class T>
void run_lanes(const Convolution& padded, const std::vector<LanePhase>& phases, int64_t lines,
               int64_t width, const HalfEnd& end, T* y) {
  constexpr bool is_half = !std::is_same_v<T, float>;
  const int64_t blocks = ceil_div(padded.channels, kChannelLanes), places = lines * width;
  const int64_t at_once = phases.size() > 1 ? lines : std::min(lines, lines_at_once(width));
  const auto grain = std::max<int64_t>(1, kGrain / (places * kChannelLanes));
  parallel_for(padded.images * blocks, grain, [&](int64_t begin, int64_t stop) {
    const LanePlanes<T> planes(padded);
    const Workspace<float> sums(at_once * width * kChannelLanes);
    const Workspace<float> turned(is_half ? at_once * width * kChannelLanes : 0);
    for (int64_t i = begin; i < stop; ++i) {
      const int64_t image = i / blocks, c = i % blocks * kChannelLanes;
      const int64_t channels = std::min(kChannelLanes, padded.channels - c);
      planes.fill(image, c, channels);
      for (int64_t line = 0; line < lines; line += at_once) {
        {
          const FlushSubnormals flush(is_half);
          for (const LanePhase& phase : phases) {
            phase.run(i % blocks, line, line + at_once, planes.data(), sums.data());
          }
        }
        const int64_t count = std::min(at_once, lines - line) * width;
        T* const to = y + (image * padded.channels + c) * places + line * width;
        if constexpr (is_half) {
          turn_places(channels, count, sums.data(), turned.data(), count);
          if (count == places) {
            finish_group(end, c, channels, count, turned.data(), to);
            continue;
          }
          for (int64_t j = 0; j < channels; ++j) {
            finish_group(end, c + j, 1, count, turned.data() + j * count, to + j * places);
          }
        } else {
          turn_places(channels, count, sums.data(), to, places);
        }
      }
    }
  });
}

}  // namespace

// By measurement: halves have an instruction where windows lie side by side, which is faster as
// long as most of a vector works.
template <class T>
bool has_lanes(const Convolution& of, int64_t width, bool joins) {
  const auto bytes = LanePlanes<T>::size(of) * static_cast<int64_t>(sizeof(float));
  if (of.channels != of.groups || of.outputs != of.groups || of.taps() > block_length(of.taps()) ||
      bytes > kMostLaneBytes || 2 * of.channels < round_up(of.channels, kChannelLanes)) {
    return false;
  }
  if (8 * width <= 5 * round_up(width, kChannelLanes)) return true;
  return std::is_same_v<T, float> && (joins || width <= 32 || of.taps() >= 25);
}

template <class T>
void convolve_lanes(const Convolution& of, const T* w, const HalfEnd& end, T* y) {
  Convolution one = of;
  one.channels = 1;
  std::vector<int64_t> taps(static_cast<size_t>(of.taps()));
  std::iota(taps.begin(), taps.end(), 0);
  std::vector<LanePhase> phases;
  phases.emplace_back(windows_of(one, padded_image_of(of)), LanePlaces{0, of.places[2], 1},
                      of.channels, false, w, of.taps(), taps);
  run_lanes(of, phases, of.places[1], of.places[2], end, y);
}

template <class T>
void convolve_lanes_back(const BackPhases& phases, const Convolution& of, const T* w,
                         const HalfEnd& end, T* y) {
  std::vector<LanePhase> all;
  for (const BackPhase& phase : phases.all()) {
    const LanePlaces to{phase.rows.first * of.places[2] + phase.columns.first,
                        of.stride[1] * of.places[2], of.stride[2]};
    all.emplace_back(phase.windows, to, of.channels, std::is_same_v<T, float>, w, of.taps(),
                     phase.taps);
  }
  run_lanes(phases.padded(), all, of.places[1], of.places[2], end, y);
}

template bool has_lanes<float>(const Convolution&, int64_t, bool);
template bool has_lanes<BFloat16>(const Convolution&, int64_t, bool);
template void convolve_lanes(const Convolution&, const float*, const HalfEnd&, float*);
template void convolve_lanes(const Convolution&, const BFloat16*, const HalfEnd&, BFloat16*);
template void convolve_lanes_back(const BackPhases&, const Convolution&, const float*,
                                  const HalfEnd&, float*);
template void convolve_lanes_back(const BackPhases&, const Convolution&, const BFloat16*,
                                  const HalfEnd&, BFloat16*);

}  // namespace hero::core::cpu
