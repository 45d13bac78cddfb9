// The gradient of the weight of a convolution in groups. Channels are brought side by side, so that
// a vector holds the sums of one tap for some of them: of depthwise ones each with its own output,
// of others with one output of their group.
#include <hero/core/cpu/nn/group_weight_sums.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kAddedAtOnce = 1 << 14;  // numbers that are worth a thread

// part = or, but for the first chain, += chain, which begins again with zeros.
void end_chain(int64_t size, bool is_first, float* chain, float* part) {
  for (int64_t j = 0; j < size; ++j) part[j] = is_first ? chain[j] : part[j] + chain[j];
  std::fill_n(chain, size, 0.0f);
}

// total = or, from the second image on, += part; the first one of float is added to zero.
void add_image(int64_t size, int64_t image, bool is_half, const float* part, float* total) {
  const float zero = is_half ? -0.0f : 0.0f;
  for (int64_t j = 0; j < size; ++j) total[j] = (image > 0 ? total[j] : zero) + part[j];
}

// The sums of a tap for all channels, `step` from one tap to the next, as to [channels, taps].
template <class T>
void write_taps(int64_t taps, int64_t channels, const float* sums, int64_t step, T* to) {
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t c = 0; c < channels; ++c) to[c * taps + tap] = T(sums[tap * step + c]);
  }
}

}  // namespace

template <class T>
void depthwise_weights(const Convolution& of, const T* y, T* w) {
  constexpr bool is_half = !std::is_same_v<T, float>;
  const LanePlan plan(of, is_half);
  const int64_t blocks = ceil_div(of.channels, kChannelLanes), size = of.taps() * kChannelLanes;
  const Workspace<float> parts(of.images * blocks * size);
  parallel_for(of.images * blocks, 1, [&](int64_t begin, int64_t end) {
    const LaneBand<T> band(of, plan);
    const Workspace<float> chain(size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % blocks * kChannelLanes,
                    channels = std::min(kChannelLanes, of.channels - c);
      float* const part = parts.data() + i * size;
      std::fill_n(chain.data(), size, 0.0f);
      const auto fill = [&](int64_t row) {
        band.fill_x(i / blocks, c, channels, row);
        band.fill_y(i / blocks * of.channels + c, channels, row, y);
      };
      const auto add = [&](int64_t first, int64_t last) {
        const FlushSubnormals flush(is_half);
        plan.add_depthwise(first, last, band.x(), band.y(), chain.data());
      };
      each_chain(of, plan, fill, add,
                 [&](bool is_first) { end_chain(size, is_first, chain.data(), part); });
    }
  });
  parallel_for(blocks, ceil_div(kAddedAtOnce, of.images * size), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* const total = parts.data() + block * size;
      for (int64_t n = 0; n < of.images; ++n) {
        add_image(size, n, is_half, parts.data() + (n * blocks + block) * size, total);
      }
      const int64_t first = block * kChannelLanes;
      write_taps(of.taps(), std::min(kChannelLanes, of.channels - first), total, kChannelLanes,
                 w + first * of.taps());
    }
  });
}

namespace {

// Some groups whose channels are side by side, or some channels of one.
struct GroupPart {
  int64_t group, groups;      // the first one, and how many
  int64_t channel, channels;  // of all
  int64_t outputs;            // of each group
};

// How many groups share a vector.
int64_t groups_beside(int64_t inputs, int64_t outputs) {
  return outputs <= inputs && kChannelLanes % inputs == 0 ? kChannelLanes / inputs : 1;
}

// The gradient of a part's weights, sums [taps, outputs, lanes].
template <class T>
class GroupGradient {
 public:
  GroupGradient(const Convolution& of, const LanePlan& plan, const T* y)
      : of_(of),
        plan_(plan),
        y_(y),
        size_(of.taps() * (of.outputs / of.groups) * kChannelLanes),
        band_(of, plan),
        chain_(size_),
        part_(size_),
        total_(size_) {}

  const float* add_up(const GroupPart& p) const {
    std::fill_n(chain_.data(), size_, 0.0f);
    for (int64_t n = 0; n < of_.images; ++n) {
      int64_t row = 0;
      const auto fill = [&](int64_t first_row) {
        row = first_row;
        band_.fill_x(n, p.channel, p.channels, row);
        if (all_outputs(p) <= kChannelLanes) fill_y(p, n, row, 0);
      };
      const auto add = [&](int64_t first, int64_t last) { add_steps(p, n, row, first, last); };
      each_chain(of_, plan_, fill, add,
                 [&](bool is_first) { end_chain(size_, is_first, chain_.data(), part_.data()); });
      add_image(size_, n, kIsHalf, part_.data(), total_.data());
    }
    return total_.data();
  }

 private:
  static constexpr bool kIsHalf = !std::is_same_v<T, float>;

  static int64_t all_outputs(const GroupPart& p) { return p.groups * p.outputs; }

  // Returns how many outputs from the first on are side by side now.
  int64_t fill_y(const GroupPart& p, int64_t image, int64_t row, int64_t first) const {
    const int64_t count = std::min(kChannelLanes, all_outputs(p) - first);
    const int64_t plane = (image * of_.groups + p.group) * p.outputs + first;
    band_.fill_y(plane, count, row, y_);
    return count;
  }

  // Steps of the band that begins with line `row`.
  void add_steps(const GroupPart& p, int64_t image, int64_t row, int64_t first,
                 int64_t last) const {
    const int64_t outputs = all_outputs(p);
    for (int64_t o = 0; o < outputs; o += kChannelLanes) {
      const int64_t count = outputs > kChannelLanes ? fill_y(p, image, row, o) : outputs;
      const FlushSubnormals flush(kIsHalf);
      if (p.groups > 1) {
        plan_.add_groups(first, last, band_.x(), band_.y(), p.channels / p.groups, p.outputs,
                         chain_.data());
      } else {
        plan_.add_group(first, last, band_.x(), band_.y(), count, p.outputs, o, chain_.data());
      }
    }
  }

  const Convolution& of_;
  const LanePlan& plan_;
  const T* y_;
  int64_t size_;
  LaneBand<T> band_;
  Workspace<float> chain_, part_, total_;
};

}  // namespace

template <class T>
void group_weights(const Convolution& of, const T* y, T* w) {
  const LanePlan plan(of, !std::is_same_v<T, float>);
  const int64_t inputs = of.channels / of.groups, outputs = of.outputs / of.groups;
  const int64_t beside = groups_beside(inputs, outputs), taps = of.taps();
  const int64_t blocks = ceil_div(inputs, kChannelLanes);
  parallel_for(ceil_div(of.groups, beside) * blocks, 1, [&](int64_t begin, int64_t end) {
    const GroupGradient<T> sums(of, plan, y);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / blocks * beside, groups = std::min(beside, of.groups - group);
      const int64_t own = i % blocks * kChannelLanes;  // of a group's channels, the first
      const int64_t each = std::min(kChannelLanes, inputs - own);
      const float* const total =
          sums.add_up({group, groups, group * inputs + own, groups * each, outputs});
      for (int64_t o = 0; o < groups * outputs; ++o) {
        write_taps(taps, each, total + o % outputs * kChannelLanes + o / outputs * inputs,
                   outputs * kChannelLanes, w + ((group * outputs + o) * inputs + own) * taps);
      }
    }
  });
}

template void group_weights(const Convolution&, const float*, float*);
template void group_weights(const Convolution&, const BFloat16*, BFloat16*);
template void depthwise_weights(const Convolution&, const float*, float*);
template void depthwise_weights(const Convolution&, const BFloat16*, BFloat16*);

}  // namespace hero::core::cpu
