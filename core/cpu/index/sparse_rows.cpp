// Sparse rows times the lines of an array. A line is computed by one thread, its terms in order.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Rows with `kTerms` entries each, entry after entry: row i's e-th stands at [e][i].
template <class T>
struct Columns {
  std::vector<int32_t> places;
  std::vector<T> weights;
};

template <class T>
Columns<T> columns_of(const SparseRows& rows, int64_t count, int64_t terms) {
  Columns<T> result{std::vector<int32_t>(static_cast<size_t>(count * terms)),
                    std::vector<T>(static_cast<size_t>(count * terms))};
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t e = 0; e < terms; ++e) {
      const auto to = static_cast<size_t>(e * count + i);
      result.places[to] = static_cast<int32_t>(rows.places.data<int64_t>()[i * terms + e]);
      result.weights[to] = rows.weights.data<T>()[i * terms + e];
    }
  }
  return result;
}

// Lines of neighbours, every row with kTerms entries: loops over rows that become gathers.
template <class T, int kTerms>
void multiply_lines(const SparseRows& rows, const T* x, int64_t size, T* out, int64_t count,
                    int64_t lines) {
  const Columns<T> table = columns_of<T>(rows, count, kTerms);
  const int32_t* place = table.places.data();
  const T* weight = table.weights.data();
  parallel_for(lines, std::max<int64_t>(1, kGrain / count), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const T* from = x + line * size;
      T* to = out + line * count;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        T sum = weight[i] * from[place[i]];
        for (int e = 1; e < kTerms; ++e) sum += weight[e * count + i] * from[place[e * count + i]];
        to[i] = sum;
      }
    }
  });
}

// The sum of entries [first, last) over `inner` neighbours, entries in order.
template <class T>
void multiply_row(const int64_t* place, const T* weight, int64_t terms, const T* x, int64_t inner,
                  T* out) {
  if (terms == 0) return std::fill(out, out + inner, T(0));
  if (terms == 2) {
    const T *a = x + place[0] * inner, *b = x + place[1] * inner;
    const T u = weight[0], v = weight[1];
#pragma GCC ivdep
    for (int64_t j = 0; j < inner; ++j) out[j] = u * a[j] + v * b[j];
    return;
  }
  const T* a = x + place[0] * inner;
  const T u = weight[0];
#pragma GCC ivdep
  for (int64_t j = 0; j < inner; ++j) out[j] = u * a[j];
  for (int64_t e = 1; e < terms; ++e) {
    const T* b = x + place[e] * inner;
    const T v = weight[e];
#pragma GCC ivdep
    for (int64_t j = 0; j < inner; ++j) out[j] += v * b[j];
  }
}

template <class T>
void multiply_as(const SparseRows& rows, const Array& x, int dim, const Array& out) {
  const int64_t size = x.shape()[dim], count = out.shape()[dim];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= x.shape()[i];
  for (int i = dim + 1; i < x.ndim(); ++i) inner *= x.shape()[i];
  const T* from = x.data<T>();
  T* to = out.data<T>();
  const int64_t* starts = rows.starts.data<int64_t>();
  const int64_t terms = starts[1];
  bool even = size < (int64_t{1} << 31) && inner == 1;
  for (int64_t i = 1; even && i < count; ++i) even = starts[i + 1] - starts[i] == terms;
  if (even && terms == 1) return multiply_lines<T, 1>(rows, from, size, to, count, outer);
  if (even && terms == 2) return multiply_lines<T, 2>(rows, from, size, to, count, outer);
  if (even && terms == 4) return multiply_lines<T, 4>(rows, from, size, to, count, outer);
  const int64_t* places = rows.places.data<int64_t>();
  const T* weights = rows.weights.data<T>();
  parallel_for(outer * count, std::max<int64_t>(1, kGrain / std::max<int64_t>(inner, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t at = begin; at < end; ++at) {
                   const int64_t o = at / count, i = at - o * count;
                   multiply_row(places + starts[i], weights + starts[i], starts[i + 1] - starts[i],
                                from + o * size * inner, inner, to + at * inner);
                 }
               });
}

}  // namespace

void CpuBackend::run(const call::SparseMatmul& call) {
  if (call.out.numel() == 0) return;
  if (call.x.dtype() == kFloat64) return multiply_as<double>(call.rows, call.x, call.dim, call.out);
  multiply_as<float>(call.rows, call.x, call.dim, call.out);
}

}  // namespace hero::core::cpu
