// Normalisation of channels [N, C, L]. If a plane of L elements is at least as long as the lanes of
// channel_sums.h, a thread handles several whole neighbouring channels, as many as stay in its
// caches from one pass to the next; if there are few channels, threads divide them into strips of
// samples. Shorter planes are handled as columns of rows of C L elements.
#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/channel_columns.h>
#include <hero/core/cpu/nn/channel_planes.h>
#include <hero/core/cpu/nn/channel_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// What a channel's elements are brought together with: scale is 1 / sqrt(variance + eps), factor
// that times the weight.
template <class T>
struct Channel {
  T mean, scale, factor, bias;
};

// Arrays of elements are of S: T, or bfloat16 where T is float.
template <class T, class S = T>
struct ChannelProblem {
  const S *x, *g;  // g: backward
  S* out;          // or the gradient of x, null where nobody wants it
  int64_t N, C, L;
  const T *weight, *bias;
  T *mean, *variance;
  T *g_weight, *g_bias;
  T eps;
  bool fixed;

  T share() const { return T(1) / static_cast<T>(N * L); }
  // Out of line, where loops over a few channels would be made large.
  [[gnu::noinline]] Channel<T> channel(int64_t c) const {
    const T scale = T(1) / math::sqrt(variance[c] + eps);
    return {mean[c], scale, weight != nullptr ? scale * weight[c] : scale,
            bias != nullptr ? bias[c] : T(0)};
  }
};

// The lanes of elements from `from` on.
[[gnu::always_inline]] inline void load_lanes(const float* from, Wide<float>::type& to) {
  Wide<float>::load(from, to);
}
[[gnu::always_inline]] inline void load_lanes(const double* from, Wide<double>::type& to) {
  Wide<double>::load(from, to);
}
[[gnu::always_inline]] inline void load_lanes(const BFloat16* from, Wide<float>::type& to) {
  typedef uint16_t Halves __attribute__((vector_size(32)));
  typedef uint32_t Words __attribute__((vector_size(64)));
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&to, &words, sizeof(to));
}

template <class T>
T* channel_data(const Array* array) {
  return array != nullptr ? array->data<T>() : nullptr;
}

// out = (x - mean) factor + bias
template <class T, class S>
void shift_and_scale(int64_t n, const S* x, const Channel<T>& c, S* out) {
  const T mean = c.mean, factor = c.factor, bias = c.bias;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    out[i] = convert<S>((convert<T>(x[i]) - mean) * factor + bias);
  }
}

// A channel's sums over all elements: of the gradient, and of it times the normalised element.
template <class T>
struct ChannelGradient {
  T of_bias, of_weight;
};

// g_x = (g - share of_bias - x_hat share of_weight) factor
template <class T, class S>
void channel_input_gradient(int64_t n, const S* g, const S* x, const Channel<T>& c,
                            const ChannelGradient<T>& shares, S* g_x) {
  const T mean = c.mean, scale = c.scale, factor = c.factor;
  const T along_one = shares.of_bias, along_x = shares.of_weight;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    g_x[i] = convert<S>(
        (convert<T>(g[i]) - along_one - (convert<T>(x[i]) - mean) * scale * along_x) * factor);
  }
}

template <class T, class S>
void forward_planes(const ChannelProblem<T, S>& p) {
  const ChannelPlanes<T> planes(p.N, p.C, p.L);
  planes.each_group([&](const auto& group) {
    if (!p.fixed) {
      T total[kTogether][1];
      const S* const x = p.x;
      T *const means = p.mean + group.first, *const variances = p.variance + group.first;
      planes.sum(group, total, [&](int64_t) {
        return [x](int64_t at, auto& t) __attribute__((always_inline)) {
          load_lanes(x + at, t[0]);
        };
      });
#pragma GCC unroll 1
      for (int64_t i = 0; i < group.count; ++i) means[i] = total[i][0] * p.share();
      planes.sum(group, total, [&](int64_t i) {
        return [ x, center = means[i] ](int64_t at, auto& t) __attribute__((always_inline)) {
          load_lanes(x + at, t[0]);
          t[0] -= center;
          t[0] *= t[0];
        };
      });
#pragma GCC unroll 1
      for (int64_t i = 0; i < group.count; ++i) variances[i] = total[i][0] * p.share();
    }
    Channel<T> channels[kTogether];
#pragma GCC unroll 1
    for (int64_t i = 0; i < group.count; ++i) channels[i] = p.channel(group.first + i);
    planes.each_plane(group, [&](int64_t i, int64_t at) {
      shift_and_scale(p.L, p.x + at, channels[i], p.out + at);
    });
  });
}

