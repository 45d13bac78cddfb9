// Attention of any type, head size and layout. A block holds a tile of 64 rows and walks over the
// other side's tiles of 64 with an online softmax (Milakov and Gimelshein 2018), so that no array
// of T * S elements exists; backward computes the probabilities again from log_sum (Dao et al.
// 2022). Products are computed by 16 x 16 threads of 4 x 4 sums each, always in this order: depth,
// then tiles, then the heads that share one head of k and v. There are no atomics.
// Results are computed in chunks of columns, one block for each chunk; each chunk computes the
// scores again, and head sizes have no limit.
#include <hero/cuda/nn/attention.cuh>

namespace hero::cuda {

namespace {

constexpr int kTile = 64;
constexpr int kDepth = 32;            // of what lies in shared memory at a time
constexpr int kLine = kTile / 4 + 1;  // groups in a line of kTile, one more against bank conflicts

template <class C>
struct alignas(16) Four {
  C at[4];
};

// Shared memory of a block. `sums` is a tile of probabilities or their gradients, depth first.
template <class C, int kChunk>
struct Shared {
  Four<C> left[kDepth][kLine], right[kDepth][kChunk / 4 + 1], sums[kTile][kLine];
};

// The place of a thread: rows 4 * y + r and, of every 64, columns 4 * x + c are its own.
struct ThreadTile {
  int x = static_cast<int>(threadIdx.x % 16), y = static_cast<int>(threadIdx.x / 16);
};

template <class C, class T>
__device__ C element(const Matrix<const T>& m, int row, int column) {
  if (row >= m.rows || column >= m.columns) return C(0);
  return static_cast<C>(m.data[row * m.row + column * m.column]);
}

// Rows [row, row + 64) and columns [column, column + kDepth) of m, columns first.
template <class C, class T>
__device__ void load_turned(const Matrix<const T>& m, int row, int column, Four<C>* to, int line) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int r = i / kDepth, c = i % kDepth;
    to[c * line + r / 4].at[r % 4] = element<C>(m, row + r, column + c);
  }
}

// Rows [row, row + kDepth) and columns [column, column + kChunk) of m.
template <int kChunk, class C, class T>
__device__ void load(const Matrix<const T>& m, int row, int column, Four<C>* to, int line) {
  for (int i = static_cast<int>(threadIdx.x); i < kDepth * kChunk; i += kThreads) {
    const int r = i / kChunk, c = i % kChunk;
    to[r * line + c / 4].at[c % 4] = element<C>(m, row + r, column + c);
  }
}

// sums[r][..] += left[k][row] * right[k][column] over k in [0, kDepth).
template <int kGroups, class C>
__device__ void multiply(const ThreadTile& me, const Four<C>* left, int left_line,
                         const Four<C>* right, int right_line, C (&sums)[kGroups][4][4]) {
#pragma unroll 4
  for (int k = 0; k < kDepth; ++k) {
    const Four<C> a = left[k * left_line + me.y];
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const Four<C> b = right[k * right_line + me.x + 16 * n];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[n][r][c] = std::fma(a.at[r], b.at[c], sums[n][r][c]);
      }
    }
  }
}

// The tile (row, column) of a b^T.
template <int kChunk, class C, class T>
__device__ void product(const ThreadTile& me, const Matrix<const T>& a, int row,
                        const Matrix<const T>& b, int column, Shared<C, kChunk>& shared,
                        C (&sums)[1][4][4]) {
  for (auto& r : sums[0]) {
    for (C& sum : r) sum = 0;
  }
  int k = 0;
  do {
    __syncthreads();
    load_turned(a, row, k, shared.left[0], kLine);
    load_turned(b, column, k, shared.right[0], kLine);
    __syncthreads();
    multiply<1>(me, shared.left[0], kLine, shared.right[0], kLine, sums);
    k += kDepth;
  } while (k < a.columns);
}

