// Attention of bfloat16, one tile of queries at a time as in attention.cpp, with native products of
// bfloat16.
#include <hero/core/cpu/nn/attention_rows.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// One head, from its row `first` on, and its transpose.
Bf16Matrix rows_of(const Head<const BFloat16>& x, int64_t first = 0) {
  return {x.data + first * x.row, x.row, x.column};
}
Bf16Matrix columns_of(const Head<const BFloat16>& x) { return {x.data, x.column, x.row}; }

// A tile of the scores of one head, rows of `keys` elements.
class HalfTile {
 public:
  HalfTile(const BFloat16* data, int64_t keys) : data_(data), keys_(keys) {}
  Bf16Matrix rows() const { return {data_, keys_, 1}; }
  Bf16Matrix columns() const { return {data_, 1, keys_}; }

 private:
  const BFloat16* data_;
  int64_t keys_;
};

void round_rows(int64_t count, const float* from, BFloat16* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
}

// x becomes the sum of two halves, but for 2^-17 of it; it is left as what rounding took away. In
// steps, each of which becomes vectors.
void split_rows(int64_t count, float* x, BFloat16* upper, BFloat16* lower) {
  round_rows(count, x, upper);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) x[i] -= static_cast<float>(upper[i]);
  round_rows(count, x, lower);
}

