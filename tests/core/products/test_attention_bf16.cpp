// Attention of bfloat16 by the machine's instruction, bit for bit beside its definition: products
// summed in scalars, and what happens between them as the kernels for float32 do it.
#include <vector>

#include "core/products/native_half_sum.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/nn/attention_rows.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/half_products.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using hero_test::native_half_sum;
using Rows = cpu::AttentionRows<float>;

// What attention reads and writes. q, out and their gradients are [B, H, T, D], k and v [B, H_kv,
// S, D]; all of it is contiguous.
struct Attention {
  AttentionScores scores;
  Array q, k, v, g;
  Array out = {}, log_sum = {}, g_q = {}, g_k = {}, g_v = {};

  void make_results() {
    out = q.empty_like();
    log_sum = Array::empty({q.size(0), q.size(1), q.size(2)});
    g_q = q.empty_like();
    g_k = k.empty_like();
    g_v = v.empty_like();
  }
};

struct Halves {
  BFloat16* data;
  int64_t width;
  Halves(const Array& x, int64_t b, int64_t h)
      : data(x.data<BFloat16>() + (b * x.size(1) + h) * x.size(2) * x.size(3)), width(x.size(3)) {}
  BFloat16& at(int64_t i, int64_t j) const { return data[i * width + j]; }
};

// One head of queries by the definition; sums of the gradients of k and v are carried from one head
// that shares them to the next.
class Head {
 public:
  Head(const Attention& a, int64_t b, int64_t h)
      : rows_(a.scores, a.q.size(2), a.k.size(2)),
        b_(b),
        h_(h),
        kv_(h / (a.q.size(1) / a.k.size(1))),
        q_(a.q, b, h),
        g_(a.g, b, h),
        out_(a.out, b, h),
        g_q_(a.g_q, b, h),
        k_(a.k, b, kv_),
        v_(a.v, b, kv_),
        log_sum_(a.log_sum.data<float>() + (b * a.q.size(1) + h) * a.q.size(2)) {}

  void forward() {
    for (int64_t tile = 0; tile < rows_.tiles(); ++tile) {
      const Rows::Part part = rows_.part_of(tile);
      std::vector<float> p = scores_of(part);
      for (int64_t r = 0; r < part.rows; ++r) {
        float* const row = p.data() + r * part.keys;
        const int64_t seen = rows_.visible(part.first + r);
        log_sum_[part.first + r] = Rows::softmax(row, seen);
        std::fill(row + seen, row + part.keys, 0.0f);
        for (int64_t c = 0; c < v_.width; ++c) {
          const auto upper = [&](int64_t j) { return BFloat16(row[j]); };
          const auto lower = [&](int64_t j) {
            return BFloat16(row[j] - static_cast<float>(upper(j)));
          };
          const auto value = [&](int64_t j) { return v_.at(j, c); };
          const float sum = native_half_sum(part.keys, upper, value);
          out_.at(part.first + r, c) = BFloat16(sum + native_half_sum(part.keys, lower, value));
        }
      }
    }
  }

  void backward(std::vector<float>& of_k, std::vector<float>& of_v) {
    for (int64_t tile = 0; tile < rows_.tiles(); ++tile) {
      const Rows::Part part = rows_.part_of(tile);
      std::vector<float> p = scores_of(part), slopes(p.size());
      for (int64_t r = 0; r < part.rows; ++r) {
        const int64_t at = part.first + r;
        float* const slope = slopes.data() + r * part.keys;
        for (int64_t j = 0; j < part.keys; ++j) {
          slope[j] = native_half_sum(
              v_.width, [&](int64_t c) { return g_.at(at, c); },
              [&](int64_t c) { return v_.at(j, c); });
        }
        const float along = cpu::sum_of<float>(v_.width, [&](int64_t c) {
          return static_cast<float>(g_.at(at, c)) * static_cast<float>(out_.at(at, c));
        });
        rows_.backward_row(p.data() + r * part.keys, slope, rows_.visible(at), part.keys,
                           log_sum_[at], along);
        for (int64_t c = 0; c < k_.width; ++c) {
          g_q_.at(at, c) = BFloat16(native_half_sum(
              part.keys, [&](int64_t j) { return BFloat16(slope[j]); },
              [&](int64_t j) { return k_.at(j, c); }));
        }
      }
      add_columns(part, p, g_, of_v);
      add_columns(part, slopes, q_, of_k);
    }
  }

