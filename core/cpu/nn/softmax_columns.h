#pragma once
// Softmax of many columns side by side, bitwise identical to the softmax of rows.
#include <vector>

#include <hero/core/cpu/interleaved_lines.h>
#include <hero/core/cpu/reduce/column_sums.h>
#include <hero/core/kernels/math.h>

namespace hero::core::cpu {

// exp_term() of double in vectors, too.
[[gnu::always_inline]] inline float softmax_term(float x) { return exp_term(x); }
[[gnu::always_inline]] inline double softmax_term(double x) { return math::exp_in_vectors(x); }

/// Scratch of a thread for pieces of `width` columns of n rows.
template <class T>
class SoftmaxColumns {
 public:
  SoftmaxColumns(int64_t n, int64_t width)
      : n_(n), sums_(n, width), room_(static_cast<size_t>(3 * width)) {}

  [[gnu::noinline]] void softmax(const RowsOf<const T>& x, int64_t width, const RowsOf<T>& out) {
    start(width);
    find_largest(x);
    add_up([&](int64_t i) { return exponentials(x[i], out[i]); });
    for (int64_t c = 0; c < width; ++c) sum_[c] = T(1) / sum_[c];
    for (int64_t i = 0; i < n_; ++i) {
      T* to = out[i];
      each([&](int64_t c) { to[c] *= sum_[c]; });
    }
  }
  [[gnu::noinline]] void log_softmax(const RowsOf<const T>& x, int64_t width,
                                     const RowsOf<T>& out) {
    start(width);
    find_largest(x);
    add_up([&](int64_t i) { return exponentials(x[i], terms_); });
    each([&](int64_t c) { sum_[c] = math::log(sum_[c]); });
    for (int64_t i = 0; i < n_; ++i) {
      const T* from = x[i];
      T* to = out[i];
      each([&](int64_t c) { to[c] = (from[c] - top_[c]) - sum_[c]; });
    }
  }
  [[gnu::noinline]] void softmax_backward(const RowsOf<const T>& g, const RowsOf<const T>& y,
                                          int64_t width, const RowsOf<T>& out) {
    start(width);
    const auto take = [&](int64_t i, bool is_first, T* to) {
      const T *gradient = g[i], *from = y[i];
      fetch_row(g, i + 1);
      fetch_row(y, i + 1);
      if (is_first) {
        each([&](int64_t c) { to[c] = gradient[c] * from[c]; });
      } else {
        each([&](int64_t c) { to[c] += gradient[c] * from[c]; });
      }
    };
    sums_.add_up_terms(n_, width_, take, sum_);
    for (int64_t i = 0; i < n_; ++i) {
      const T *gradient = g[i], *from = y[i];
      T* to = out[i];
      each([&](int64_t c) { to[c] = from[c] * (gradient[c] - sum_[c]); });
    }
  }
  [[gnu::noinline]] void log_softmax_backward(const RowsOf<const T>& g, const RowsOf<const T>& y,
                                              int64_t width, const RowsOf<T>& out) {
    start(width);
    add_up([&](int64_t i) {
      fetch_row(g, i + 1);
      return g[i];
    });
    for (int64_t i = 0; i < n_; ++i) {
      const T *gradient = g[i], *from = y[i];
      T* to = out[i];
      fetch_row(y, i + 1);
      each([&](int64_t c) { to[c] = gradient[c] - math::exp_in_vectors(from[c]) * sum_[c]; });
    }
  }

 private:
  void start(int64_t width) {
    width_ = width;
    top_ = room_.data();
    sum_ = top_ + width;
    terms_ = sum_ + width;
  }
  template <class Body>
  [[gnu::always_inline]] void each(Body&& body) const {
#pragma GCC ivdep
    for (int64_t c = 0; c < width_; ++c) body(c);
  }
  template <class Row>
  void add_up(Row&& row) {
    sums_.add_up(n_, width_, row, sum_);
  }
  void fetch_row(const RowsOf<const T>& x, int64_t i) const {
    if (i < n_) fetch(x[i], width_);
  }
  // A NaN may get lost here; the sum of exponentials finds it.
  void find_largest(const RowsOf<const T>& x) {
    std::copy_n(x[0], width_, top_);
    for (int64_t i = 1; i < n_; ++i) {
      const T* from = x[i];
      fetch_row(x, i + 1);
      each([&](int64_t c) { top_[c] = from[c] > top_[c] ? from[c] : top_[c]; });
    }
  }
  [[gnu::noinline]] const T* exponentials(const T* x, T* to) const {
    each([&](int64_t c) { to[c] = softmax_term(x[c] - top_[c]); });
    return to;
  }

  int64_t n_, width_ = 0;
  ColumnSums<T> sums_;
  std::vector<T> room_;
  T *top_ = nullptr, *sum_ = nullptr, *terms_ = nullptr;
};

}  // namespace hero::core::cpu
