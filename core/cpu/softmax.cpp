// Softmax along a dimension, a row at a time: the row stays in the cache while it is read for its
// largest element, its sum of exponentials and its result.
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/math.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Running values are kept in two vectors of 64 bytes: a fixed number of lanes, which machines with
// narrower registers split, so that the order of operations is the same everywhere.
template <class T>
struct Wide {
  typedef T type __attribute__((vector_size(64)));
  static constexpr int64_t kWidth = 64 / sizeof(T);
  static void load(const T* from, type& to) { std::memcpy(&to, from, sizeof(to)); }
};

template <class T>
T row_max(const T* x, int64_t n) {
  using W = Wide<T>;
  constexpr int64_t kStep = 2 * W::kWidth;
  T top = x[0];
  int64_t i = 0;
  if (n >= kStep) {
    typename W::type a, b, next;
    W::load(x, a);
    W::load(x + W::kWidth, b);
    for (i = kStep; i + kStep <= n; i += kStep) {
      W::load(x + i, next);
      a = next > a ? next : a;
      W::load(x + i + W::kWidth, next);
      b = next > b ? next : b;
    }
    a = b > a ? b : a;
    for (int64_t j = 0; j < W::kWidth; ++j) top = a[j] > top ? a[j] : top;
  }
  // A NaN may get lost here; the sum of exponentials finds it.
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// The sum of at most kBlock elements: lanes, joined pairwise.
template <class T>
T block_sum(const T* x, int64_t n) {
  using W = Wide<T>;
  constexpr int64_t kStep = 2 * W::kWidth;
  T sum = T(0);
  int64_t i = 0;
  if (n >= kStep) {
    typename W::type a, b, next;
    W::load(x, a);
    W::load(x + W::kWidth, b);
    for (i = kStep; i + kStep <= n; i += kStep) {
      W::load(x + i, next);
      a += next;
      W::load(x + i + W::kWidth, next);
      b += next;
    }
    a += b;
    T lane[W::kWidth];
    std::memcpy(lane, &a, sizeof(a));
    for (int64_t width = W::kWidth / 2; width > 0; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    }
    sum = lane[0];
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// Joins the sums of blocks as a balanced tree while they come in: the error grows with the
// logarithm of the row's length.
template <class T>
class TreeSum {
 public:
  void add(T value) {
    int level = 0;
    for (uint64_t rest = count_++; rest & 1; rest >>= 1) value = levels_[level++] + value;
    levels_[level] = value;
  }
  T total() const {
    T value = T(0);
    int level = 0;
    for (uint64_t rest = count_; rest != 0; rest >>= 1, ++level) {
      if (rest & 1) value = levels_[level] + value;
    }
    return value;
  }

 private:
  T levels_[64];
  uint64_t count_ = 0;
};

// Calls body(at, count) for each block of a row and returns the sum of what it returns.
template <class T, class Body>
T sum_blocks(int64_t n, Body&& body) {
  if (n <= kBlock) return body(int64_t{0}, n);
  TreeSum<T> sum;
  for (int64_t at = 0; at < n; at += kBlock) sum.add(body(at, std::min(kBlock, n - at)));
  return sum.total();
}

// e^x for x <= 0, NaN or, where a row is all -inf, NaN. Below e^-87 it is 0: a term that small
// would add nothing to a sum that is at least 1, and a denormal result would cost more than it
// says.
[[gnu::always_inline]] inline float exp_term(float x) {
  const float power = math::detail::exp_in_range(-math::detail::magnitude_below(x, 87.0f));
  const float kept = x < -87.0f ? 0.0f : power;
  return x != x ? x : kept;
}
[[gnu::always_inline]] inline double exp_term(double x) { return math::exp(x); }

// `out` may be `x` in all four rows.
template <class T>
void softmax_row(const T* x, int64_t n, T* out) {
  const T top = row_max(x, n);
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = at; i < at + count; ++i) out[i] = exp_term(x[i] - top);
    return block_sum(out + at, count);
  });
  const T scale = T(1) / sum;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <class T>
void log_softmax_row(const T* x, int64_t n, T* out) {
  T terms[kBlock];
  const T top = row_max(x, n);
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) terms[i] = exp_term(x[at + i] - top);
    return block_sum(terms, count);
  });
  const T shift = math::log(sum);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - top) - shift;
}

template <class T>
void softmax_row_backward(const T* g, const T* y, int64_t n, T* out) {
  T terms[kBlock];
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) terms[i] = g[at + i] * y[at + i];
    return block_sum(terms, count);
  });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = y[i] * (g[i] - sum);
}

template <class T>
void log_softmax_row_backward(const T* g, const T* y, int64_t n, T* out) {
  const T sum =
      sum_blocks<T>(n, [&](int64_t at, int64_t count) { return block_sum(g + at, count); });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = g[i] - math::exp(y[i]) * sum;
}

template <class T>
void softmax_as(SoftmaxKind kind, const Array& x, int dim, const Array& out) {
  const RowReader<T> reader(x, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> in(reader.buffer_size()), result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* target = writer.target(at, result.data());
      for (int64_t r = 0; r < count; ++r) {
        if (kind == SoftmaxKind::softmax) {
          softmax_row(rows + r * n, n, target + r * n);
        } else {
          log_softmax_row(rows + r * n, n, target + r * n);
        }
      }
      writer.commit(at, count, target);
    }
  });
}

template <class T>
void softmax_backward_as(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                         const Array& out) {
  const RowReader<T> gradients(g, dim), outputs(y, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = outputs.length();
  parallel_for(outputs.count(), outputs.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> in_g(gradients.buffer_size()), in_y(outputs.buffer_size());
    std::vector<T> result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += outputs.group()) {
      const int64_t count = std::min(outputs.group(), end - at);
      const T* rows_g = gradients.read(at, count, in_g.data());
      const T* rows_y = outputs.read(at, count, in_y.data());
      T* target = writer.target(at, result.data());
      for (int64_t r = 0; r < count; ++r) {
        if (kind == SoftmaxKind::softmax) {
          softmax_row_backward(rows_g + r * n, rows_y + r * n, n, target + r * n);
        } else {
          log_softmax_row_backward(rows_g + r * n, rows_y + r * n, n, target + r * n);
        }
      }
      writer.commit(at, count, target);
    }
  });
}

}  // namespace

void CpuBackend::softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) {
  if (out.numel() == 0) return;
  if (out.dtype() == kFloat64) return softmax_as<double>(kind, x, dim, out);
  softmax_as<float>(kind, x, dim, out);
}

void CpuBackend::softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                                  const Array& out) {
  if (out.numel() == 0) return;
  if (out.dtype() == kFloat64) return softmax_backward_as<double>(kind, g, y, dim, out);
  softmax_backward_as<float>(kind, g, y, dim, out);
}

}  // namespace hero::core::cpu
