// Normalisation of rows. Sums over a row are in the fixed order of row_sums.h; sums over rows, for
// weight and bias, are made strip by strip of rows whose number depends on the shape alone. For
// groups of channels, they are sums of planes, added up one sample after the other.
#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/cpu/reduce/tree.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kStripRows = 32;   // rows summed one after the other, at least
constexpr int64_t kMostStrips = 64;  // partial sums that are joined at the end

template <class T>
const T* data_or_null(const Array* array) {
  return array != nullptr ? array->data<T>() : nullptr;
}

// The bytes of row r of `rows`.
std::byte* row_bytes(const Array& rows, int64_t r, int64_t n) {
  return rows.bytes() + r * n * item_size(rows.dtype());
}

// Row r of `rows`, which may be of a half's dtype: where it lies, or widened into `wide`, which has
// room for a row.
template <class T>
const T* row_of(const Array& rows, int64_t r, int64_t n, T* wide) {
  const std::byte* bytes = row_bytes(rows, r, n);
  if (rows.dtype() == kDTypeOf<T>) return reinterpret_cast<const T*>(bytes);
  converter(rows.dtype(), kDTypeOf<T>)(n, bytes, 1, reinterpret_cast<std::byte*>(wide), 1);
  return wide;
}

// sum = x + row r of the residual; `wide` has room for a row.
template <class T>
void add_residual(const T* x, const Array& residual, int64_t r, int64_t n, T* wide, T* sum) {
  const T* row = row_of(residual, r, n, wide);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + row[i];
}

// The first of the channels that row r of a group norm has.
int64_t first_channel(const RowNorm& norm, int64_t r, int64_t n) {
  return r % norm.groups * (n / norm.plane);
}

// What a row of a group norm is brought to, plane by plane. To add -0 changes nothing.
void forward_planes(const RowNorm& norm, int64_t r, int64_t n, const float* x, float center,
                    float factor, float* out) {
  const auto *weight = data_or_null<float>(norm.weight), *bias = data_or_null<float>(norm.bias);
  int64_t channel = first_channel(norm, r, n);
  for (int64_t at = 0; at < n; at += norm.plane, ++channel) {
    const float w = weight != nullptr ? weight[channel] : 1.0f;
    const float b = bias != nullptr ? bias[channel] : -0.0f;
#pragma GCC ivdep
    for (int64_t i = at; i < at + norm.plane; ++i) out[i] = (x[i] - center) * factor * w + b;
  }
}

template <class T>
void forward_row(const RowNorm& norm, int64_t r, const T* x, int64_t n, T* out, T& mean, T& scale) {
  const T share = T(1) / static_cast<T>(n);
  mean = norm.centered ? sum_of<T>(n, [&](int64_t i) { return x[i]; }) * share : T(0);
  const T center = mean;
  const T variance = sum_of<T>(n, [&](int64_t i) { return (x[i] - center) * (x[i] - center); });
  scale = T(1) / math::sqrt(variance * share + static_cast<T>(norm.eps));
  const T factor = scale;
  const T* w = data_or_null<T>(norm.weight);
  const T* b = data_or_null<T>(norm.bias);
  if constexpr (std::is_same_v<T, float>) {
    if (norm.groups > 0) return forward_planes(norm, r, n, x, center, factor, out);
  }
  if (w != nullptr && b != nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - center) * factor * w[i] + b[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - center) * factor;
    if (w != nullptr) {
      for (int64_t i = 0; i < n; ++i) out[i] *= w[i];
    }
    if (b != nullptr) {
      for (int64_t i = 0; i < n; ++i) out[i] += b[i];
    }
  }
}

// One row's gradient of x, to which `g_sum` (may be null) is added, and its share of the gradients
// of weight and bias: block by block, while what is summed stays in the first-level cache.
template <class T>
void backward_row(const RowNorm& norm, const T* g, const T* x, const T* w, const T* g_sum,
                  int64_t n, T mean, T scale, T* g_x, T* g_weight, T* g_bias) {
  TreeSum<T> of_terms, of_scaled;
  T along_x = T(0), along_one = T(0);
  for (int64_t at = 0; at < n; at += kBlock) {
    T scaled[kBlock], terms[kBlock];
    const int64_t count = std::min(kBlock, n - at);
    for (const T* from : {x, g}) {
      fetch_ahead(reinterpret_cast<const std::byte*>(from + at), count * int64_t{sizeof(T)});
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = at + i;
      const T normal = (x[k] - mean) * scale, product = g[k] * w[k];
      scaled[i] = product;
      terms[i] = product * normal;
      g_weight[k] += g[k] * normal;
      g_bias[k] += g[k];
    }
    of_terms.add(along_x = block_sum(terms, count));
    if (norm.centered) of_scaled.add(along_one = block_sum(scaled, count));
  }
  if (n > kBlock) {  // a single block's sum keeps the sign of a zero
    along_x = of_terms.total();
    along_one = of_scaled.total();
  }
  const T share = T(1) / static_cast<T>(n);
  along_x *= share;
  along_one *= share;
  if (g_sum != nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      g_x[i] = g_sum[i] + (g[i] * w[i] - along_one - (x[i] - mean) * scale * along_x) * scale;
    }
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    g_x[i] = (g[i] * w[i] - along_one - (x[i] - mean) * scale * along_x) * scale;
  }
}

