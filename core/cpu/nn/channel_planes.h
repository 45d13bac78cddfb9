#pragma once
// How threads share the channels of [N, C, L] whose planes of L elements are as long as the lanes
// of channel_sums.h: neighbouring channels as a whole, or few channels in strips of samples.
#include <algorithm>
#include <cstdint>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/channel_sums.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

// What is marked noinline is large, and called from several places; loops over a group are short.
inline constexpr int64_t kTogether = 8;  // channels of a group, at most

/// Channels side by side. Their planes are longer pieces of memory than those of one.
struct ChannelGroup {
  int64_t first, count;
};

template <class T>
class ChannelPlanes {
 public:
  ChannelPlanes(int64_t N, int64_t C, int64_t L)
      : n_(N),
        c_(C),
        l_(L),
        strips_(C >= kTasks ? 1 : std::min(N, (kTasks + C - 1) / std::max<int64_t>(1, C))) {}

  /// Calls body(group) for groups that make up all channels, on several threads where these are
  /// many. Two arrays of a group stay in the cache from one pass to the next, unless those of one
  /// channel do not.
  template <class Body>
  void each_group(Body&& body) const {
    const auto run = [&](int64_t first, int64_t count) __attribute__((noinline)) {
      body(ChannelGroup{first, count});
    };
    if (strips_ > 1) {
      for (int64_t c = 0; c < c_; ++c) run(c, 1);
      return;
    }
    const int64_t work = std::max<int64_t>(1, n_ * l_);
    const int64_t fit = kCached / (work * 2 * int64_t{sizeof(T)});
    const int64_t most = std::clamp<int64_t>(c_ / (2 * num_threads()), 1, kTogether);
    const int64_t size = fit == 0 ? most : std::min(fit, most);
    parallel_for((c_ + size - 1) / size, std::max<int64_t>(1, kGrain / (work * size)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin * size; c < std::min(c_, end * size); c += size) {
                     run(c, std::min(size, c_ - c));
                   }
                 });
  }
  /// Calls body(i, at) with the place of each plane of channel i of a group.
  template <class Body>
  [[gnu::noinline]] void each_plane(const ChannelGroup& group, Body&& body) const {
    const auto some = [&](int64_t begin, int64_t end) __attribute__((noinline)) {
      for (int64_t n = start(begin); n < start(end); ++n) {
#pragma GCC unroll 1
        for (int64_t i = 0; i < group.count; ++i) body(i, (n * c_ + group.first + i) * l_);
      }
    };
    parallel_for(strips_, 1, some);
  }
  /// sums[i][k] = sum k over channel i of a group; terms_of(i) gives its terms(at, t), which are as
  /// for ChannelLanes. The order of a channel's sums is the same in any group.
  template <int kSums, class TermsOf>
  [[gnu::noinline]] void sum(const ChannelGroup& group, T (&sums)[kTogether][kSums],
                             TermsOf&& terms_of) const {
    T parts[kTasks][kTogether][kSums] = {};
    const auto some = [&](int64_t begin, int64_t end) __attribute__((noinline)) {
      for (int64_t s = begin; s < end; ++s) {
        ChannelLanes<T, kSums> lanes[kTogether];
        for (int64_t n = start(s); n < start(s + 1); ++n) {
#pragma GCC unroll 1
          for (int64_t i = 0; i < group.count; ++i) {
            const int64_t at = (n * c_ + group.first + i) * l_;
            const auto terms = terms_of(i);
            const auto of_plane = [&](int64_t j, auto& t) __attribute__((always_inline)) {
              terms(at + j, t);
            };
            lanes[i].add_plane(l_, of_plane);
          }
        }
#pragma GCC unroll 1
        for (int64_t i = 0; i < group.count; ++i) lanes[i].totals(parts[s][i]);
      }
    };
    parallel_for(strips_, 1, some);
#pragma GCC unroll 1
    for (int64_t i = 0; i < group.count; ++i) {
      for (int k = 0; k < kSums; ++k) {
        sums[i][k] = parts[0][i][k];
        for (int64_t s = 1; s < strips_; ++s) sums[i][k] += parts[s][i][k];
      }
    }
  }

 private:
  static constexpr int64_t kTasks = 16;          // strips and channels that are enough to share out
  static constexpr int64_t kCached = 512 << 10;  // bytes, of the second-level cache

  int64_t start(int64_t strip) const { return strip * n_ / strips_; }

  int64_t n_, c_, l_, strips_;
};

}  // namespace hero::core::cpu
