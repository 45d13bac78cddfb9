// Gradients of attention of half precision with tensor cores (Dao 2023), without atomics: one
// kernel walks over queries for the gradients of a tile of keys and values, another over keys for
// those of a tile of queries; both compute the probabilities again from log_sum. In each, the rows
// of products are the resident tile's and the columns those of the tiles that pass by, two of which
// are in shared memory, one used and one arriving.
#include <hero/cuda/nn/attention_mma.cuh>

namespace hero::cuda {

namespace {

// How a tile's pairs are looked at: none is hidden; some may be; and there may be a mask or a bias.
enum class Look { no, hidden, each };

// One score becomes its probability, and g_p, the probability's gradient, that of the scaled score.
template <Look kLook>
__device__ inline void backward_of(const Rule<float>& rule, int query, int key, float log_sum,
                                   float along, float& s, float& g_p) {
  const bool hidden = kLook != Look::no && rule.hidden(query, key);
  if constexpr (kLook == Look::each) {
    if (!hidden) s = power_of_two((rule.score(s, query, key) - log_sum) * kLog2E);
  } else {
    s = power_of_two(std::fma(s, rule.scale * kLog2E, -log_sum * kLog2E));
  }
  if (hidden) s = 0.0f;
  g_p = hidden ? 0.0f : s * (g_p - along);
}

template <Look kLook>
using LookTag = std::integral_constant<Look, kLook>;

template <int kRows, int kColumns>
__device__ void multiply_by(Sums<kRows, kColumns>& sums, float factor) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (float& sum : sums[m][n]) sum *= factor;
    }
  }
}

// Sizes of the tiles, as large as registers allow: groups of 16 rows of a warp, and rows of what
// passes by. A row has two sums of kHead columns in the first kernel, one in the second.
template <int kHead, bool kEach>
struct KeysSize {
  static constexpr int kRows = kEach || kHead > 64 ? 1 : 2;
  static constexpr int kStep = kEach == (kHead > 64) ? 32 : 48;
};
template <int kHead, bool kEach>
struct QueriesSize {
  static constexpr int kRows = kEach || kHead > 64 ? 1 : 2;
  static constexpr int kStep = kHead <= 64 ? 48 : kEach ? 32 : 64;
};

// Begins to copy the numbers of kCount queries that lie beside their tile: log_sum, then along.
template <int kCount>
__device__ void load_numbers(float* to, const float* log_sum, const float* along, int first,
                             int queries) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kCount; i += kMmaThreads) {
    const int query = first + i % kCount;
    const float* const from = i < kCount ? log_sum : along;
    copy_async<4>(to + i, query < queries ? from + query : from, query >= queries);
  }
}