// sums += tile x, where the tile lies in shared.sums and x is rows [row, row + 64) of m. Begins
// with a barrier: the tile may have been written just now.
template <int kChunk, class C, class T>
__device__ void add_product(const ThreadTile& me, const Matrix<const T>& m, int row, int column,
                            Shared<C, kChunk>& shared, C (&sums)[kChunk / 64][4][4]) {
  for (int k = 0; k < kTile; k += kDepth) {
    __syncthreads();
    load<kChunk>(m, row + k, column, shared.right[0], kChunk / 4 + 1);
    __syncthreads();
    multiply<kChunk / 64>(me, shared.sums[k], kLine, shared.right[0], kChunk / 4 + 1, sums);
  }
}

template <int kChunk, class C, class T>
__device__ void store(const ThreadTile& me, const Matrix<T>& m, int row, int column,
                      const C (&sums)[kChunk / 64][4][4]) {
#pragma unroll
  for (int n = 0; n < kChunk / 64; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = row + 4 * me.y + r;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = column + 64 * n + 4 * me.x + c;
        if (i < m.rows && j < m.columns) {
          m.data[i * m.row + j * m.column] = static_cast<T>(sums[n][r][c]);
        }
      }
    }
  }
}

// Over the 16 threads of a row.
template <class C, class F>
__device__ C row_of(C value, F&& join) {
  for (int step = 8; step > 0; step /= 2) {
    value = join(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// What a row knows so far of its softmax.
template <class C>
struct Row {
  C top = -std::numeric_limits<C>::infinity(), sum = 0;

  // Takes in four scores of this thread, which become exponentials; returns the factor that brings
  // sums made before to the new maximum.
  __device__ C add(C (&s)[4]) {
    C most = std::fmax(std::fmax(s[0], s[1]), std::fmax(s[2], s[3]));
    most = std::fmax(top, row_of(most, [](C a, C b) { return std::fmax(a, b); }));
    const C base = most == -std::numeric_limits<C>::infinity() ? C(0) : most;
    const C factor = std::exp(top - base);
    top = most;
    C part = 0;
    for (C& score : s) {
      score = std::exp(score - base);
      part += score;
    }
    sum = std::fma(sum, factor, row_of(part, [](C a, C b) { return a + b; }));
    return factor;
  }
  // A row that sees nothing is 0, and the logarithm inf, with which backward finds probabilities of
  // 0 again: as on the CPU.
  __device__ C scale() const { return sum == C(0) ? C(0) : C(1) / sum; }
  __device__ C log_sum() const {
    return sum == C(0) ? std::numeric_limits<C>::infinity() : top + std::log(sum);
  }
};

template <class T, int kChunk>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(Rules<Sum<T>> rules, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                   Heads<T> out, Sum<T>* log_sum) {
  using C = Sum<T>;
  auto& shared = *dynamic_shared<Shared<C, kChunk>>();
  const ThreadTile me;
  const int tiles = tiles_of(rules.queries, kTile);
  const int64_t head = blockIdx.x / static_cast<unsigned>(tiles);
  // The last tiles see most when causal, and come first.
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kTile;
  const int column = static_cast<int>(blockIdx.y) * kChunk;
  const int64_t b = head / rules.heads, h = head % rules.heads;
  const Rule<C> rule = rules.of(b, h);
  const Matrix<const T> keys = k.of(b, h / rules.share()), values = v.of(b, h / rules.share());
  Row<C> rows[4];
  C sums[kChunk / 64][4][4] = {};
  const int end = rule.end_of_keys(first + kTile);
  for (int key = 0; key < end; key += kTile) {
    C s[1][4][4];
    product(me, q.of(b, h), first, keys, key, shared, s);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int query = first + 4 * me.y + r;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = key + 4 * me.x + c;
        s[0][r][c] = rule.hidden(query, j) ? -std::numeric_limits<C>::infinity()
                                           : rule.score(s[0][r][c], query, j);
      }
      const C factor = rows[r].add(s[0][r]);
#pragma unroll
      for (int c = 0; c < 4; ++c) shared.sums[4 * me.x + c][me.y].at[r] = s[0][r][c];
#pragma unroll
      for (int n = 0; n < kChunk / 64; ++n) {
#pragma unroll
        for (C& sum : sums[n][r]) sum *= factor;
      }
    }
    add_product<kChunk>(me, values, key, column, shared, sums);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int query = first + 4 * me.y + r;
    if (blockIdx.y == 0 && me.x == 0 && query < rules.queries) {
      log_sum[head * rules.queries + query] = rows[r].log_sum();
    }
#pragma unroll
    for (int n = 0; n < kChunk / 64; ++n) {
#pragma unroll
      for (C& sum : sums[n][r]) sum *= rows[r].scale();
    }
  }
  store<kChunk>(me, out.of(b, h), first, column, sums);
}

// A score becomes its probability, and g_p, the probability's gradient, that of q k^T.
template <class C>
__device__ void backward_of(const Rule<C>& rule, int query, int key, C log_sum, C along, C& s,
                            C& g_p) {
  const bool hidden = rule.hidden(query, key);
  s = hidden ? C(0) : std::exp(rule.score(s, query, key) - log_sum);
  g_p = hidden ? C(0) : s * (g_p - along) * rule.scale;
}

// Gradients of k and v: a tile of keys walks over the queries of all heads that share them.
template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    backward_keys_kernel(Rules<Sum<T>> rules, Heads<const T> g, Heads<const T> q, Heads<const T> k,
                         Heads<const T> v, const Sum<T>* log_sum, const Sum<T>* along, Heads<T> g_k,
                         Heads<T> g_v) {
  using C = Sum<T>;
  auto& shared = *dynamic_shared<Shared<C, 64>>();
  const ThreadTile me;
  const int tiles = tiles_of(rules.keys, kTile);
  const int first = static_cast<int>(blockIdx.x) % tiles * kTile;
  const int64_t group = blockIdx.x / static_cast<unsigned>(tiles);
  const int column = static_cast<int>(blockIdx.y) * 64;
  const int64_t b = group / rules.groups, shared_head = group % rules.groups;
  const Matrix<const T> keys = k.of(b, shared_head), values = v.of(b, shared_head);
  C of_k[1][4][4] = {}, of_v[1][4][4] = {};
  for (int64_t h = shared_head * rules.share(); h < (shared_head + 1) * rules.share(); ++h) {
    const Rule<C> rule = rules.of(b, h);
    const int64_t row = (b * rules.heads + h) * rules.queries;
    for (int query = rules.begin_of_queries(first); query < rules.queries; query += kTile) {
      C s[1][4][4], g_p[1][4][4];
      product(me, q.of(b, h), query, keys, first, shared, s);
      product(me, g.of(b, h), query, values, first, shared, g_p);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = query + 4 * me.y + r;
        const C log = i < rules.queries ? log_sum[row + i] : C(0);
        const C mean = i < rules.queries ? along[row + i] : C(0);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          backward_of(rule, i, first + 4 * me.x + c, log, mean, s[0][r][c], g_p[0][r][c]);
          shared.sums[4 * me.y + r][me.x].at[c] = s[0][r][c];
        }
      }
      add_product<64>(me, g.of(b, h), query, column, shared, of_v);
      __syncthreads();
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) shared.sums[4 * me.y + r][me.x].at[c] = g_p[0][r][c];
      }
      add_product<64>(me, q.of(b, h), query, column, shared, of_k);
    }
  }
  store<64>(me, g_k.of(b, shared_head), first, column, of_k);
  store<64>(me, g_v.of(b, shared_head), first, column, of_v);
}

