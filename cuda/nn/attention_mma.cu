// Attention of half precision with tensor cores, by the structure of FlashAttention-2 (Dao 2023):
// four warps hold 128 queries, 32 each, and walk over the keys 64 at a time; probabilities go from
// one product to the next in registers. While a tile's scores are computed, its values are loaded,
// and while the values are added up, the next tile's keys.
#include <hero/cuda/nn/attention_mma.cuh>

namespace hero::cuda {

namespace {

// Sizes of the tiles, as large as registers allow: groups of 16 queries of a warp, keys of a step.
template <int kHead, bool kEach>
struct Size {
  static constexpr int kRows = kEach ? 1 : 2, kKeys = kEach || kHead <= 64 ? 64 : 48;
};

// The softmax so far of this lane's rows, 8 * i + lane / 4 of the warp's. Scores are in units of
// log 2 here; `sum` is only of the columns this lane has.
template <int kRows>
struct Rows {
  float top[2 * kRows], sum[2 * kRows];

  __device__ Rows() {
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
      top[i] = -std::numeric_limits<float>::infinity();
      sum[i] = 0.0f;
    }
  }
  // Scores, times unit, become exponentials; out is brought to the new maximum.
  template <int kColumns, int kOut>
  __device__ void add(Sums<kRows, kColumns>& s, float unit, Sums<kRows, kOut>& out) {
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
      float most = -std::numeric_limits<float>::infinity();
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        most = std::fmax(most, std::fmax(s[i / 2][n][i % 2 * 2], s[i / 2][n][i % 2 * 2 + 1]));
      }
      most = std::fmax(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = std::fmax(most, __shfl_xor_sync(kAllLanes, most, 2));
      most = std::fmax(top[i], most * unit);
      const float base = most == -std::numeric_limits<float>::infinity() ? 0.0f : most;
      const float factor = power_of_two(top[i] - base);
      top[i] = most;
      float part = 0.0f;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int c = i % 2 * 2; c < i % 2 * 2 + 2; ++c) {
          s[i / 2][n][c] = power_of_two(std::fma(s[i / 2][n][c], unit, -base));
          part += s[i / 2][n][c];
        }
      }
      sum[i] = std::fma(sum[i], factor, part);
#pragma unroll
      for (int n = 0; n < kOut; ++n) {
        out[i / 2][n][i % 2 * 2] *= factor;
        out[i / 2][n][i % 2 * 2 + 1] *= factor;
      }
    }
  }
  // After the last tile: sums over whole rows.
  __device__ void finish() {
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) {
      sum[i] += __shfl_xor_sync(kAllLanes, sum[i], 1);
      sum[i] += __shfl_xor_sync(kAllLanes, sum[i], 2);
    }
  }
};

// Scores of the pairs from (query, key) on become -inf where hidden; with kEach, those with a mask
// or a bias are made from the products, in units of log 2.
template <bool kEach, int kRows, int kColumns>
__device__ void hide(const Rule<float>& rule, int query, int key, Sums<kRows, kColumns>& s) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int a = query + 16 * m + lane / 4 + 8 * (i / 2);
        const int b = key + 8 * n + 2 * (lane % 4) + i % 2;
        if (rule.hidden(a, b)) {
          s[m][n][i] = -std::numeric_limits<float>::infinity();
        } else if constexpr (kEach) {
          s[m][n][i] = rule.score(s[m][n][i], a, b) * kLog2E;
        }
      }
    }
  }
}

