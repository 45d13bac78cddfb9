// Convolutions in groups, and the gradients of their inputs. A group has few channels, and so few
// products for each window: windows are not packed, but read in place from a padded copy of the
// group's planes, which stays in the cache.
#include <algorithm>
#include <memory>
#include <type_traits>

#include <hero/core/cpu/nn/channel_lanes.h>
#include <hero/core/cpu/nn/conv_groups.h>
#include <hero/core/cpu/nn/conv_phases.h>
#include <hero/core/cpu/products/gemm_kernel.h>

namespace hero::core::cpu {

namespace {

// Vectors of neighbours in the lines of all windows, and empty ones, so that they are a multiple.
std::vector<WindowPiece> pieces_of(const ShiftedRows& windows, int64_t lanes, size_t multiple) {
  std::vector<WindowPiece> pieces;
  for (size_t i = 0; i < windows.rows.size(); ++i) {
    for (int64_t x = 0; x < windows.width; x += lanes) {
      pieces.push_back({windows.rows[i] + x, static_cast<int64_t>(i) * windows.width + x,
                        std::min(lanes, windows.width - x)});
    }
  }
  while (pieces.size() % multiple != 0) {
    pieces.push_back({pieces.back().offset, pieces.back().place, 0});
  }
  return pieces;
}

// Places whose vectors hold outputs.
std::vector<WindowPiece> output_pieces_of(const ShiftedRows& windows) {
  std::vector<WindowPiece> pieces;
  for (size_t i = 0; i < windows.rows.size(); ++i) {
    each_piece(kOutputPieces, windows.width, [&](int64_t x, int size) {
      pieces.push_back({windows.rows[i] + x, static_cast<int64_t>(i) * windows.width + x, size});
    });
  }
  return pieces;
}

// The part of so many vectors' lanes that work, if they hold neighbours of so many numbers.
double working_part(int64_t count) {
  return static_cast<double>(count) / static_cast<double>(round_up(count, kGroupLanes));
}

// The products of all groups with the windows of a group's planes, in chains of so many elements.
class GroupProduct {
 public:
  // weight(row, p) is the element of a row, of those of all groups, for windows.steps[p].
  template <class Weight>
  [[gnu::cold]] GroupProduct(const ShiftedRows& windows, int64_t rows, int64_t groups,
                             int64_t chain, bool begins_with_zero, const Weight& weight)
      : rows_(rows),
        k_(static_cast<int64_t>(windows.steps.size())),
        columns_(windows.columns()),
        by_outputs_(chain > 1 && working_part(rows) >= working_part(windows.width)),
        chains_{windows.steps, chain, begins_with_zero},
        pieces_(by_outputs_ ? output_pieces_of(windows)
                            : pieces_of(windows, kGroupLanes, kGroupSums)),
        each_(by_outputs_ ? round_up(rows, kGroupLanes) * k_ : rows * k_),
        w_(groups * each_) {
    if (by_outputs_) std::fill_n(w_.data(), groups * each_, 0.0f);
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t p = 0; p < k_; ++p) {
          const int64_t at = by_outputs_ ? row / kGroupLanes * k_ * kGroupLanes + p * kGroupLanes +
                                               row % kGroupLanes
                                         : row * k_ + p;
          w_.data()[group * each_ + at] = weight(group * rows + row, p);
        }
      }
    }
  }

  int64_t size() const { return rows_ * columns_; }

  // c [rows, columns] of a group, from its padded planes.
  [[gnu::noinline]] void run(int64_t group, const float* from, float* c) const {
    const float* w = w_.data() + group * each_;
    if (by_outputs_) return run_outputs(w, from, c);
    for (int64_t row = 0; row < rows_;) {
      const int64_t left = rows_ - row;
      const int count = left >= 4 ? 4 : left >= 2 ? 2 : 1;
      for (size_t i = 0; i < pieces_.size(); i += static_cast<size_t>(kGroupSums / count)) {
        add_group_chains(count, chains_, w + row * k_, from, pieces_.data() + i, c + row * columns_,
                         columns_);
      }
      row += count;
    }
  }

 private:
  void run_outputs(const float* w, const float* from, float* c) const {
    const Workspace<float> sums(columns_ * kGroupLanes);
    for (int64_t row = 0; row < rows_; row += kGroupLanes, w += k_ * kGroupLanes) {
      for (const WindowPiece& piece : pieces_) {
        add_group_outputs(piece.count, chains_, w, from + piece.offset,
                          sums.data() + piece.place * kGroupLanes);
      }
      turn_places(std::min(kGroupLanes, rows_ - row), columns_, sums.data(), c + row * columns_,
                  columns_);
    }
  }

  int64_t rows_, k_, columns_;
  bool by_outputs_;
  GroupChains chains_;
  std::vector<WindowPiece> pieces_;
  int64_t each_;
  Workspace<float> w_;
};