template <class T, int kHead, bool kEach>
__global__ void __launch_bounds__(kMmaThreads)
    keys_kernel(Rules<float> rules, Heads<const T> g, Heads<const T> q, Heads<const T> k,
                Heads<const T> v, const float* log_sum, const float* along, Heads<T> g_k,
                Heads<T> g_v) {
  constexpr int kRows = KeysSize<kHead, kEach>::kRows, kStep = KeysSize<kHead, kEach>::kStep;
  constexpr int kKeys = 64 * kRows, kColumns = kStep / 8;
  const Tile<T, kHead> of_k{dynamic_shared<T>()}, of_v{of_k.data + kKeys * kHead};
  T* const passing = of_v.data + kKeys * kHead;
  float* const numbers = reinterpret_cast<float*>(passing + 4 * kStep * kHead);
  const int tiles = tiles_of(rules.keys, kKeys);
  const int first = static_cast<int>(blockIdx.x) % tiles * kKeys;
  const int64_t group = blockIdx.x / static_cast<unsigned>(tiles);
  const int64_t b = group / rules.groups, shared_head = group % rules.groups;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kRows;  // this warp's first
  // Steps: the tiles of queries that see these keys, for one head after the other.
  const int begin = std::min(rules.begin_of_queries(first), rules.queries);
  int head = static_cast<int>(shared_head) * rules.share(), query = begin;
  const int end = begin < rules.queries ? head + rules.share() : head;
  const auto load = [&](int step, int h, int from) {
    T* const to = passing + step % 2 * 2 * kStep * kHead;
    Tile<T, kHead>{to}.template load<kStep>(q.of(b, h), from);
    Tile<T, kHead>{to + kStep * kHead}.template load<kStep>(g.of(b, h), from);
    const int64_t of_head = (b * rules.heads + h) * rules.queries;
    load_numbers<kStep>(numbers + step % 2 * 2 * kStep, log_sum + of_head, along + of_head, from,
                        rules.queries);
  };

  of_k.template load<kKeys>(k.of(b, shared_head), first);
  of_v.template load<kKeys>(v.of(b, shared_head), first);
  if (head < end) load(0, head, query);
  commit_copies();
  Sums<kRows, kHead / 8> of_g_k, of_g_v;
  clear<kRows, kHead / 8>(of_g_k);
  clear<kRows, kHead / 8>(of_g_v);
  for (int step = 0; head < end; ++step) {
    const bool last = query + kStep >= rules.queries;  // of this head
    const int next_head = head + last, next_query = last ? begin : query + kStep;
    if (next_head < end) load(step + 1, next_head, next_query);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    const Tile<T, kHead> of_q{passing + step % 2 * 2 * kStep * kHead};
    const Tile<T, kHead> of_g{of_q.data + kStep * kHead};
    const float* const number = numbers + step % 2 * 2 * kStep;
    const Rule<float> rule = rules.of(b, head);
    if (!rule.causal ||
        first + row < rule.ahead + query + kStep) {  // some of this warp's keys are seen
      Sums<kRows, kColumns> s, g_p;
      multiply<T, kHead, kRows, kColumns>(s, of_k, row, of_q);
      multiply<T, kHead, kRows, kColumns>(g_p, of_v, row, of_g);
      const auto turn = [&](auto look) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int column = 8 * n + 2 * (lane % 4) + c;
            const float log = number[column], mean = number[kStep + column];
#pragma unroll
            for (int i = 0; i < 2 * kRows; ++i) {
              backward_of<decltype(look)::value>(
                  rule, query + column, first + row + 8 * i + lane / 4, log, mean,
                  s[i / 2][n][i % 2 * 2 + c], g_p[i / 2][n][i % 2 * 2 + c]);
            }
          }
        }
      };
      if constexpr (kEach) {
        turn(LookTag<Look::each>());
      } else if (query + kStep > rule.queries ||
                 (rule.causal && first + row + 16 * kRows > rule.ahead + query)) {
        turn(LookTag<Look::hidden>());
      } else {
        turn(LookTag<Look::no>());
      }
      add_product<T, kHead, kRows, kColumns>(of_g_v, s, of_g);
      add_product<T, kHead, kRows, kColumns>(of_g_k, g_p, of_q);
    }
    head = next_head;
    query = next_query;
    __syncthreads();  // the next but one may arrive here
  }
  wait_copies<0>();
  __syncthreads();
  multiply_by<kRows, kHead / 8>(of_g_k, rules.scale);
  store<T, kHead, kRows>(of_g_k, of_k, row, g_k.of(b, shared_head), first);
  store<T, kHead, kRows>(of_g_v, of_v, row, g_v.of(b, shared_head), first);
}