template <class T, int kHead, bool kEach>
__global__ void __launch_bounds__(kMmaThreads)
    forward_kernel(Rules<float> rules, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                   Heads<T> out, float* log_sum) {
  constexpr int kRows = Size<kHead, kEach>::kRows, kKeys = Size<kHead, kEach>::kKeys;
  constexpr int kQueries = 64 * kRows, kColumns = kKeys / 8;
  const Tile<T, kHead> of_q{dynamic_shared<T>()};
  const Tile<T, kHead> of_k{of_q.data + kQueries * kHead}, of_v{of_k.data + kKeys * kHead};
  const int tiles = tiles_of(rules.queries, kQueries);
  const int64_t head = blockIdx.x / static_cast<unsigned>(tiles);
  // The last tiles see most when causal, and come first.
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kQueries;
  const int64_t b = head / rules.heads, h = head % rules.heads;
  const Rule<float> rule = rules.of(b, h);
  const Matrix<const T> keys = k.of(b, h / rules.share()), values = v.of(b, h / rules.share());
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kRows;  // this warp's first
  const int end = rule.end_of_keys(first + kQueries);
  const float unit = kEach ? 1.0f : rule.scale * kLog2E;

  of_q.template load<kQueries>(q.of(b, h), first);
  of_k.template load<kKeys>(keys, 0);
  commit_copies();
  // Queries stay in registers where there is room.
  constexpr bool kHeld = kHead <= 64;
  uint32_t held[kHeld ? kHead / 16 : 1][kRows][4];
  Sums<kRows, kHead / 8> sums;
  clear<kRows, kHead / 8>(sums);
  Rows<kRows> rows;
  for (int key = 0; key < end; key += kKeys) {
    wait_copies<0>();
    __syncthreads();  // these keys are here, and values of the step before are not needed any more
    of_v.template load<kKeys>(values, key);
    commit_copies();
    // A warp does nothing where its queries see none of these keys.
    const bool seen = !rule.causal || key < rule.ahead + first + row + 16 * kRows;
    Sums<kRows, kColumns> s;
    if constexpr (kHeld) {
      if (key == 0) {
#pragma unroll
        for (int i = 0; i < kHead / 16; ++i) {
#pragma unroll
          for (int m = 0; m < kRows; ++m) of_q.a_fragment(held[i][m], row, m, i);
        }
      }
      clear<kRows, kColumns>(s);
      if (seen) {
#pragma unroll
        for (int i = 0; i < kHead / 16; ++i) {
          add_step<T, kHead, kRows, kColumns>(s, held[i], of_k, i);
        }
      }
    } else if (seen) {
      multiply<T, kHead, kRows, kColumns>(s, of_q, row, of_k);
    }
    wait_copies<0>();
    __syncthreads();  // the values are here, and these keys are not needed any more
    if (key + kKeys < end) of_k.template load<kKeys>(keys, key + kKeys);
    commit_copies();
    if (!seen) continue;
    if (kEach || key + kKeys > rule.keys ||
        (rule.causal && key + kKeys > rule.ahead + first + row)) {
      hide<kEach, kRows, kColumns>(rule, first + row, key, s);
    }
    rows.template add<kColumns, kHead / 8>(s, unit, sums);
    add_product<T, kHead, kRows, kColumns>(sums, s, of_v);
  }

  if (end == 0) {  // no step has waited for the queries, whose place the results take
    wait_copies<0>();
    __syncthreads();
  }
  rows.finish();
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
    const int query = first + row + 8 * i + lane / 4;
    // A row that saw nothing is 0, and the logarithm inf, with which backward finds probabilities
    // of 0 again: as on the CPU.
    const bool saw_none = rows.sum[i] == 0.0f;
    if (lane % 4 == 0 && query < rules.queries) {
      log_sum[head * rules.queries + query] =
          saw_none ? std::numeric_limits<float>::infinity()
                   : std::fma(rows.top[i], kLn2, std::log(rows.sum[i]));
    }
    const float scale = saw_none ? 0.0f : 1.0f / rows.sum[i];
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      sums[i / 2][n][i % 2 * 2] *= scale;
      sums[i / 2][n][i % 2 * 2 + 1] *= scale;
    }
  }
  store<T, kHead, kRows>(sums, of_q, row, out.of(b, h), first);
}

template <class T, int kHead, bool kEach>
void forward(const core::AttentionScores& scores, const Array& q, const Array& k, const Array& v,
             const Array& out, const Array& log_sum) {
  constexpr int kQueries = 64 * Size<kHead, kEach>::kRows, kKeys = Size<kHead, kEach>::kKeys;
  const Rules<float> rules(scores, q, k);
  const int blocks = tiles_of(rules.queries, kQueries) * rules.batches * rules.heads;
  launch("attention", forward_kernel<T, kHead, kEach>, dim3(static_cast<unsigned>(blocks)),
         dim3(kMmaThreads), tile_bytes<kHead>(kQueries + 2 * kKeys), rules, Heads<const T>(q),
         Heads<const T>(k), Heads<const T>(v), Heads<T>(out),
         reinterpret_cast<float*>(log_sum.bytes()));
}

}  // namespace

void mma_attention(const core::AttentionScores& scores, const Array& q, const Array& k,
                   const Array& v, const Array& out, const Array& log_sum) {
  choose_mma(scores, q, v, [&]<class T, int kHead, bool kEach>(MmaChoice<T, kHead, kEach>) {
    forward<T, kHead, kEach>(scores, q, k, v, out, log_sum);
  });
}

}  // namespace hero::cuda