// Gradient of q: a tile of queries walks over the keys it sees.
template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    backward_queries_kernel(Rules<Sum<T>> rules, Heads<const T> g, Heads<const T> q,
                            Heads<const T> k, Heads<const T> v, const Sum<T>* log_sum,
                            const Sum<T>* along, Heads<T> g_q) {
  using C = Sum<T>;
  auto& shared = *dynamic_shared<Shared<C, 64>>();
  const ThreadTile me;
  const int tiles = tiles_of(rules.queries, kTile);
  const int64_t head = blockIdx.x / static_cast<unsigned>(tiles);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kTile;
  const int column = static_cast<int>(blockIdx.y) * 64;
  const int64_t b = head / rules.heads, h = head % rules.heads;
  const Rule<C> rule = rules.of(b, h);
  const Matrix<const T> keys = k.of(b, h / rules.share()), values = v.of(b, h / rules.share());
  C sums[1][4][4] = {}, log[4], mean[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = first + 4 * me.y + r;
    log[r] = i < rules.queries ? log_sum[head * rules.queries + i] : C(0);
    mean[r] = i < rules.queries ? along[head * rules.queries + i] : C(0);
  }
  const int end = rule.end_of_keys(first + kTile);
  for (int key = 0; key < end; key += kTile) {
    C s[1][4][4], g_p[1][4][4];
    product(me, q.of(b, h), first, keys, key, shared, s);
    product(me, g.of(b, h), first, values, key, shared, g_p);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        backward_of(rule, first + 4 * me.y + r, key + 4 * me.x + c, log[r], mean[r], s[0][r][c],
                    g_p[0][r][c]);
        shared.sums[4 * me.x + c][me.y].at[r] = g_p[0][r][c];
      }
    }
    add_product<64>(me, keys, key, column, shared, sums);
  }
  store<64>(me, g_q.of(b, h), first, column, sums);
}

