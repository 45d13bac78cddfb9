#pragma once
// The gradient of a convolution's weight as products with the image where it lies, a tap at a time.
// Only core/cpu/nn/conv.cpp includes this.
#include <cstdlib>
#include <limits>
#include <vector>

#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

/// W [m, channels, taps] += the products of Y [images, m, places], finite, with what the taps read
/// of x. Places at which a tap reads zeros around the image are left out: such terms leave a sum
/// that begins with zero as it is. So the bits are those of ShiftedSums, whose `chain` is meant.
/// Of planes without groups.
class TapSums {
 public:
  using T = float;

  /// Whether there are enough channels for rows of one tap, and outputs for what they share, and
  /// all of x is near enough. Channels that lie a multiple of 4 KiB apart would share a few places
  /// of the cache.
  static bool can(const Convolution& of) {
    if (of.x_strides[1] * int64_t{sizeof(T)} % 4096 == 0) return false;
    int64_t reach = 0;
    for (int axis = 0; axis < 5; ++axis) {
      const int64_t size = axis == 0 ? of.images : axis == 1 ? of.channels : of.size[axis - 2];
      reach += (size - 1) * std::abs(of.x_strides[axis]);
    }
    const bool has_rows = of.channels >= 2 * kFewestRows && of.outputs >= 2 * kFewestRows;
    return has_rows && reach <= std::numeric_limits<int32_t>::max();
  }