template <class T, class S>
void backward_planes(const ChannelProblem<T, S>& p) {
  const ChannelPlanes<T> planes(p.N, p.C, p.L);
  planes.each_group([&](const auto& group) {
    Channel<T> channels[kTogether];
#pragma GCC unroll 1
    for (int64_t i = 0; i < group.count; ++i) channels[i] = p.channel(group.first + i);
    T total[kTogether][2] = {};
    if (!p.fixed || p.g_weight != nullptr || p.g_bias != nullptr) {
      planes.sum(group, total, [&](int64_t i) {
        return [ g = p.g, x = p.x, of = channels[i] ](int64_t at, auto& t)
            __attribute__((always_inline)) {
          load_lanes(g + at, t[0]);
          load_lanes(x + at, t[1]);
          t[1] = t[0] * ((t[1] - of.mean) * of.scale);
        };
      });
#pragma GCC unroll 1
      for (int64_t i = 0; i < group.count; ++i) {
        if (p.g_bias != nullptr) p.g_bias[group.first + i] = total[i][0];
        if (p.g_weight != nullptr) p.g_weight[group.first + i] = total[i][1];
      }
    }
    if (p.out == nullptr) return;
    planes.each_plane(group, [&](int64_t i, int64_t at) {
      if (p.fixed) {
        const Channel<T> alone{T(0), channels[i].scale, channels[i].factor, T(0)};
        return shift_and_scale(p.L, p.g + at, alone, p.out + at);
      }
      const ChannelGradient<T> shares{total[i][0] * p.share(), total[i][1] * p.share()};
      channel_input_gradient(p.L, p.g + at, p.x + at, channels[i], shares, p.out + at);
    });
  });
}

template <class T>
void statistics_of_columns(const ChannelProblem<T>& p, const ChannelColumns<T>& columns) {
  columns.template sum<1>(p.mean, [&](int64_t at, int64_t, int64_t width, T* sums) {
    const T* x = p.x + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) sums[i] += x[i];
  });
  for (int64_t c = 0; c < p.C; ++c) p.mean[c] *= p.share();
  const Workspace<T> mean(columns.row_width());
  columns.spread(mean.data(), [&](int64_t c) { return p.mean[c]; });
  columns.template sum<1>(p.variance, [&](int64_t at, int64_t column, int64_t width, T* sums) {
    const T *x = p.x + at, *center = mean.data() + column;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) sums[i] += (x[i] - center[i]) * (x[i] - center[i]);
  });
  for (int64_t c = 0; c < p.C; ++c) p.variance[c] *= p.share();
}

template <class T>
void forward_columns(const ChannelProblem<T>& p) {
  const ChannelColumns<T> columns(p.N, p.C, p.L);
  const int64_t M = columns.row_width();
  if (!p.fixed) statistics_of_columns(p, columns);
  const Workspace<T> mean(M), factor(M), bias(M);
  columns.spread(mean.data(), [&](int64_t c) { return p.mean[c]; });
  columns.spread(factor.data(), [&](int64_t c) { return p.channel(c).factor; });
  columns.spread(bias.data(), [&](int64_t c) { return p.channel(c).bias; });
  columns.each_rows([&](int64_t begin, int64_t end) {
    const T *means = mean.data(), *factors = factor.data(), *shifts = bias.data();
    for (int64_t row = begin; row < end; ++row) {
      const T* x = p.x + row * M;
      T* out = p.out + row * M;
#pragma GCC ivdep
      for (int64_t i = 0; i < M; ++i) out[i] = (x[i] - means[i]) * factors[i] + shifts[i];
    }
  });
}

template <class T>
void backward_columns(const ChannelProblem<T>& p) {
  const ChannelColumns<T> columns(p.N, p.C, p.L);
  const int64_t M = columns.row_width();
  const Workspace<T> mean(M), scale(M), factor(M), along_one(M), along_x(M), totals(2 * p.C);
  columns.spread(mean.data(), [&](int64_t c) { return p.mean[c]; });
  columns.spread(scale.data(), [&](int64_t c) { return p.channel(c).scale; });
  columns.spread(factor.data(), [&](int64_t c) { return p.channel(c).factor; });
  T *const of_bias = totals.data(), *const of_weight = of_bias + p.C;
  std::fill_n(of_bias, 2 * p.C, T(0));
  if (!p.fixed || p.g_weight != nullptr || p.g_bias != nullptr) {
    columns.template sum<2>(of_bias, [&](int64_t at, int64_t column, int64_t width, T* sums) {
      const T *g = p.g + at, *x = p.x + at;
      const T *means = mean.data() + column, *scales = scale.data() + column;
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) {
        sums[i] += g[i];
        sums[width + i] += g[i] * ((x[i] - means[i]) * scales[i]);
      }
    });
    if (p.g_bias != nullptr) std::copy_n(of_bias, p.C, p.g_bias);
    if (p.g_weight != nullptr) std::copy_n(of_weight, p.C, p.g_weight);
  }
  if (p.out == nullptr) return;
  const T share = p.fixed ? T(0) : p.share();
  columns.spread(along_one.data(), [&](int64_t c) { return of_bias[c] * share; });
  columns.spread(along_x.data(), [&](int64_t c) { return of_weight[c] * share; });
  columns.each_rows([&](int64_t begin, int64_t end) {
    const T *means = mean.data(), *scales = scale.data(), *factors = factor.data();
    const T *ones = along_one.data(), *along = along_x.data();
    for (int64_t row = begin; row < end; ++row) {
      const T *g = p.g + row * M, *x = p.x + row * M;
      T* g_x = p.out + row * M;
      if (p.fixed) {
#pragma GCC ivdep
        for (int64_t i = 0; i < M; ++i) g_x[i] = g[i] * factors[i];
        continue;
      }
#pragma GCC ivdep
      for (int64_t i = 0; i < M; ++i) {
        g_x[i] = (g[i] - ones[i] - (x[i] - means[i]) * scales[i] * along[i]) * factors[i];
      }
    }
  });
}

