// Depthwise convolutions, whose groups have one channel and one output, and the gradients of their
// inputs, with channels side by side: a vector holds one place of some channels, so that all of it
// works however narrow the planes are.
#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/cpu/nn/channel_lanes.h>
#include <hero/core/cpu/nn/convolve_groups.h>
#include <hero/core/cpu/nn/convolve_phases.h>

namespace hero::core::cpu {

namespace {

constexpr int kLinePlaces = 14;                // sums in registers
constexpr int64_t kMostLaneBytes = 384 << 10;  // of a padded copy, 0.4 of a 1 MiB cache

using LaneSums = micro::Vector<float>;

// What a place adds up: products of windows' elements, which lie at steps[p], in order.
struct LaneSteps {
  std::vector<int64_t> steps;
  bool rounds_products;  // before they are added
  bool ends_odd;         // a zero is added before the last step
};

// The sums of `count` places of a line, whose windows begin `move` elements apart.
template <int count, int move>
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
      for (int v = 0; v < count; ++v) add(sums[v], weight, micro::load(at + v * move));
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

using AddLine = void (*)(const LaneSteps&, const float*, const float*, float*, int64_t);
template <int move, int... i>
constexpr auto add_lines_of(std::integer_sequence<int, i...>) {
  return std::array<AddLine, kLinePlaces>{add_line<i + 1, move>...};
}

// Where the results of a phase go among those of all: places in the order of the output.
struct LanePlaces {
  int64_t first, line, column;
};

// Every s-th place of every s-th line, which are reached by the same taps.
class LanePhase {
 public:
  // weight(c, p) is what a channel multiplies the element at windows.steps[p] by.
  template <class Weight>
  [[gnu::cold]] LanePhase(const ShiftedRows& windows, int64_t move, const LanePlaces& to,
                          int64_t channels, bool is_half, bool rounds_products,
                          const Weight& weight)
      : lines_(windows.rows), width_(windows.width), move_(move), to_(to) {
    const auto k = static_cast<int64_t>(windows.steps.size());
    of_ = {{}, rounds_products, is_half && k % 2 != 0};
    w_.assign(static_cast<size_t>(ceil_div(channels, kChannelLanes) * kChannelLanes * k), 0.0f);
    for (int64_t p = 0; p < k; ++p) {
      // of two elements the second one first, as a native product of halves has them
      const int64_t from = is_half && (p ^ 1) < k ? p ^ 1 : p;
      of_.steps.push_back(windows.steps[static_cast<size_t>(from)] * kChannelLanes);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = (c / kChannelLanes * k + p) * kChannelLanes + c % kChannelLanes;
        w_[static_cast<size_t>(at)] = weight(c, from);
      }
    }
  }

  // Lines [begin, end) of those of the phase, of a block of channels; `to` begins at line `begin`
  // of the output.
  void run(int64_t block, int64_t begin, int64_t end, const float* planes, float* to) const {
    using Counts = std::make_integer_sequence<int, kLinePlaces>;
    static constexpr auto by_one = add_lines_of<int{kChannelLanes}>(Counts{});
    static constexpr auto by_two = add_lines_of<int{2 * kChannelLanes}>(Counts{});
    const auto& kernels = move_ == 1 ? by_one : by_two;
    const float* const w =
        w_.data() + block * static_cast<int64_t>(of_.steps.size()) * kChannelLanes;
    const int64_t parts = ceil_div(width_, kLinePlaces);
    for (int64_t line = begin; line < std::min(end, lines()); ++line) {
      const float* const from = planes + lines_[static_cast<size_t>(line)] * kChannelLanes;
      const int64_t place = to_.first + (line - begin) * to_.line;
      for (int64_t i = 0; i < parts; ++i) {
        const auto [first, last] = part_of(width_, parts, i);
        kernels[static_cast<size_t>(last - first - 1)](
            of_, w, from + first * move_ * kChannelLanes,
            to + (place + first * to_.column) * kChannelLanes, to_.column * kChannelLanes);
      }
    }
  }

 private:
  int64_t lines() const { return static_cast<int64_t>(lines_.size()); }

  std::vector<int64_t> lines_;
  int64_t width_, move_;
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
        line_(of.size[2] + 2 * of.padding[2]),
        lines_(std::min(lines_at_once(of.size[2]), of.size[1])),
        room_(size(of)),
        turned_(lines_ * of.size[2] * kChannelLanes) {
    std::fill_n(room_.data(), size(of), 0.0f);
  }
  static int64_t size(const Convolution& of) {
    return (of.size[1] + 2 * of.padding[1]) * (of.size[2] + 2 * of.padding[2]) * kChannelLanes;
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
        std::copy_n(
            turned_.data() + i * width * kChannelLanes, width * kChannelLanes,
            room_.data() + ((h + i + of_.padding[1]) * line_ + of_.padding[2]) * kChannelLanes);
      }
    }
  }

 private:
  const Convolution& of_;
  int64_t line_, lines_;
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
  if (of.channels != of.groups || of.outputs != of.groups || of.stride[2] > 2 ||
      of.taps() > block_length(of.taps()) || bytes > kMostLaneBytes ||
      2 * of.channels < round_up(of.channels, kChannelLanes)) {
    return false;
  }
  if (8 * width <= 5 * round_up(width, kChannelLanes)) return true;
  return std::is_same_v<T, float> && (joins || width <= 32 || of.taps() >= 25);
}

template <class T>
void convolve_lanes(const Convolution& of, const T* w, const HalfEnd& end, T* y) {
  Convolution one = of;
  one.channels = 1;
  const int64_t taps = of.taps();
  std::vector<LanePhase> phases;
  phases.emplace_back(windows_of(one, padded_of(of.size, of.padding, 1)), of.stride[2],
                      LanePlaces{0, of.places[2], 1}, of.channels, !std::is_same_v<T, float>, false,
                      [=](int64_t c, int64_t p) { return static_cast<float>(w[c * taps + p]); });
  run_lanes(of, phases, of.places[1], of.places[2], end, y);
}

template <class T>
void convolve_lanes_back(const BackPhases& phases, const Convolution& of, const T* w,
                         const HalfEnd& end, T* y) {
  constexpr bool is_half = !std::is_same_v<T, float>;
  std::vector<LanePhase> all;
  for (const BackPhase& phase : phases.all()) {
    const LanePlaces to{phase.rows.first * of.places[2] + phase.columns.first,
                        of.stride[1] * of.places[2], of.stride[2]};
    all.emplace_back(phase.windows, 1, to, of.channels, is_half, !is_half,
                     [&](int64_t c, int64_t p) {
                       const int64_t tap = phase.taps[static_cast<size_t>(p)];
                       return static_cast<float>(w[c * of.taps() + tap]);
                     });
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