  [[gnu::cold]] TapSums(const Convolution& of, int64_t chain)
      : of_(of),
        each_(of.places[1] * of.places[2]),
        k_(of.images * each_),
        length_(chain < of.images ? chain * each_ : block_length(k_)),
        panels_(ceil_div(of.channels, micro::kMaxRows)),
        y_panels_(ceil_div(of.outputs, kWidth)),
        turned_(y_panels_ * kWidth * k_) {
    // The same work for all threads, where that leaves a panel enough rows.
    const int64_t shared = round_up(panels_, num_threads());
    if (shared * kFewestRows <= of.channels) panels_ = shared;
    for (int64_t kh = 0; kh < of.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < of.kernel[2]; ++kw) add_tap(kh, kw);
    }
  }

  /// W is as if it held zeros, if `fresh`.
  [[gnu::noinline]] void add(const T* y, bool fresh, T* w) const {
    const int64_t m = of_.outputs;
    parallel_for(y_panels_ * of_.images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t j = t / of_.images * kWidth, i = t % of_.images;
        micro::pack<T, kWidth>(std::min(kWidth, m - j), each_, y + (i * m + j) * each_, each_, 1,
                               turned_.data() + j * k_ + i * each_ * kWidth);
      }
    });
    const int64_t taps = of_.taps();
    parallel_for(panels_, 1, [&](int64_t begin, int64_t end) {
      // Rows of sums that lie a power of two apart would share a few places of the cache.
      const int64_t width = round_up(m, kLanes) + kLanes;
      const Workspace<T> sums(round_up(micro::kMaxRows * taps, kLanes) * width);
      for (int64_t panel = begin; panel < end; ++panel) {
        const auto [first, last] = part_of(of_.channels, panels_, panel);
        for (int64_t block = 0; block * length_ < k_; ++block) {
          for (int64_t j = 0; j < m; j += kWidth) {
            for (int64_t tap = 0; tap < taps; ++tap) {
              multiply(tap, block, first, last - first, j,
                       {sums.data() + tap * width + j, taps * width, 1, std::min(kWidth, m - j),
                        block > 0});
            }
          }
        }
        micro::add_transposed((last - first) * taps, m, sums.data(), width, fresh, w + first * taps,
                              of_.channels * taps);
      }
    });
  }

 private:
  static constexpr int64_t kWidth = micro::kMaxColumns<T>, kLanes = micro::kLanes<T>;
  static constexpr int64_t kFewestRows = 4;
  static constexpr auto kLayout = micro::Layout::unit_steps;

  // The places of a block of k that a tap reads from the image: where in x, and where in the panel
  // of Y, `count` of them from `first` on in the lists. `runs` of them lie side by side in both.
  struct Block {
    int64_t first, count, runs;
  };

  void add_tap(int64_t kh, int64_t kw) {
    const auto of_tap = [&](int axis, int64_t tap) {  // of the window at 0
      return tap * of_.dilation[axis] - of_.padding[axis];
    };
    const auto reached = [&](int axis, int64_t at) {
      const auto from = [&](int64_t x) {  // the first place that reads x or what is behind it
        const int64_t place = x <= at ? 0 : ceil_div(x - at, of_.stride[axis]);
        return std::min(place, of_.places[axis]);
      };
      return std::pair{from(0), from(of_.size[axis])};
    };
    const int64_t at_h = of_tap(1, kh), at_w = of_tap(2, kw);
    const auto lines = reached(1, at_h), columns = reached(2, at_w);
    const int64_t step = of_.stride[2] * of_.x_strides[4];
    const size_t begin = blocks_.size();
    for (int64_t p = 0; p < k_; p += length_) blocks_.push_back({0, 0, 0});
    int64_t next_x = -1, next_place = -1;
    for (int64_t i = 0; i < of_.images; ++i) {
      for (int64_t h = lines.first; h < lines.second; ++h) {
        int64_t place = i * each_ + h * of_.places[2] + columns.first;
        int64_t x = i * of_.x_strides[0] + (h * of_.stride[1] + at_h) * of_.x_strides[3] +
                    (columns.first * of_.stride[2] + at_w) * of_.x_strides[4];
        for (int64_t rest = columns.second - columns.first; rest > 0;) {
          const int64_t in_block = place % length_, count = std::min(rest, length_ - in_block);
          Block& block = blocks_[begin + static_cast<size_t>(place / length_)];
          if (block.count == 0) block.first = static_cast<int64_t>(of_x_.size());
          const bool goes_on = block.count > 0 && x == next_x && place == next_place && step == 1;
          block.runs += goes_on ? 0 : step == 1 ? 1 : count;
          block.count += count;
          append(count, x, step, of_x_);
          append(count, in_block * kWidth, kWidth, of_y_);
          x += count * step;
          place += count;
          rest -= count;
          next_x = x;
          next_place = place;
        }
      }
    }
  }

  static void append(int64_t count, int64_t first, int64_t step, std::vector<int32_t>& to) {
    const size_t at = to.size();
    to.resize(at + static_cast<size_t>(count));
    int32_t* const list = to.data() + at;
    const auto start = static_cast<int32_t>(first), each = static_cast<int32_t>(step);
    for (int32_t l = 0; l < static_cast<int32_t>(count); ++l) list[l] = start + l * each;
  }

  // A tap of `count` channels times outputs j.. at the places of a block.
  void multiply(int64_t tap, int64_t block, int64_t channel, int64_t count, int64_t j,
                const micro::Target<T>& to) const {
    const int64_t blocks = ceil_div(k_, length_);
    const Block& of = blocks_[static_cast<size_t>(tap * blocks + block)];
    if (of.count == 0 && to.add) return;
    const int32_t *const of_x = of_x_.data() + of.first, *const of_y = of_y_.data() + of.first;
    const T* const x = static_cast<const T*>(of_.x) + channel * of_.x_strides[1];
    const T* const y = turned_.data() + j * k_ + block * length_ * kWidth;
    if (of.runs == 1) {
      const auto kernel = micro::kernel_for<T, kLayout>(count, to.columns);
      return kernel(of.count, x + of_x[0], of_.x_strides[1], y + of_y[0], kWidth, to);
    }
    const auto kernel = micro::kernel_for<T, kLayout, micro::StepOffsets>(count, to.columns);
    kernel(of.count, x, of_.x_strides[1], y, {of_x, of_y}, to);
  }

  const Convolution& of_;
  int64_t each_, k_, length_, panels_, y_panels_;
  std::vector<Block> blocks_;         // of all taps
  std::vector<int32_t> of_x_, of_y_;  // places
  Workspace<T> turned_;
};

}  // namespace hero::core::cpu