template <class T, int kChunk>
void forward(const Rules<Sum<T>>& rules, const Array& q, const Array& k, const Array& v,
             const Array& out, const Array& log_sum) {
  const int blocks = tiles_of(rules.queries, kTile) * rules.batches * rules.heads;
  const int chunks = tiles_of(static_cast<int>(out.shape()[3]), kChunk);
  launch("attention", forward_kernel<T, kChunk>,
         dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(chunks)), dim3(kThreads),
         sizeof(Shared<Sum<T>, kChunk>), rules, Heads<const T>(q), Heads<const T>(k),
         Heads<const T>(v), Heads<T>(out), reinterpret_cast<Sum<T>*>(log_sum.bytes()));
}

}  // namespace

void plain_attention(const core::AttentionScores& scores, const Array& q, const Array& k,
                     const Array& v, const Array& out, const Array& log_sum) {
  dispatch_floats("attention", q.dtype(), [&]<class T>(TypeTag<T>) {
    const Rules<Sum<T>> rules(scores, q, k);
    if (out.shape()[3] > 64) return forward<T, 128>(rules, q, k, v, out, log_sum);
    forward<T, 64>(rules, q, k, v, out, log_sum);
  });
}

void plain_attention_backward(const core::AttentionScores& scores, const Array& g, const Array& q,
                              const Array& k, const Array& v, const Array& log_sum,
                              const Array& along, const Array& g_q, const Array& g_k,
                              const Array& g_v) {
  dispatch_floats("attention_backward", q.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Sum<T>;
    const Rules<C> rules(scores, q, k);
    const auto* sums = reinterpret_cast<const C*>(log_sum.bytes());
    const auto* products = reinterpret_cast<const C*>(along.bytes());
    const auto chunks = [](int64_t columns) {
      return static_cast<unsigned>(tiles_of(static_cast<int>(columns), 64));
    };
    const int of_keys = tiles_of(rules.keys, kTile) * rules.batches * rules.groups;
    const int of_queries = tiles_of(rules.queries, kTile) * rules.batches * rules.heads;
    launch(
        "attention_backward", backward_keys_kernel<T>,
        dim3(static_cast<unsigned>(of_keys), std::max(chunks(k.shape()[3]), chunks(v.shape()[3]))),
        dim3(kThreads), sizeof(Shared<C, 64>), rules, Heads<const T>(g), Heads<const T>(q),
        Heads<const T>(k), Heads<const T>(v), sums, products, Heads<T>(g_k), Heads<T>(g_v));
    launch("attention_backward", backward_queries_kernel<T>,
           dim3(static_cast<unsigned>(of_queries), chunks(k.shape()[3])), dim3(kThreads),
           sizeof(Shared<C, 64>), rules, Heads<const T>(g), Heads<const T>(q), Heads<const T>(k),
           Heads<const T>(v), sums, products, Heads<T>(g_q));
  });
}

}  // namespace hero::cuda