 private:
  std::vector<float> scores_of(const Rows::Part& part) const {
    std::vector<float> s(static_cast<size_t>(part.rows * part.keys));
    for (int64_t r = 0; r < part.rows; ++r) {
      for (int64_t j = 0; j < part.keys; ++j) {
        s[static_cast<size_t>(r * part.keys + j)] = native_half_sum(
            q_.width, [&](int64_t c) { return q_.at(part.first + r, c); },
            [&](int64_t c) { return k_.at(j, c); });
      }
    }
    rows_.finish_scores(b_, h_, part, s.data());
    return s;
  }

  // sums [S, D] += x^T y over the rows of a tile.
  static void add_columns(const Rows::Part& part, const std::vector<float>& x, const Halves& y,
                          std::vector<float>& sums) {
    for (int64_t j = 0; j < part.keys; ++j) {
      for (int64_t c = 0; c < y.width; ++c) {
        sums[static_cast<size_t>(j * y.width + c)] += native_half_sum(
            part.rows,
            [&](int64_t r) { return BFloat16(x[static_cast<size_t>(r * part.keys + j)]); },
            [&](int64_t r) { return y.at(part.first + r, c); });
      }
    }
  }

  Rows rows_;
  int64_t b_, h_, kv_;
  Halves q_, g_, out_, g_q_, k_, v_;
  float* log_sum_;
};

void by_definition(Attention& a) {
  a.make_results();
  const int64_t heads = a.q.size(1), shared = a.k.size(1);
  for (int64_t b = 0; b < a.q.size(0); ++b) {
    for (int64_t kv = 0; kv < shared; ++kv) {
      std::vector<float> of_k(static_cast<size_t>(a.k.size(2) * a.k.size(3)));
      std::vector<float> of_v(of_k.size());
      for (int64_t h = kv * heads / shared; h < (kv + 1) * heads / shared; ++h) {
        Head head(a, b, h);
        head.forward();
        head.backward(of_k, of_v);
      }
      for (size_t i = 0; i < of_k.size(); ++i) {
        Halves(a.g_k, b, kv).data[i] = BFloat16(of_k[i]);
        Halves(a.g_v, b, kv).data[i] = BFloat16(of_v[i]);
      }
    }
  }
}

TEST_CASE("native attention of bfloat16 has the bits of its definition, its gradients too",
          "[core][half]") {
  if (!native_half_products()) {
    SUCCEED("skipped: this processor has no products of bfloat16, or HERO_CPU leaves them out");
    return;
  }
  struct Sizes {
    int64_t heads, kv_heads, queries, keys, depth;
    bool is_causal;
  };
  for (const Sizes& s : {Sizes{2, 2, 70, 70, 24, true}, Sizes{4, 2, 5, 5, 7, true},
                         Sizes{2, 1, 66, 530, 8, false}}) {
    CAPTURE(s.heads, s.kv_heads, s.queries, s.keys, s.depth, s.is_causal);
    Attention native{{.scale = 0.3, .is_causal = s.is_causal},
                     noise({2, s.heads, s.queries, s.depth}, kBFloat16, 1),
                     noise({2, s.kv_heads, s.keys, s.depth}, kBFloat16, 2),
                     noise({2, s.kv_heads, s.keys, s.depth}, kBFloat16, 3),
                     noise({2, s.heads, s.queries, s.depth}, kBFloat16, 4)};
    Attention defined = native;
    native.make_results();
    Backend& backend = cpu_backend();
    backend.run(
        call::Attention{native.scores, native.q, native.k, native.v, native.out, native.log_sum});
    backend.run(call::AttentionBack{native.scores, native.g, native.q, native.k, native.v,
                                    native.out, native.log_sum, native.g_q, native.g_k,
                                    native.g_v});
    by_definition(defined);
    REQUIRE(same(native.log_sum, defined.log_sum));
    REQUIRE(same(native.out, defined.out));
    REQUIRE(same(native.g_q, defined.g_q));
    REQUIRE(same(native.g_k, defined.g_k));
    REQUIRE(same(native.g_v, defined.g_v));
  }
}

}  // namespace
