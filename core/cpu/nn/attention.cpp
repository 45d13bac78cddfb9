// Attention, one tile of queries at a time: the probabilities of a tile are in scratch memory and
// are computed again in backward, so that no array of T * S elements exists. B batch, H heads of q,
// G heads of k and v, T queries, S keys, D and E sizes of a key and a value.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/attention_rows.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
class Attention {
 public:
  Attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v)
      : rows_(scores, q.shape()[2], k.shape()[2]),
        q_(q),
        k_(k),
        v_(v),
        queries_(q.shape()[2]),
        share_(q.shape()[1] / k.shape()[1]) {}

  int64_t tiles() const { return rows_.tiles(); }
  int64_t scratch_size() const { return rows_.tile_size(); }

  // One tile of one head: out and the logarithms of the sums.
  void forward(int64_t b, int64_t h, int64_t tile, const Array& out, const Array& log_sum,
               T* scratch) const {
    const auto part = rows_.part_of(tile);
    make_scores(b, h, part, scratch);
    T* sums = log_sum.data<T>() + (b * q_.shape()[1] + h) * queries_ + part.first;
    for (int64_t r = 0; r < part.rows; ++r) {
      T* row = scratch + r * part.keys;
      const int64_t seen = rows_.visible(part.first + r);
      sums[r] = rows_.softmax(row, seen);
      std::fill(row + seen, row + part.keys, T(0));
    }
    const Head<const T> v(v_, b, h / share_);
    const Head<T> to(out, b, h);
    gemm<T>(part.rows, v_.shape()[3], part.keys, scratch, part.keys, 1, v.data, v.row, v.column,
            to.data + part.first * to.row, to.row);
  }

  // One tile of one head of q; gradients of k and v are added up.
  void backward(int64_t b, int64_t h, int64_t tile, const Array& g, const Array& out,
                const Array& log_sum, const Array& g_q, const Array& g_k, const Array& g_v, T* p,
                T* g_p) const {
    const auto part = rows_.part_of(tile);
    const int64_t shared = h / share_, depth = q_.shape()[3], width = v_.shape()[3];
    const Head<const T> q(q_, b, h), k(k_, b, shared), v(v_, b, shared), g_out(g, b, h);
    const Head<T> of_q(g_q, b, h), of_k(g_k, b, shared), of_v(g_v, b, shared);
    const T* g_rows = g_out.data + part.first * g_out.row;
    make_scores(b, h, part, p);
    gemm<T>(part.rows, part.keys, width, g_rows, g_out.row, g_out.column, v.data, v.column, v.row,
            g_p, part.keys);
    const T* sums = log_sum.data<T>() + (b * q_.shape()[1] + h) * queries_ + part.first;
    const Head<const T> o(out, b, h);
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t at = part.first + r;
      const T along =
          dot(g_out.data + at * g_out.row, g_out.column, o.data + at * o.row, o.column, width);
      rows_.backward_row(p + r * part.keys, g_p + r * part.keys, rows_.visible(at), part.keys,
                         sums[r], along);
    }
    gemm_add<T>(part.keys, width, part.rows, p, 1, part.keys, g_rows, g_out.row, g_out.column,
                of_v.data, of_v.row);
    gemm_add<T>(part.keys, depth, part.rows, g_p, 1, part.keys, q.data + part.first * q.row, q.row,
                q.column, of_k.data, of_k.row);
    gemm<T>(part.rows, depth, part.keys, g_p, part.keys, 1, k.data, k.row, k.column,
            of_q.data + part.first * of_q.row, of_q.row);
  }

 private:
  void make_scores(int64_t b, int64_t h, const typename AttentionRows<T>::Part& part, T* s) const {
    const Head<const T> q(q_, b, h), k(k_, b, h / share_);
    gemm<T>(part.rows, part.keys, q_.shape()[3], q.data + part.first * q.row, q.row, q.column,
            k.data, k.column, k.row, s, part.keys);
    rows_.finish_scores(b, h, part, s);
  }

  static T dot(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n) {
    if (a_step == 1 && b_step == 1) return sum_of<T>(n, [&](int64_t i) { return a[i] * b[i]; });
    return sum_of<T>(n, [&](int64_t i) { return a[i * a_step] * b[i * b_step]; });
  }

  AttentionRows<T> rows_;
  const Array &q_, &k_, &v_;
  int64_t queries_, share_;
};

template <class T>
void forward(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
             const Array& out, const Array& log_sum) {
  const Attention<T> attention(scores, q, k, v);
  const int64_t heads = q.shape()[1], tiles = attention.tiles();
  parallel_for(q.shape()[0] * heads * tiles, 1, [&](int64_t begin, int64_t end) {
    const Workspace<T> scratch(attention.scratch_size());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / tiles;
      attention.forward(head / heads, head % heads, i % tiles, out, log_sum, scratch.data());
    }
  });
}

// The heads that share one of k and v run one after the other, and their tiles in order: the
// gradients of k and v are sums in a fixed order.
template <class T>
void backward(const AttentionScores& scores, const Array& g, const Array& q, const Array& k,
              const Array& v, const Array& out, const Array& log_sum, const Array& g_q,
              const Array& g_k, const Array& g_v) {
  const Attention<T> attention(scores, q, k, v);
  const int64_t groups = k.shape()[1], share = q.shape()[1] / groups;
  parallel_for(q.shape()[0] * groups, 1, [&](int64_t begin, int64_t end) {
    const int64_t size = attention.scratch_size();
    const Workspace<T> scratch(2 * size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / groups;
      for (int64_t h = i % groups * share; h < (i % groups + 1) * share; ++h) {
        for (int64_t tile = 0; tile < attention.tiles(); ++tile) {
          attention.backward(b, h, tile, g, out, log_sum, g_q, g_k, g_v, scratch.data(),
                             scratch.data() + size);
        }
      }
    }
  });
}

}  // namespace

void CpuBackend::run(const call::Attention& call) {
  if (call.out.numel() == 0) return;
  if (call.q.dtype() == kFloat64)
    return forward<double>(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
  if (call.q.dtype() == kBFloat16)
    return bf16_attention(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
  forward<float>(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
}

void CpuBackend::run(const call::AttentionBack& call) {
  if (call.q.dtype() == kBFloat16 && call.out.numel() > 0) {
    return bf16_attention_backward(call.scores, call.g, call.q, call.k, call.v, call.out,
                                   call.log_sum, call.g_q, call.g_k, call.g_v);
  }
  run(call::Fill{call.g_k, 0});
  run(call::Fill{call.g_v, 0});
  if (call.out.numel() == 0) return run(call::Fill{call.g_q, 0});
  if (call.q.dtype() == kFloat64) {
    return backward<double>(call.scores, call.g, call.q, call.k, call.v, call.out, call.log_sum,
                            call.g_q, call.g_k, call.g_v);
  }
  backward<float>(call.scores, call.g, call.q, call.k, call.v, call.out, call.log_sum, call.g_q,
                  call.g_k, call.g_v);
}

}  // namespace hero::core::cpu