class HalfAttention {
 public:
  HalfAttention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v)
      : rows_(scores, q.shape()[2], k.shape()[2]),
        q_(q),
        k_(k),
        v_(v),
        queries_(q.shape()[2]),
        keys_(k.shape()[2]),
        depth_(q.shape()[3]),
        width_(v.shape()[3]),
        share_(q.shape()[1] / k.shape()[1]) {}

  const AttentionRows<float>& rows() const { return rows_; }

  void forward(int64_t b, int64_t h, int64_t tile, const Array& out, const Array& log_sum) const {
    const auto part = rows_.part_of(tile);
    const int64_t size = part.rows * part.keys;
    const Workspace<float> p(size), values(2 * part.rows * width_);
    const Workspace<BFloat16> halves(2 * size);
    make_scores(b, h, part, p.data());
    float* const sums = log_sum.data<float>() + (b * q_.shape()[1] + h) * queries_ + part.first;
    for (int64_t r = 0; r < part.rows; ++r) {
      float* const row = p.data() + r * part.keys;
      const int64_t seen = rows_.visible(part.first + r);
      sums[r] = AttentionRows<float>::softmax(row, seen);
      std::fill(row + seen, row + part.keys, 0.0f);
    }
    split_rows(size, p.data(), halves.data(), halves.data() + size);
    const Head<const BFloat16> v(v_, b, h / share_);
    const HalfTile both(halves.data(), part.keys);  // the lower halves below the upper ones
    gemm_bf16(2 * part.rows, width_, part.keys, both.rows(), rows_of(v), values.data(), width_,
              false);
    const Head<BFloat16> to(out, b, h);
    for (int64_t r = 0; r < part.rows; ++r) {
      float* const upper = values.data() + r * width_;
      const float* const lower = upper + part.rows * width_;
#pragma GCC ivdep
      for (int64_t j = 0; j < width_; ++j) upper[j] += lower[j];
      round_rows(width_, upper, to.data + (part.first + r) * to.row);
    }
  }

  // The heads of q that share one of k and v, one after the other, and their tiles in order: the
  // gradients of k and v are sums in a fixed order.
  void backward(int64_t b, int64_t shared, const Array& g, const Array& out, const Array& log_sum,
                const Array& g_q, const Array& g_k, const Array& g_v) const {
    const Workspace<float> of_k(keys_ * depth_), of_v(keys_ * width_);
    std::fill_n(of_k.data(), keys_ * depth_, 0.0f);
    std::fill_n(of_v.data(), keys_ * width_, 0.0f);
    for (int64_t h = shared * share_; h < (shared + 1) * share_; ++h) {
      for (int64_t tile = 0; tile < rows_.tiles(); ++tile) {
        backward_tile(b, h, tile, g, out, log_sum, g_q, of_k.data(), of_v.data());
      }
    }
    const Head<BFloat16> to_k(g_k, b, shared), to_v(g_v, b, shared);
    for (int64_t j = 0; j < keys_; ++j) {
      round_rows(depth_, of_k.data() + j * depth_, to_k.data + j * to_k.row);
      round_rows(width_, of_v.data() + j * width_, to_v.data + j * to_v.row);
    }
  }

 private:
  using Part = AttentionRows<float>::Part;

  void make_scores(int64_t b, int64_t h, const Part& part, float* s) const {
    const Head<const BFloat16> q(q_, b, h), k(k_, b, h / share_);
    gemm_bf16(part.rows, part.keys, depth_, rows_of(q, part.first), columns_of(k), s, part.keys,
              false);
    rows_.finish_scores(b, h, part, s);
  }

  void backward_tile(int64_t b, int64_t h, int64_t tile, const Array& g, const Array& out,
                     const Array& log_sum, const Array& g_q, float* of_k, float* of_v) const {
    const auto part = rows_.part_of(tile);
    const int64_t size = part.rows * part.keys;
    const Workspace<float> p(size), g_p(size);
    const Workspace<BFloat16> halves(2 * size);
    const Head<const BFloat16> q(q_, b, h), k(k_, b, h / share_), v(v_, b, h / share_);
    const Head<const BFloat16> g_out(g, b, h), o(out, b, h);
    make_scores(b, h, part, p.data());
    gemm_bf16(part.rows, part.keys, width_, rows_of(g_out, part.first), columns_of(v), g_p.data(),
              part.keys, false);
    const float* const sums =
        log_sum.data<float>() + (b * q_.shape()[1] + h) * queries_ + part.first;
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t at = part.first + r;
      const BFloat16 *x = g_out.data + at * g_out.row, *y = o.data + at * o.row;
      const float along = sum_of<float>(width_, [&](int64_t i) {
        return static_cast<float>(x[i * g_out.column]) * static_cast<float>(y[i * o.column]);
      });
      rows_.backward_row(p.data() + r * part.keys, g_p.data() + r * part.keys, rows_.visible(at),
                         part.keys, sums[r], along);
    }
    BFloat16* const of_scores = halves.data() + size;
    round_rows(size, p.data(), halves.data());
    round_rows(size, g_p.data(), of_scores);
    const HalfTile seen(halves.data(), part.keys), slopes(of_scores, part.keys);
    gemm_bf16(part.keys, width_, part.rows, seen.columns(), rows_of(g_out, part.first), of_v,
              width_, true);
    gemm_bf16(part.keys, depth_, part.rows, slopes.columns(), rows_of(q, part.first), of_k, depth_,
              true);
    const Head<BFloat16> to_q(g_q, b, h);
    gemm_bf16(part.rows, depth_, part.keys, slopes.rows(), rows_of(k),
              to_q.data + part.first * to_q.row, to_q.row);
  }

  AttentionRows<float> rows_;
  const Array &q_, &k_, &v_;
  int64_t queries_, keys_, depth_, width_, share_;
};

}  // namespace

void bf16_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out, const Array& log_sum) {
  const HalfAttention attention(scores, q, k, v);
  const int64_t heads = q.shape()[1], tiles = attention.rows().tiles();
  parallel_for(q.shape()[0] * heads * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tiles;
      attention.forward(head / heads, head % heads, i % tiles, out, log_sum);
    }
  });
}

void bf16_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                             const Array& k, const Array& v, const Array& out, const Array& log_sum,
                             const Array& g_q, const Array& g_k, const Array& g_v) {
  const HalfAttention attention(scores, q, k, v);
  const int64_t groups = k.shape()[1];
  parallel_for(q.shape()[0] * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      attention.backward(i / groups, i % groups, g, out, log_sum, g_q, g_k, g_v);
    }
  });
}

}  // namespace hero::core::cpu
