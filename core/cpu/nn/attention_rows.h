#pragma once
// The steps of attention on a tile of queries that do not depend on how products are computed:
// which keys the tile sees, and scores, probabilities and their gradients row by row. Only
// attention*.cpp includes this.
#include <algorithm>
#include <limits>

#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/device/backend.h>

namespace hero::core::cpu {

inline constexpr int64_t kQueries = 64;  // of a tile: enough rows for the products, few enough to
                                         // skip most of what a causal mask hides

// One head of an array [B, heads, rows, columns].
template <class T>
struct Head {
  T* data;
  int64_t row, column;  // strides

  Head(const Array& x, int64_t b, int64_t h)
      : data(reinterpret_cast<T*>(x.bytes()) + b * x.strides()[0] + h * x.strides()[1]),
        row(x.strides()[2]),
        column(x.strides()[3]) {}
};

// Tiles of the scores [B, H, T, S] in T; `scores` must outlive it.
template <class T>
class AttentionRows {
 public:
  AttentionRows(const AttentionScores& scores, int64_t queries, int64_t keys)
      : scores_(scores), queries_(queries), keys_(keys) {}

  // Rows [first, first + rows) of the scores and the keys that any of them sees.
  struct Part {
    int64_t first, rows, keys;
  };

  int64_t tiles() const { return (queries_ + kQueries - 1) / kQueries; }
  int64_t tile_size() const { return kQueries * keys_; }
  int64_t visible(int64_t query) const {
    return scores_.is_causal ? std::min(keys_, scores_.first_query + query + 1) : keys_;
  }
  Part part_of(int64_t tile) const {
    const int64_t first = tile * kQueries, rows = std::min(kQueries, queries_ - first);
    return {first, rows, visible(first + rows - 1)};
  }

  // Products of q and k become scores.
  void finish_scores(int64_t b, int64_t h, const Part& part, T* s) const {
    const auto scale = static_cast<T>(scores_.scale);
    for (int64_t r = 0; r < part.rows; ++r) {
      T* row = s + r * part.keys;
      for (int64_t j = 0; j < part.keys; ++j) row[j] *= scale;
      if (scores_.bias != nullptr) {
        const Head<const T> bias(*scores_.bias, b, h);
        const T* from = bias.data + (part.first + r) * bias.row;
        for (int64_t j = 0; j < part.keys; ++j) row[j] += from[j * bias.column];
      }
      if (scores_.mask != nullptr) {
        const Head<const uint8_t> mask(*scores_.mask, b, h);
        const uint8_t* from = mask.data + (part.first + r) * mask.row;
        for (int64_t j = 0; j < part.keys; ++j) {
          if (from[j * mask.column] == 0) row[j] = -std::numeric_limits<T>::infinity();
        }
      }
    }
  }

  // In place; returns the logarithm of the sum of exponentials. Where all scores are -inf the row
  // becomes 0 and the logarithm inf, with which backward finds probabilities of 0 again.
  static T softmax(T* x, int64_t n) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const T most = row_max(x, n);
    const T top = most == -kInfinity ? T(0) : most;  // -inf - -inf would be NaN
    const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
#pragma GCC ivdep
      for (int64_t i = at; i < at + count; ++i) x[i] = exp_term(x[i] - top);
      return block_sum(x + at, count);
    });
    if (sum == T(0)) return kInfinity;
    const T scale = T(1) / sum;
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    return top + math::log(sum);
  }

  // Scores become probabilities; g_p, their gradient, becomes that of q k^T.
  void backward_row(T* p, T* g_p, int64_t seen, int64_t keys, T log_sum, T along) const {
    const auto scale = static_cast<T>(scores_.scale);
#pragma GCC ivdep
    for (int64_t j = 0; j < seen; ++j) p[j] = exp_term(p[j] - log_sum);
#pragma GCC ivdep
    for (int64_t j = 0; j < seen; ++j) g_p[j] = p[j] * (g_p[j] - along) * scale;
    std::fill(p + seen, p + keys, T(0));
    std::fill(g_p + seen, g_p + keys, T(0));
  }

 private:
  const AttentionScores& scores_;
  int64_t queries_, keys_;
};

}  // namespace hero::core::cpu