// Sums the strips' partial results in order.
template <class T>
void join(const T* parts, int64_t strips, int64_t step, int64_t n, const Array* out) {
  if (out == nullptr) return;
  T* total = out->data<T>();
  std::copy_n(parts, n, total);
  for (int64_t s = 1; s < strips; ++s) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) total[i] += parts[s * step + i];
  }
}

template <class T>
void forward(const RowNorm& norm, const Array& x, const Array& out, const Array& mean,
             const Array& scale) {
  const int64_t n = x.shape()[1];
  T* sum = norm.residual != nullptr ? norm.sum->data<T>() : nullptr;
  T *means = mean.data<T>(), *scales = scale.data<T>();
  const ConvertFn narrow =
      out.dtype() != kDTypeOf<T> ? converter(kDTypeOf<T>, out.dtype()) : nullptr;
  parallel_for(x.shape()[0], std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    const Workspace<T> wide(sum != nullptr || x.dtype() != kDTypeOf<T> ? n : 0);
    const Workspace<T> result(narrow != nullptr ? n : 0);
    for (int64_t r = begin; r < end; ++r) {
      const T* row = row_of(x, r, n, wide.data());
      if (sum != nullptr) {
        add_residual(row, *norm.residual, r, n, wide.data(), sum + r * n);
        row = sum + r * n;
      }
      std::byte* to = row_bytes(out, r, n);
      T* norms = narrow != nullptr ? result.data() : reinterpret_cast<T*>(to);
      forward_row(norm, r, row, n, norms, means[r], scales[r]);
      if (narrow != nullptr) narrow(n, reinterpret_cast<std::byte*>(norms), 1, to, 1);
    }
  });
}

template <class T>
void backward(const RowNorm& norm, const Array& g, const Array& x, const Array& mean,
              const Array& scale, const Array& g_x, const Array* g_weight, const Array* g_bias) {
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const int64_t height = std::max(kStripRows, (rows + kMostStrips - 1) / kMostStrips);
  const int64_t strips = (rows + height - 1) / height;
  const T *from = x.data<T>(), *g_sum = data_or_null<T>(norm.g_sum);
  const T *means = mean.data<T>(), *scales = scale.data<T>();
  T* to = g_x.data<T>();
  const ConvertFn narrow =
      norm.g_residual != nullptr ? converter(g_x.dtype(), norm.g_residual->dtype()) : nullptr;
  const Workspace<T> sums(strips * 2 * n);
  parallel_for(strips, 1, [&](int64_t begin, int64_t end) {
    const Workspace<T> wide(g.dtype() != kDTypeOf<T> ? n : 0);
    const T* w = data_or_null<T>(norm.weight);
    const Workspace<T> ones(w == nullptr ? n : 0);
    if (w == nullptr) {
      std::fill_n(ones.data(), n, T(1));
      w = ones.data();
    }
    for (int64_t s = begin; s < end; ++s) {
      T* of_weight = sums.data() + s * 2 * n;
      T* of_bias = of_weight + n;
      std::fill_n(of_weight, 2 * n, T(0));
      for (int64_t r = s * height; r < std::min(rows, (s + 1) * height); ++r) {
        const T *row_g = row_of(g, r, n, wide.data()), *row_x = from + r * n;
        backward_row(norm, row_g, row_x, w, g_sum != nullptr ? g_sum + r * n : nullptr, n, means[r],
                     scales[r], to + r * n, of_weight, of_bias);
        if (norm.g_residual != nullptr) {
          narrow(n, row_bytes(g_x, r, n), 1, row_bytes(*norm.g_residual, r, n), 1);
        }
      }
    }
  });
  join(sums.data(), strips, 2 * n, n, g_weight);
  join(sums.data() + n, strips, 2 * n, n, g_bias);
}