// Those of bfloat16, whose chains are those of a native product.
class HalfGroupProduct {
 public:
  template <class Weight>
  [[gnu::cold]] HalfGroupProduct(const ShiftedRows& windows, int64_t rows, int64_t groups, int64_t,
                                 bool, const Weight& weight)
      : rows_(rows),
        pairs_(ceil_div(static_cast<int64_t>(windows.steps.size()), 2)),
        columns_(windows.columns()),
        steps_(windows.steps),
        pieces_(pieces_of(windows, 16, 8)),
        w_(groups * rows * pairs_) {
    const auto k = static_cast<int64_t>(steps_.size());
    for (int64_t group = 0; group < groups; ++group) {
      each_rows([&](int64_t row, int count) {
        uint32_t* to = w_.data() + (group * rows_ + row) * pairs_;
        for (int64_t p = 0; p < k; p += 2) {
          for (int64_t i = row; i < row + count; ++i) {
            const uint32_t second = p + 1 < k ? weight(group * rows_ + i, p + 1).bits : 0;
            *to++ = weight(group * rows_ + i, p).bits | second << 16;
          }
        }
      });
    }
  }

  int64_t size() const { return rows_ * columns_; }

  [[gnu::noinline]] void run(int64_t group, const BFloat16* from, float* c) const {
    each_rows([&](int64_t row, int count) {
      const uint32_t* const w = w_.data() + (group * rows_ + row) * pairs_;
      const auto step = static_cast<size_t>(std::min(8, kPairSums / count));
      for (size_t i = 0; i < pieces_.size(); i += step) {
        add_group_pairs(count, steps_, w, from, pieces_.data() + i, c + row * columns_, columns_);
      }
    });
  }

 private:
  // Calls body(first row, rows) for rows that are computed together.
  template <class Body>
  void each_rows(const Body& body) const {
    for (int64_t row = 0; row < rows_;) {
      const int64_t left = rows_ - row;
      const int count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      body(row, count);
      row += count;
    }
  }

  int64_t rows_, pairs_, columns_;
  std::vector<int64_t> steps_;
  std::vector<WindowPiece> pieces_;
  Workspace<uint32_t> w_;
};

template <class T>
using ProductOf = std::conditional_t<std::is_same_v<T, float>, GroupProduct, HalfGroupProduct>;

// Zeros, in the middle of which the planes of some groups at a time are put: what is read right
// after it was written in other pieces would have to wait.
template <class T>
class PaddedGroups {
 public:
  PaddedGroups(const Convolution& of, int64_t most)
      : of_(of),
        image_(padded_image_of(of)),
        channels_(of.channels / of.groups),
        count_(std::clamp<int64_t>(kTogether / each(), 1, std::min<int64_t>(most, 16))),
        room_(count_ * each() + kBehind<T>) {
    std::fill_n(room_.data(), count_ * each() + kBehind<T>, T(0.0f));
  }

  int64_t count() const { return count_; }
  const T* planes(int64_t slot) const { return room_.data() + slot * each(); }

  void copy(int64_t image, int64_t group, int64_t slot) const {
    for (int64_t c = 0; c < channels_; ++c) {
      const T* const plane = static_cast<const T*>(of_.x) + image * of_.x_strides[0] +
                             (group * channels_ + c) * of_.x_strides[1];
      copy_lines(plane, room_.data() + slot * each() + c * image_.channel() +
                            of_.padding[1] * image_.line());
    }
  }

 private:
  static constexpr int64_t kTogether = 24000 / sizeof(T);  // elements, most of the first cache

  int64_t each() const { return channels_ * image_.channel(); }
  void copy_lines(const T* from, T* to) const {
    const int64_t width = of_.size[2], stride = image_.stride, padding = of_.padding[2];
    for (int64_t h = 0; h < of_.size[1]; ++h, from += width, to += image_.line()) {
      if (stride == 1) {
        if constexpr (!std::is_same_v<T, float>) {
          copy_short(width * int64_t{sizeof(T)}, from, to + padding);
          continue;
        } else {
          // whole vectors: what they have too much are zeros of the padding, or is overwritten next
          for (int64_t x = 0; x < width; x += kGroupLanes) {
            const int64_t count = std::min(kGroupLanes, width - x);
            micro::store<float>(to + padding + x, micro::load_part(from + x, count));
          }
          continue;
        }
      }
      if constexpr (!std::is_same_v<T, float>) {
        if (stride == 2) {
          take_apart(from, width, to + image_.column(padding), to + image_.column(padding + 1));
          continue;
        }
      }
      for (int64_t r = 0; r < std::min(stride, width); ++r) {
        T* const target = to + image_.column(padding + r);
        const int64_t count = (width - r + stride - 1) / stride;
        if (stride == 2) {  // a loop over a stride that the compiler knows becomes vectors
#pragma GCC ivdep
          for (int64_t i = 0; i < count; ++i) target[i] = from[r + 2 * i];
        } else {
          for (int64_t i = 0; i < count; ++i) target[i] = from[r + i * stride];
        }
      }
    }
  }

