#pragma once
// Helpers of the kernels of attention: the memory of heads, and how scores become probabilities. B
// batch, H heads of q, G heads of k and v, T queries, S keys, D and E sizes of a key and a value.
#include <cmath>
#include <limits>

#include <hero/core/device/backend.h>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

/// The type in which attention over T computes, which is also that of log_sum and bias.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// dispatch() over the floating dtypes; other dtypes are an Error.
template <class Body>
void dispatch_floats(const char* op, DType dtype, Body&& body) {
  check(is_floating(dtype), op, ": ", dtype, " is no floating dtype");
  dispatch(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_integral_v<T>) body(tag);
  });
}

/// One head of an array: a matrix of any strides.
template <class T>
struct Matrix {
  T* data;
  int64_t row, column;  // strides
  int rows, columns;
};

/// An array [B, heads, rows, columns]; passed to kernels by value.
template <class T>
struct Heads {
  T* data;
  int64_t batch, head, row, column;  // strides
  int rows, columns;

  explicit Heads(const Array& x)
      : data(reinterpret_cast<T*>(x.bytes())),
        batch(x.strides()[0]),
        head(x.strides()[1]),
        row(x.strides()[2]),
        column(x.strides()[3]),
        rows(static_cast<int>(x.shape()[2])),
        columns(static_cast<int>(x.shape()[3])) {}
  HERO_HD Matrix<T> of(int64_t b, int64_t h) const {
    return {data + b * batch + h * head, row, column, rows, columns};
  }
};

/// How scores of one head become probabilities: score * scale + bias, and -inf where the mask is
/// false; keys that a query does not see are left out.
template <class C>
struct Rule {
  C scale;
  bool causal;
  int queries, keys;
  int ahead;            // the first query's position among the keys
  const uint8_t* mask;  // or null
  const C* bias;        // or null
  int64_t mask_row, mask_column, bias_row, bias_column;

  HERO_HD bool hidden(int query, int key) const {
    return query >= queries || key >= keys || (causal && key > query + ahead);
  }
  /// The score of a pair that is not hidden.
  HERO_HD C score(C product, int query, int key) const {
    if (mask != nullptr && mask[query * mask_row + key * mask_column] == 0) {
      return -std::numeric_limits<C>::infinity();
    }
    const C scaled = product * scale;
    return bias == nullptr ? scaled : scaled + bias[query * bias_row + key * bias_column];
  }
  /// The end of the keys [0, end) that queries below `last` see.
  HERO_HD int end_of_keys(int last) const {
    return causal && last + ahead < keys ? last + ahead : keys;
  }
};

/// AttentionScores for kernels; passed by value.
template <class C>
struct Rules {
  C scale;
  bool causal;
  int batches, heads, groups, queries, keys, ahead;
  const uint8_t* mask = nullptr;
  const C* bias = nullptr;
  int64_t mask_strides[4] = {}, bias_strides[4] = {};

  Rules(const core::AttentionScores& scores, const Array& q, const Array& k)
      : scale(static_cast<C>(scores.scale)),
        causal(scores.is_causal),
        batches(static_cast<int>(q.shape()[0])),
        heads(static_cast<int>(q.shape()[1])),
        groups(static_cast<int>(k.shape()[1])),
        queries(static_cast<int>(q.shape()[2])),
        keys(static_cast<int>(k.shape()[2])),
        // from the last key on a query sees all
        ahead(static_cast<int>(std::min(scores.first_query, k.shape()[2]))) {
    if (scores.mask != nullptr) mask = reinterpret_cast<const uint8_t*>(scores.mask->bytes());
    if (scores.bias != nullptr) bias = reinterpret_cast<const C*>(scores.bias->bytes());
    for (int d = 0; d < 4; ++d) {
      if (mask != nullptr) mask_strides[d] = scores.mask->strides()[d];
      if (bias != nullptr) bias_strides[d] = scores.bias->strides()[d];
    }
  }
  HERO_HD Rule<C> of(int64_t b, int64_t h) const {
    const auto at = [&](const auto* x, const int64_t* strides) {
      return x == nullptr ? x : x + b * strides[0] + h * strides[1];
    };
    return {scale,
            causal,
            queries,
            keys,
            ahead,
            at(mask, mask_strides),
            at(bias, bias_strides),
            mask_strides[2],
            mask_strides[3],
            bias_strides[2],
            bias_strides[3]};
  }
  /// The first query that sees `key` or a later key.
  HERO_HD int begin_of_queries(int key) const { return causal && key > ahead ? key - ahead : 0; }
  /// The number of heads of q that share one head of k and v.
  HERO_HD int share() const { return heads / groups; }
};

/// The number of tiles of `size` that cover n.
inline HERO_HD int tiles_of(int n, int size) { return (n + size - 1) / size; }

/// \name The kernels of any type, size and layout: attention_plain.cu. `along` [B, H, T] are the
/// sums of g * out over a row.
/// \{
void plain_attention(const core::AttentionScores& scores, const Array& q, const Array& k,
                     const Array& v, const Array& out, const Array& log_sum);
void plain_attention_backward(const core::AttentionScores& scores, const Array& g, const Array& q,
                              const Array& k, const Array& v, const Array& log_sum,
                              const Array& along, const Array& g_q, const Array& g_k,
                              const Array& g_v);
/// \}

}  // namespace hero::cuda