float plane_sum(const float* x, int64_t n) {
  return sum_blocks<float>(n, [=](int64_t at, int64_t count) { return block_sum(x + at, count); });
}

// A row of a group norm. Sums of each plane, of the gradient times the normalised element and of
// the gradient alone, are what its element of weight and bias gets from the row.
void backward_planes(const RowNorm& norm, int64_t r, const float* g, const float* x, int64_t n,
                     float mean, float scale, float* of_weight, float* of_bias, float* g_x) {
  const auto* const weight = data_or_null<float>(norm.weight);
  const int64_t channel = first_channel(norm, r, n), plane = norm.plane;
  const auto factor = [&](int64_t i) { return weight != nullptr ? weight[channel + i] : 1.0f; };
  float along_x = 0.0f, along_one = 0.0f;
  for (int64_t i = 0; i < n / plane; ++i) {
    const float *from_g = g + i * plane, *from_x = x + i * plane;
    float* const terms = g_x + i * plane;
    for (const float* from : {from_g, from_x}) {
      fetch_ahead(reinterpret_cast<const std::byte*>(from), plane * int64_t{sizeof(float)});
    }
#pragma GCC ivdep
    for (int64_t j = 0; j < plane; ++j) terms[j] = from_g[j] * ((from_x[j] - mean) * scale);
    of_weight[i] = plane_sum(terms, plane);
    of_bias[i] = plane_sum(from_g, plane);
    along_x += factor(i) * of_weight[i];
    along_one += factor(i) * of_bias[i];
  }
  const float share = 1.0f / static_cast<float>(n);
  along_x *= share;
  along_one *= share;
  for (int64_t i = 0; i < n / plane; ++i) {
    const float w = factor(i);
#pragma GCC ivdep
    for (int64_t j = i * plane; j < (i + 1) * plane; ++j) {
      g_x[j] = (g[j] * w - along_one - (x[j] - mean) * scale * along_x) * scale;
    }
  }
}

void backward_groups(const RowNorm& norm, const Array& g, const Array& x, const Array& mean,
                     const Array& scale, const Array& g_x, const Array* g_weight,
                     const Array* g_bias) {
  const int64_t rows = x.shape()[0], n = x.shape()[1], count = n / norm.plane;
  const int64_t samples = rows / norm.groups, channels = norm.groups * count;
  const float *means = mean.data<float>(), *scales = scale.data<float>();
  const auto room = [=](const Array& array) { return array.dtype() == kFloat32 ? 0 : n; };
  const ConvertFn narrow = converter(kFloat32, g_x.dtype());
  const Workspace<float> sums(2 * samples * channels);
  float* const of_bias = sums.data() + samples * channels;
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    const Workspace<float> wide_x(room(x)), wide_g(room(g)), wide(room(g_x));
    for (int64_t r = begin; r < end; ++r) {
      std::byte* const to = row_bytes(g_x, r, n);
      auto* const found = room(g_x) > 0 ? wide.data() : reinterpret_cast<float*>(to);
      backward_planes(norm, r, row_of(g, r, n, wide_g.data()), row_of(x, r, n, wide_x.data()), n,
                      means[r], scales[r], sums.data() + r * count, of_bias + r * count, found);
      if (room(g_x) > 0) narrow(n, reinterpret_cast<std::byte*>(found), 1, to, 1);
    }
  });
  join(sums.data(), samples, channels, channels, g_weight);
  join(of_bias, samples, channels, channels, g_bias);
}

}  // namespace

void CpuBackend::run(const call::NormalizeRows& call) {
  if (call.x.numel() == 0) return;
  if (call.x.dtype() == kFloat64)
    return forward<double>(call.norm, call.x, call.out, call.mean, call.scale);
  forward<float>(call.norm, call.x, call.out, call.mean, call.scale);
}

void CpuBackend::run(const call::NormalizeRowsBack& call) {
  if (call.x.numel() == 0) {
    if (call.g_weight != nullptr) run(call::Fill{*call.g_weight, 0});
    if (call.g_bias != nullptr) run(call::Fill{*call.g_bias, 0});
    return;
  }
  if (call.x.dtype() == kFloat64) {
    return backward<double>(call.norm, call.g, call.x, call.mean, call.scale, call.g_x,
                            call.g_weight, call.g_bias);
  }
  if (call.norm.groups > 0) {
    return backward_groups(call.norm, call.g, call.x, call.mean, call.scale, call.g_x,
                           call.g_weight, call.g_bias);
  }
  backward<float>(call.norm, call.g, call.x, call.mean, call.scale, call.g_x, call.g_weight,
                  call.g_bias);
}

}  // namespace hero::core::cpu