  // Elements of a line with even and odd indices; in pairs, which the compiler makes vectors of.
  static void take_apart(const BFloat16* from, int64_t width, BFloat16* even, BFloat16* odd) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width / 2; ++i) {
      uint32_t pair = 0;
      std::memcpy(&pair, from + 2 * i, sizeof(pair));
      even[i].bits = static_cast<uint16_t>(pair);
      odd[i].bits = static_cast<uint16_t>(pair >> 16);
    }
    if (width % 2 != 0) even[width / 2] = from[width - 1];
  }

  const Convolution& of_;
  PaddedImage image_;
  int64_t channels_, count_;
  Workspace<T> room_;
};

// Calls body(image, group, padded planes) for all groups of all images.
template <class T, class Body>
void each_padded_group(const Convolution& padded, int64_t work, const Body& body) {
  parallel_for(padded.images * padded.groups,
               std::max<int64_t>(1, 4 * kGrain / std::max<int64_t>(1, work)),
               [&](int64_t begin, int64_t end) {
                 const PaddedGroups<T> room(padded, end - begin);
                 for (int64_t first = begin; first < end; first += room.count()) {
                   const int64_t last = std::min(end, first + room.count());
                   for (int64_t i = first; i < last; ++i) {
                     room.copy(i / padded.groups, i % padded.groups, i - first);
                   }
                   for (int64_t i = first; i < last; ++i) {
                     body(i / padded.groups, i % padded.groups, room.planes(i - first));
                   }
                 }
               });
}

}  // namespace

template <class T>
void convolve_groups(const Convolution& of, const T* w, const HalfEnd& end, T* y) {
  if (has_lanes<T>(of, of.places[2], false)) return convolve_lanes(of, w, end, y);
  Convolution group = of;
  group.channels /= of.groups;
  const ShiftedRows windows = windows_of(group, padded_image_of(of));
  const auto k = static_cast<int64_t>(windows.steps.size());
  const int64_t rows = of.outputs / of.groups;
  const ProductOf<T> product(windows, rows, of.groups, block_length(k), false,
                             [=](int64_t row, int64_t p) { return w[row * k + p]; });
  each_padded_group<T>(of, product.size() * k, [&](int64_t image, int64_t g, const T* planes) {
    T* const to = y + (image * of.groups + g) * product.size();
    if constexpr (std::is_same_v<T, float>) {
      product.run(g, planes, to);
    } else {
      const Workspace<float> sums(product.size());
      product.run(g, planes, sums.data());
      finish_group(end, g * rows, rows, windows.columns(), sums.data(), to);
    }
  });
}

template <class T>
void convolve_groups_back(const Convolution& of, const T* w, const HalfEnd& end, T* y) {
  const BackPhases phases(of);
  if (has_lanes<T>(phases.padded(), of.size[2], !phases.is_one())) {
    return convolve_lanes_back(phases, of, w, end, y);
  }
  const int64_t channels = of.channels / of.groups, rows = of.outputs / of.groups;
  const int64_t taps = of.taps(), places = of.places[1] * of.places[2];
  std::vector<std::unique_ptr<ProductOf<T>>> products;
  for (const BackPhase& phase : phases.all()) {
    const auto weight = [&](int64_t row, int64_t p) {
      const int64_t output = row / rows * channels + p % channels;
      const int64_t tap = phase.taps[static_cast<size_t>(p / channels)];
      return w[(output * rows + row % rows) * taps + tap];
    };
    products.push_back(
        std::make_unique<ProductOf<T>>(phase.windows, rows, of.groups, channels, true, weight));
  }
  const int64_t work = rows * places * channels * taps / (of.stride[1] * of.stride[2]);
  each_padded_group<T>(phases.padded(), work, [&](int64_t image, int64_t g, const T* planes) {
    T* const to = y + (image * of.groups + g) * rows * places;
    if constexpr (std::is_same_v<T, float>) {
      if (phases.is_one()) return products.front()->run(g, planes, to);
    }
    const Workspace<float> sums(rows * places), joined(phases.is_one() ? 0 : rows * places);
    auto product = products.begin();
    phases.each(rows, sums.data(),
                [&](const BackPhase&, float* c) { (*product++)->run(g, planes, c); });
    if (!phases.is_one()) phases.join(rows, phases.parts(rows, sums.data()), joined.data());
    finish_group(end, g * rows, rows, places, (phases.is_one() ? sums : joined).data(), to);
  });
}

template void convolve_groups(const Convolution&, const float*, const HalfEnd&, float*);
template void convolve_groups(const Convolution&, const BFloat16*, const HalfEnd&, BFloat16*);
template void convolve_groups_back(const Convolution&, const float*, const HalfEnd&, float*);
template void convolve_groups_back(const Convolution&, const BFloat16*, const HalfEnd&, BFloat16*);

}  // namespace hero::core::cpu