template <class T, int kHead, bool kEach>
__global__ void __launch_bounds__(kMmaThreads)
    queries_kernel(Rules<float> rules, Heads<const T> g, Heads<const T> q, Heads<const T> k,
                   Heads<const T> v, const float* log_sum, const float* along, Heads<T> g_q) {
  constexpr int kRows = QueriesSize<kHead, kEach>::kRows, kStep = QueriesSize<kHead, kEach>::kStep;
  constexpr int kQueries = 64 * kRows, kColumns = kStep / 8;
  const Tile<T, kHead> of_q{dynamic_shared<T>()}, of_g{of_q.data + kQueries * kHead};
  T* const passing = of_g.data + kQueries * kHead;
  float* const numbers = reinterpret_cast<float*>(passing + 4 * kStep * kHead);
  const int tiles = tiles_of(rules.queries, kQueries);
  const int64_t head = blockIdx.x / static_cast<unsigned>(tiles);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kQueries;
  const int64_t b = head / rules.heads, h = head % rules.heads;
  const Rule<float> rule = rules.of(b, h);
  const Matrix<const T> keys = k.of(b, h / rules.share()), values = v.of(b, h / rules.share());
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kRows;  // this warp's first
  const int steps = tiles_of(rule.end_of_keys(first + kQueries), kStep);
  const auto load = [&](int step) {
    T* const to = passing + step % 2 * 2 * kStep * kHead;
    Tile<T, kHead>{to}.template load<kStep>(keys, step * kStep);
    Tile<T, kHead>{to + kStep * kHead}.template load<kStep>(values, step * kStep);
  };

  of_q.template load<kQueries>(q.of(b, h), first);
  of_g.template load<kQueries>(g.of(b, h), first);
  load_numbers<kQueries>(numbers, log_sum + head * rules.queries, along + head * rules.queries,
                         first, rules.queries);
  load(0);
  commit_copies();
  Sums<kRows, kHead / 8> sums;
  clear<kRows, kHead / 8>(sums);
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) load(step + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    const Tile<T, kHead> of_k{passing + step % 2 * 2 * kStep * kHead};
    const Tile<T, kHead> of_v{of_k.data + kStep * kHead};
    const int key = step * kStep;
    if (!rule.causal ||
        key < rule.ahead + first + row + 16 * kRows) {  // some of these keys are seen
      Sums<kRows, kColumns> s, g_p;
      multiply<T, kHead, kRows, kColumns>(s, of_q, row, of_k);
      multiply<T, kHead, kRows, kColumns>(g_p, of_g, row, of_v);
      const auto turn = [&](auto look) {
#pragma unroll
        for (int i = 0; i < 2 * kRows; ++i) {
          const int at = row + 8 * i + lane / 4;
          const float log = numbers[at], mean = numbers[kQueries + at];
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              backward_of<decltype(look)::value>(rule, first + at, key + 8 * n + 2 * (lane % 4) + c,
                                                 log, mean, s[i / 2][n][i % 2 * 2 + c],
                                                 g_p[i / 2][n][i % 2 * 2 + c]);
            }
          }
        }
      };
      if constexpr (kEach) {
        turn(LookTag<Look::each>());
      } else if (key + kStep > rule.keys ||
                 (rule.causal && key + kStep > rule.ahead + first + row)) {
        turn(LookTag<Look::hidden>());
      } else {
        turn(LookTag<Look::no>());
      }
      add_product<T, kHead, kRows, kColumns>(sums, g_p, of_k);
    }
    __syncthreads();  // the next but one may arrive here
  }
  wait_copies<0>();
  __syncthreads();  // where there was no step: all threads' queries are here
  multiply_by<kRows, kHead / 8>(sums, rules.scale);
  store<T, kHead, kRows>(sums, of_q, row, g_q.of(b, h), first);
}

template <class T, int kHead, bool kEach>
void backward(const core::AttentionScores& scores, const Array& g, const Array& q, const Array& k,
              const Array& v, const Array& log_sum, const Array& along, const Array& g_q,
              const Array& g_k, const Array& g_v) {
  using OfKeys = KeysSize<kHead, kEach>;
  using OfQueries = QueriesSize<kHead, kEach>;
  const Rules<float> rules(scores, q, k);
  const auto* sums = reinterpret_cast<const float*>(log_sum.bytes());
  const auto* products = reinterpret_cast<const float*>(along.bytes());
  const int of_keys = tiles_of(rules.keys, 64 * OfKeys::kRows) * rules.batches * rules.groups;
  const int of_queries =
      tiles_of(rules.queries, 64 * OfQueries::kRows) * rules.batches * rules.heads;
  launch("attention_backward", keys_kernel<T, kHead, kEach>, dim3(static_cast<unsigned>(of_keys)),
         dim3(kMmaThreads),
         tile_bytes<kHead>(128 * OfKeys::kRows + 4 * OfKeys::kStep) +
             4 * sizeof(float) * OfKeys::kStep,
         rules, Heads<const T>(g), Heads<const T>(q), Heads<const T>(k), Heads<const T>(v), sums,
         products, Heads<T>(g_k), Heads<T>(g_v));
  launch("attention_backward", queries_kernel<T, kHead, kEach>,
         dim3(static_cast<unsigned>(of_queries)), dim3(kMmaThreads),
         tile_bytes<kHead>(128 * OfQueries::kRows + 4 * OfQueries::kStep) +
             128 * sizeof(float) * OfQueries::kRows,
         rules, Heads<const T>(g), Heads<const T>(q), Heads<const T>(k), Heads<const T>(v), sums,
         products, Heads<T>(g_q));
}

}  // namespace

void mma_attention_backward(const core::AttentionScores& scores, const Array& g, const Array& q,
                            const Array& k, const Array& v, const Array& log_sum,
                            const Array& along, const Array& g_q, const Array& g_k,
                            const Array& g_v) {
  choose_mma(scores, q, v, [&]<class T, int kHead, bool kEach>(MmaChoice<T, kHead, kEach>) {
    backward<T, kHead, kEach>(scores, g, q, k, v, log_sum, along, g_q, g_k, g_v);
  });
}

}  // namespace hero::cuda
