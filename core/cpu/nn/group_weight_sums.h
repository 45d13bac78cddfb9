#pragma once
// Bands of lines with channels side by side, and the sums of a weight's gradient over the places of
// a band. Only core/cpu/nn/group_weights.cpp includes this.
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/cpu/nn/channel_lanes.h>
#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/nn/conv_windows.h>

namespace hero::core::cpu {

inline constexpr int kMostTaps = 12;             // sums in registers
inline constexpr int64_t kLaneBand = 128 << 10;  // of lines of the input

// Where the window of a place begins in a band of lines, and the place itself.
struct WindowAt {
  int32_t x, y;
};

// sums[t] += x[at + taps[t]] y[at], one place after the other.
template <int taps>
void add_window_places(const WindowAt* at, const WindowAt* end, const float* x, const float* y,
                       const int64_t* tap, float* sums) {
  micro::Vector<float> sum[taps];
#pragma GCC unroll 12
  for (int t = 0; t < taps; ++t) sum[t] = micro::load(sums + t * kChannelLanes);
  for (; at != end; ++at) {
    const micro::Vector<float> factor = micro::load(y + at->y);
    const float* const from = x + at->x;
#pragma GCC unroll 12
    for (int t = 0; t < taps; ++t) {
      sum[t] = micro::multiply_add<float>(micro::load(from + tap[t]), factor, sum[t]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < taps; ++t) micro::store<float>(sums + t * kChannelLanes, sum[t]);
}

// sums[o] += x[at] y[at][o] for outputs that lie side by side, one place after the other.
template <int outputs>
void add_window_outputs(const WindowAt* at, const WindowAt* end, const float* x, const float* y,
                        float* sums) {
  micro::Vector<float> sum[outputs];
#pragma GCC unroll 16
  for (int o = 0; o < outputs; ++o) sum[o] = micro::load(sums + o * kChannelLanes);
  for (; at != end; ++at) {
    const micro::Vector<float> channels = micro::load(x + at->x);
    const float* const factors = y + at->y;
#pragma GCC unroll 16
    for (int o = 0; o < outputs; ++o) {
      const micro::Vector<float> factor = factors[o] - micro::Vector<float>{};
      sum[o] = micro::multiply_add<float>(channels, factor, sum[o]);
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < outputs; ++o) micro::store<float>(sums + o * kChannelLanes, sum[o]);
}

// Channels of several groups beside each other: lane l is of the group whose outputs begin with
// factor first[l].
using LaneIndex [[gnu::vector_size(sizeof(micro::Vector<float>))]] = int32_t;

// Lane index[l] of the vector in lane l. Clang shuffles by constants alone.
inline micro::Vector<float> shuffled(micro::Vector<float> vector, LaneIndex index) {
#ifdef __clang__
  micro::Vector<float> result = vector;
  for (int64_t l = 0; l < kChannelLanes; ++l) result[l] = vector[index[l]];
  return result;
#else
  return __builtin_shuffle(vector, index);
#endif
}

// sums[(t * all + o) * lanes] += x[at + taps[t]] y[at][first + o] for some taps and outputs of the
// groups, which have `all` each.
template <int taps, int outputs>
void add_joined_outputs(const WindowAt* at, const WindowAt* end, const float* x, const float* y,
                        const int64_t* tap, LaneIndex first, int64_t all, float* sums) {
  micro::Vector<float> sum[taps][outputs];
#pragma GCC unroll 4
  for (int t = 0; t < taps; ++t) {
#pragma GCC unroll 4
    for (int o = 0; o < outputs; ++o) sum[t][o] = micro::load(sums + (t * all + o) * kChannelLanes);
  }
  for (; at != end; ++at) {
    const micro::Vector<float> factors = micro::load(y + at->y);
    const float* const from = x + at->x;
    micro::Vector<float> factor[outputs];
#pragma GCC unroll 4
    for (int o = 0; o < outputs; ++o) factor[o] = shuffled(factors, first + o);
#pragma GCC unroll 4
    for (int t = 0; t < taps; ++t) {
      const micro::Vector<float> channels = micro::load(from + tap[t]);
#pragma GCC unroll 4
      for (int o = 0; o < outputs; ++o) {
        sum[t][o] = micro::multiply_add<float>(channels, factor[o], sum[t][o]);
      }
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < taps; ++t) {
#pragma GCC unroll 4
    for (int o = 0; o < outputs; ++o) {
      micro::store<float>(sums + (t * all + o) * kChannelLanes, sum[t][o]);
    }
  }
}

template <int... i>
constexpr auto add_window_places_of(std::integer_sequence<int, i...>) {
  return std::array{add_window_places<i + 1>...};
}

// What all blocks of channels share.
class LanePlan {
 public:
  [[gnu::cold]] LanePlan(const Convolution& of, bool is_half)
      : of_(of),
        line_(of.size[2] + 2 * of.padding[2]),
        reach_(of.dilation[1] * (of.kernel[1] - 1) + 1),
        band_(band_lines()),
        steps_(round_up(places(), is_half ? 2 : 1)),
        block_(is_half ? kBf16Chain : block_length(places())) {
    for (int64_t tap = 0; tap < of.taps(); ++tap) {
      const int64_t down = tap / of.kernel[2] * of.dilation[1];
      taps_.push_back((down * line_ + tap % of.kernel[2] * of.dilation[2]) * kChannelLanes);
    }
    for (int64_t i = 0; i < steps_; ++i) windows_.push_back(window_at(is_half ? i ^ 1 : i));
  }

  int64_t places() const { return of_.places[1] * of_.places[2]; }
  int64_t band_places() const { return band_ * of_.places[2]; }
  int64_t lines() const { return (band_ - 1) * of_.stride[1] + reach_; }
  int64_t line() const { return line_; }
  // The lines, and as many zeros behind them as a window reaches.
  int64_t room() const { return (lines() + reach_ + 1) * line_ * kChannelLanes; }
  int64_t steps() const { return steps_; }
  int64_t block() const { return block_; }

  // Steps [begin, end), of one band: the lines of the input lie at x, the places at y, one output
  // for each channel.
  void add_depthwise(int64_t begin, int64_t end, const float* x, const float* y,
                     float* sums) const {
    static constexpr auto kernels =
        add_window_places_of(std::make_integer_sequence<int, kMostTaps>{});
    const int64_t count = of_.taps(), parts = ceil_div(count, kMostTaps);
    for (int64_t i = 0; i < parts; ++i) {
      const auto [first, last] = part_of(count, parts, i);
      kernels[static_cast<size_t>(last - first - 1)](windows_.data() + begin, windows_.data() + end,
                                                     x, y, taps_.data() + first,
                                                     sums + first * kChannelLanes);
    }
  }

  // The same for `count` outputs of a group from the `first_output`-th of `outputs` on, whose
  // places begin at y, each with a tap's sums of all channels: sums [taps, outputs, lanes].
  void add_group(int64_t begin, int64_t end, const float* x, const float* y, int64_t count,
                 int64_t outputs, int64_t first_output, float* sums) const {
    constexpr int kLanes = kChannelLanes;
    sums += first_output * kLanes;
    for (size_t tap = 0; tap < taps_.size(); ++tap, sums += outputs * kLanes) {
      for (int64_t o = 0; o < count;) {
        const int64_t left = count - o, some = left >= kLanes ? kLanes : left >= 4 ? 4 : 1;
        const auto kernel = some == kLanes ? add_window_outputs<kLanes>
                            : some == 4    ? add_window_outputs<4>
                                           : add_window_outputs<1>;
        kernel(windows_.data() + begin, windows_.data() + end, x + taps_[tap], y + o,
               sums + o * kLanes);
        o += some;
      }
    }
  }

  // The same for groups beside each other, of so many channels and outputs.
  void add_groups(int64_t begin, int64_t end, const float* x, const float* y, int64_t channels,
                  int64_t outputs, float* sums) const {
    static constexpr auto kernels = std::array{add_joined_outputs<1, 1>, add_joined_outputs<1, 4>,
                                               add_joined_outputs<3, 1>, add_joined_outputs<3, 4>};
    LaneIndex first;
    for (int64_t lane = 0; lane < kChannelLanes; ++lane) {
      first[lane] = static_cast<int32_t>(lane / channels * outputs);
    }
    const auto count = static_cast<int64_t>(taps_.size());
    for (int64_t t = 0; t < count; t += count - t >= 3 ? 3 : 1) {
      for (int64_t o = 0; o < outputs; o += outputs - o >= 4 ? 4 : 1) {
        const size_t which = (count - t >= 3 ? 2 : 0) + (outputs - o >= 4 ? 1 : 0);
        kernels[which](windows_.data() + begin, windows_.data() + end, x, y, taps_.data() + t,
                       first + static_cast<int32_t>(o), outputs,
                       sums + (t * outputs + o) * kChannelLanes);
      }
    }
  }

 private:
  // Lines of the output at a time; an even number, since elements of halves are taken in pairs.
  int64_t band_lines() const {
    const auto bytes = line_ * kChannelLanes * static_cast<int64_t>(sizeof(float));
    const int64_t fit = (kLaneBand / bytes - reach_) / of_.stride[1];
    return std::min(of_.places[1], std::max<int64_t>(fit, 1) / 2 * 2 + 2);
  }
  // Behind the places there is a zero, at both.
  WindowAt window_at(int64_t place) const {
    if (place == places()) {
      return {static_cast<int32_t>(lines() * line_ * kChannelLanes),
              static_cast<int32_t>(band_places() * kChannelLanes)};
    }
    const int64_t row = place / of_.places[2] % band_, column = place % of_.places[2];
    return {static_cast<int32_t>((row * of_.stride[1] * line_ + column * of_.stride[2]) *
                                 kChannelLanes),
            static_cast<int32_t>((row * of_.places[2] + column) * kChannelLanes)};
  }

  const Convolution& of_;
  int64_t line_, reach_, band_, steps_, block_;
  std::vector<int64_t> taps_;
  std::vector<WindowAt> windows_;
};

// A thread's lines of the input and places of the output, channels side by side.
template <class T>
class LaneBand {
 public:
  LaneBand(const Convolution& of, const LanePlan& plan)
      : of_(of),
        plan_(plan),
        width_(of.size[2]),
        x_(plan.room()),
        y_((plan.band_places() + 1) * kChannelLanes),
        turned_(std::min(plan.lines(), of.size[1]) * width_ * kChannelLanes) {
    std::fill_n(x_.data(), plan.room(), 0.0f);
    std::fill_n(y_.data() + plan.band_places() * kChannelLanes, kChannelLanes, 0.0f);
  }

  // Of channels [c, c + channels) of an image, whose band begins at line `row` of the output.
  void fill_x(int64_t image, int64_t c, int64_t channels, int64_t row) const {
    const int64_t top = row * of_.stride[1] - of_.padding[1];
    const int64_t first = std::clamp<int64_t>(top, 0, of_.size[1]);
    const int64_t last = std::clamp<int64_t>(top + plan_.lines(), first, of_.size[1]);
    const T* const plane =
        static_cast<const T*>(of_.x) + image * of_.x_strides[0] + c * of_.x_strides[1];
    turn_channels(channels, (last - first) * width_, plane + first * width_, of_.x_strides[1],
                  turned_.data());
    for (int64_t h = top; h < top + plan_.lines(); ++h) {
      float* const to = x_.data() + ((h - top) * plan_.line() + of_.padding[2]) * kChannelLanes;
      if (h < first || h >= last) {
        std::fill_n(to, width_ * kChannelLanes, 0.0f);
      } else {
        std::copy_n(turned_.data() + (h - first) * width_ * kChannelLanes, width_ * kChannelLanes,
                    to);
      }
    }
  }
  // Of `outputs` planes from that one on, places of all of them side by side.
  void fill_y(int64_t plane, int64_t outputs, int64_t row, const T* y) const {
    const int64_t begin = row * of_.places[2];
    const int64_t count = std::min(plan_.band_places(), plan_.places() - begin);
    turn_channels(outputs, count, y + plane * plan_.places() + begin, plan_.places(), y_.data());
  }
  const float* x() const { return x_.data(); }
  const float* y() const { return y_.data(); }

 private:
  const Convolution& of_;
  const LanePlan& plan_;
  int64_t width_;
  Workspace<float> x_, y_, turned_;
};

// Calls add(begin, end) for the steps of an image, a band that fill(its first line) has prepared at
// a time, and finish(is_first) where a chain ends.
template <class Fill, class Add, class Finish>
void each_chain(const Convolution& of, const LanePlan& plan, const Fill& fill, const Add& add,
                const Finish& finish) {
  for (int64_t at = 0; at < plan.steps();) {
    if (at % plan.band_places() == 0) fill(at / of.places[2]);
    const int64_t band_end = (at / plan.band_places() + 1) * plan.band_places();
    const int64_t block_end = (at / plan.block() + 1) * plan.block();
    const bool is_last = plan.places() <= band_end;
    const int64_t stop = std::min(block_end, is_last ? plan.steps() : band_end);
    add(at, stop);
    const bool is_first = at < plan.block();
    at = stop;
    if (at == block_end || at == plan.steps()) finish(is_first);
  }
}

}  // namespace hero::core::cpu