template <class T, class S>
ChannelProblem<T, S> channel_problem(const ChannelNorm& norm, const Array& x, const Array& mean,
                                     const Array& variance) {
  ChannelProblem<T, S> p{};
  p.x = x.data<S>();
  p.N = x.size(0);
  p.C = x.size(1);
  p.L = x.size(2);
  p.weight = channel_data<T>(norm.weight);
  p.bias = channel_data<T>(norm.bias);
  p.mean = mean.data<T>();
  p.variance = variance.data<T>();
  p.eps = static_cast<T>(norm.eps);
  p.fixed = norm.fixed;
  return p;
}

bool are_planes(const Array& x) { return x.size(2) >= (x.dtype() == kFloat64 ? 8 : 16); }
static_assert(Wide<double>::kWidth == 8 && Wide<float>::kWidth == 16);

template <class T, class S = T>
void channels_forward(const ChannelNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& variance) {
  ChannelProblem<T, S> p = channel_problem<T, S>(norm, x, mean, variance);
  p.out = out.data<S>();
  if constexpr (std::is_same_v<T, S>) {
    if (!are_planes(x)) return forward_columns(p);
  }
  forward_planes(p);
}

// What backward gives: what is not null.
struct ChannelGradients {
  const Array *x, *weight, *bias;
};

template <class T, class S = T>
void channels_backward(const ChannelNorm& norm, const Array& g, const Array& x, const Array& mean,
                       const Array& variance, const ChannelGradients& to) {
  ChannelProblem<T, S> p = channel_problem<T, S>(norm, x, mean, variance);
  p.g = g.data<S>();
  p.out = channel_data<S>(to.x);
  p.g_weight = channel_data<T>(to.weight);
  p.g_bias = channel_data<T>(to.bias);
  if constexpr (std::is_same_v<T, S>) {
    if (!are_planes(x)) return backward_columns(p);
  }
  backward_planes(p);
}

}  // namespace

void CpuBackend::run(const call::NormalizeChannels& call) {
  if (call.x.numel() == 0) return;
  if (call.x.dtype() == kFloat64)
    return channels_forward<double>(call.norm, call.x, call.out, call.mean, call.variance);
  if (call.x.dtype() == kFloat32)
    return channels_forward<float>(call.norm, call.x, call.out, call.mean, call.variance);
  if (are_planes(call.x))
    return channels_forward<float, BFloat16>(call.norm, call.x, call.out, call.mean, call.variance);
  const Array wide = call.x.to(kFloat32);
  channels_forward<float>(call.norm, wide, wide, call.mean, call.variance);
  run(call::Copy{wide, call.out});
}

void CpuBackend::run(const call::NormalizeChannelsBack& call) {
  if (call.x.numel() == 0) {
    if (call.g_weight != nullptr) run(call::Fill{*call.g_weight, 0});
    if (call.g_bias != nullptr) run(call::Fill{*call.g_bias, 0});
    return;
  }
  const ChannelGradients to{call.g_x, call.g_weight, call.g_bias};
  if (call.x.dtype() == kFloat64)
    return channels_backward<double>(call.norm, call.g, call.x, call.mean, call.variance, to);
  if (call.x.dtype() == kFloat32)
    return channels_backward<float>(call.norm, call.g, call.x, call.mean, call.variance, to);
  if (are_planes(call.x))
    return channels_backward<float, BFloat16>(call.norm, call.g, call.x, call.mean, call.variance,
                                              to);
  const Array wide = call.g_x != nullptr ? Array::empty(call.x.shape()) : Array();
  channels_backward<float>(call.norm, call.g.to(kFloat32), call.x.to(kFloat32), call.mean,
                           call.variance,
                           {call.g_x != nullptr ? &wide : nullptr, call.g_weight, call.g_bias});
  if (call.g_x != nullptr) run(call::Copy{wide, *call.g_x});
}

}  // namespace hero::core::cpu
