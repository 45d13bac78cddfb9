// Writing through indices, line by line along the indexed dimension, each line in index order on
// one thread: no atomics, and the same bits for any number of threads.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/index/slabs.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/kernels/scattered.h>
#include <hero/core/kernels/wrapping.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
void put(ScatterMode mode, T& target, Compute<T> value) {
  if (mode == ScatterMode::assign) {
    target = convert<T>(value);
  } else {
    target = convert<T>(kernels::scattered(mode, convert<Compute<T>>(target), value));
  }
}

// An array as [.., lines side by side, elements of a line along `dim`].
class SideBySide {
 public:
  SideBySide(const Array& x, int dim)
      : rows_(rows_along(x.ndim() == 1 ? x.unsqueeze(0) : x, x.ndim() == 1 ? 1 : dim)) {
    if (rows_.ndim() == 1) rows_ = rows_.unsqueeze(0);
    const int last = rows_.ndim() - 1;
    length = rows_.shape()[last];
    count = rows_.shape()[last - 1];
    along = rows_.strides()[last];
    across = rows_.strides()[last - 1];
    const Array starts = rows_.select(-1, 0).select(-1, 0);
    groups = starts.numel();
    starts_.emplace(starts, starts.shape());
  }
  // The first element of a group of lines side by side.
  int64_t start(int64_t group) const { return starts_->place(group).element; }

  int64_t length, count, groups, along, across;

 private:
  Array rows_;
  std::optional<BroadcastWalk> starts_;
};

// Scatters alpha * src; alpha only counts for ScatterMode::add. Where elements of lines side by
// side are neighbours, a thread goes along many lines together: what it reads are long pieces of
// memory.
template <class T>
void scatter_as(ScatterMode mode, const Array& src, int dim, const Array& index, Scalar alpha,
                const Array& out) {
  using C = Compute<T>;
  constexpr int64_t kPieces = 4, kLeast = 64, kMost = 512;  // of lines, and lines in a piece
  const Array terms = src.to(out.dtype());
  const SideBySide values(terms, dim), places(index, dim), lines(pin(out, dim, index.shape()), dim);
  const auto* const from = reinterpret_cast<const T*>(terms.bytes());
  const auto* const to = as_indices(index.bytes());
  auto* const data = reinterpret_cast<T*>(out.bytes());
  const int64_t jump = stride_of(out, dim), n = values.length;
  // A number that is read from one place is written along the target's memory.
  const bool repeats = values.along == values.across;
  const bool by_line =
      values.count == 1 || (repeats ? jump <= lines.across : values.along <= values.across);
  const int64_t together =
      std::clamp(values.count / kPieces, std::min(values.count, kLeast), kMost);
  const int64_t pieces = (values.count + together - 1) / together;
  const C factor = alpha.to<C>();
  const auto piece = [&](auto how, int64_t group, int64_t first, int64_t width) {
    const T* value = from + values.start(group) + first * values.across;
    const int64_t* place = to + places.start(group) + first * places.across;
    T* line = data + lines.start(group) + first * lines.across;
    const int64_t outer = by_line ? width : n, inner = by_line ? n : width;
    const auto step = [=](const SideBySide& x, bool is_inner) {
      return is_inner == by_line ? x.along : x.across;
    };
    const int64_t v = step(values, true), p = step(places, true), l = step(lines, true);
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        put(how(), line[place[j * p] * jump + j * l],
            wrapping_mul(convert<C>(value[j * v]), factor));
      }
      value += step(values, false);
      place += step(places, false);
      line += step(lines, false);
    }
  };
  parallel_for(values.groups * pieces, std::max<int64_t>(1, kGrain / (together * n)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t first = task % pieces * together;
                   const int64_t width = std::min(together, values.count - first);
                   if (mode == ScatterMode::add) {  // a loop of its own
                     piece([] { return ScatterMode::add; }, task / pieces, first, width);
                   } else {
                     piece([=] { return mode; }, task / pieces, first, width);
                   }
                 }
               });
}

// The reverse, where the last one of several slices for one place stays.
void put_slabs(const Array& src, int dim, const Array& index, const Array& out) {
  const Slabs parts = slabs(src, dim);
  const int64_t n = src.shape()[dim], size = out.shape()[dim];
  const int64_t bytes = parts.inner * item_size(src.dtype());
  const int64_t* to = index.data<int64_t>();
  parallel_for(parts.outer, std::max<int64_t>(1, kGrain / (n * parts.inner)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin * n; i < end * n; ++i) {
                   std::memcpy(out.bytes() + (i / n * size + to[i % n]) * bytes,
                               src.bytes() + i * bytes, static_cast<size_t>(bytes));
                 }
               });
}

// Whole slices, cut into pieces of columns that threads work on alone.
template <class T, ScatterMode kMode>
void scatter_slabs(const Array& src, int dim, const Array& index, Scalar alpha, const Array& out) {
  using C = Compute<T>;
  constexpr int64_t kColumns = 256;
  const Slabs parts = slabs(src, dim);
  const int64_t n = src.shape()[dim], size = out.shape()[dim], inner = parts.inner;
  const int64_t pieces = (inner + kColumns - 1) / kColumns;
  const int64_t work = n * std::min(inner, kColumns);
  const int64_t* to = index.data<int64_t>();
  const T* from = src.data<T>();
  T* data = out.data<T>();
  const C factor = alpha.to<C>();
  parallel_for(parts.outer * pieces, std::max<int64_t>(1, kGrain / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t o = task / pieces, first = task % pieces * kColumns;
                   const int64_t width = std::min(kColumns, inner - first);
                   for (int64_t i = 0; i < n; ++i) {
                     T* row = data + (o * size + to[i]) * inner + first;
                     const T* add = from + (o * n + i) * inner + first;
#pragma GCC ivdep
                     for (int64_t c = 0; c < width; ++c) {
                       const C term = wrapping_mul(convert<C>(add[c]), factor);
                       row[c] = convert<T>(kernels::scattered(kMode, convert<C>(row[c]), term));
                     }
                   }
                 }
               });
}

// A source may be larger than its index: what lies beyond is not used.
Array part(const Array& src, const Shape& shape) {
  return Array(src.storage_ref(), shape, src.strides(), src.offset(), src.dtype());
}

// Whether sums of several terms would be rounded after each: those of halves are made in float32.
bool sums_are_rounded(const Array& out, const Array& index) {
  return is_half(out.dtype()) && index.numel() > 1;
}

// index_add of rows of halves: all that goes to a row of `out` is added up in float32, in the order
// of the index, and rounded once.
void add_rows_of_halves(const Array& src, int dim, const int64_t* index, float factor,
                        const Array& out) {
  const Slabs parts = slabs(src, dim);
  const int64_t n = src.shape()[dim], size = out.shape()[dim], inner = parts.inner;
  std::vector<std::pair<int64_t, int64_t>> moves;  // to and from, in order
  for (int64_t i = 0; i < n; ++i) moves.emplace_back(index[i], i);
  std::sort(moves.begin(), moves.end());
  std::vector<size_t> firsts;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (i == 0 || moves[i].first != moves[i - 1].first) firsts.push_back(i);
  }
  const auto rows = static_cast<int64_t>(firsts.size());
  firsts.push_back(moves.size());
  const ConvertFn widen = converter(out.dtype(), kFloat32),
                  narrow = converter(kFloat32, out.dtype());
  const auto at = [=](const Array& x, int64_t row, int64_t column) {
    return x.bytes() + (row * inner + column) * item_size(x.dtype());
  };
  const int64_t grain = std::max<int64_t>(1, kGrain * rows / (n * inner));
  parallel_for(parts.outer * rows, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float sums[kBlock], terms[kBlock];
    auto *const sum = reinterpret_cast<std::byte*>(sums), *const term =
                                                              reinterpret_cast<std::byte*>(terms);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t o = task / rows;
      const auto row = static_cast<size_t>(task % rows);
      for (int64_t column = 0; column < inner; column += kBlock) {
        const int64_t count = std::min(kBlock, inner - column);
        std::byte* const to = at(out, o * size + moves[firsts[row]].first, column);
        widen(count, to, 1, sum, 1);
        for (size_t i = firsts[row]; i < firsts[row + 1]; ++i) {
          widen(count, at(src, o * n + moves[i].second, column), 1, term, 1);
#pragma GCC ivdep
          for (int64_t c = 0; c < count; ++c) sums[c] += terms[c] * factor;
        }
        narrow(count, sum, 1, to, 1);
      }
    }
  });
}

// Adds to elements of halves that an index names, line by line: all that goes to an element is
// added up in float32, in the order of the index, and rounded once.
void add_elements_of_halves(const Array& src, int dim, const Array& index, float factor,
                            const Array& out) {
  const SideBySide values(src, dim), places(index, dim), lines(pin(out, dim, index.shape()), dim);
  const int64_t jump = stride_of(out, dim), n = values.length, count = values.count;
  const ConvertFn widen = converter(src.dtype(), kFloat32),
                  widen_there = converter(out.dtype(), kFloat32),
                  narrow = converter(kFloat32, out.dtype());
  const auto element = [](const Array& x, int64_t at) {
    return x.bytes() + at * item_size(x.dtype());
  };
  parallel_for(
      values.groups * count, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
        std::vector<std::pair<int64_t, int64_t>> moves(static_cast<size_t>(n));  // to and from
        for (int64_t task = begin; task < end; ++task) {
          const int64_t group = task / count, at = task % count;
          const int64_t place = places.start(group) + at * places.across;
          const int64_t from = values.start(group) + at * values.across;
          const int64_t line = lines.start(group) + at * lines.across;
          for (int64_t i = 0; i < n; ++i) {
            moves[i] = {as_indices(index.bytes())[place + i * places.along], i};
          }
          std::sort(moves.begin(), moves.end());
          for (size_t i = 0; i < moves.size();) {
            const int64_t to = moves[i].first;
            std::byte* const target = element(out, line + to * jump);
            float sum = 0, term = 0;
            widen_there(1, target, 1, reinterpret_cast<std::byte*>(&sum), 1);
            for (; i < moves.size() && moves[i].first == to; ++i) {
              widen(1, element(src, from + moves[i].second * values.along), 1,
                    reinterpret_cast<std::byte*>(&term), 1);
              sum = kernels::scattered(ScatterMode::add, sum, wrapping_mul(term, factor));
            }
            narrow(1, reinterpret_cast<std::byte*>(&sum), 1, target, 1);
          }
        }
      });
}

// Whether float32 for all of `out` would be much beside the index and its sorted places.
bool is_much_beside(const Array& out, const Array& index) {
  return out.numel() / 4 > index.numel();
}

}  // namespace

void CpuBackend::run(const call::Scatter& call) {
  if (call.index.numel() == 0) return;
  if (call.mode == ScatterMode::add && sums_are_rounded(call.out, call.index)) {
    if (is_much_beside(call.out, call.index))
      return add_elements_of_halves(part(call.src, call.index.shape()), call.dim, call.index, 1,
                                    call.out);
    const Array wide = call.out.to(kFloat32);
    run(call::Scatter{call.mode, call.src, call.dim, call.index, wide});
    return run(call::Copy{wide, call.out});
  }
  const Array used = part(call.src, call.index.shape());
  const Array list = slices_of(call.index, call.dim, call.out, used);
  if (list.defined() && call.mode == ScatterMode::assign)
    return put_slabs(used, call.dim, list, call.out);
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    if (list.defined() && call.mode == ScatterMode::add) {
      return scatter_slabs<T, ScatterMode::add>(used, call.dim, list, 1, call.out);
    }
    // Of float alone: loops for all dtypes would make programs 40 kB larger.
    if constexpr (std::is_same_v<T, float>) {
      if (list.defined() && call.mode == ScatterMode::maximum) {
        return scatter_slabs<T, ScatterMode::maximum>(used, call.dim, list, 1, call.out);
      }
      if (list.defined() && call.mode == ScatterMode::minimum) {
        return scatter_slabs<T, ScatterMode::minimum>(used, call.dim, list, 1, call.out);
      }
    }
    scatter_as<T>(call.mode, used, call.dim, call.index, 1, call.out);
  });
}

void CpuBackend::run(const call::IndexAdd& call) {
  if (call.src.numel() == 0) return;
  const Slabs parts = slabs(call.src, call.dim);
  const bool dense = parts.dense && call.out.is_contiguous() && call.index.is_contiguous() &&
                     call.src.dtype() == call.out.dtype() && parts.inner >= kPiece;
  if (sums_are_rounded(call.out, call.index)) {
    if (dense) {
      return add_rows_of_halves(call.src, call.dim, call.index.data<int64_t>(),
                                call.alpha.to<float>(), call.out);
    }
    const Array places = spread(call.index, call.dim, call.src.shape());
    if (is_much_beside(call.out, places)) {
      return add_elements_of_halves(call.src, call.dim, places, call.alpha.to<float>(), call.out);
    }
    const Array wide = call.out.to(kFloat32);
    run(call::IndexAdd{call.src.to(kFloat32), call.dim, call.index, call.alpha, wide});
    return run(call::Copy{wide, call.out});
  }
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    if (dense)
      return scatter_slabs<T, ScatterMode::add>(call.src, call.dim, call.index, call.alpha,
                                                call.out);
    scatter_as<T>(ScatterMode::add, call.src, call.dim,
                  spread(call.index, call.dim, call.src.shape()), call.alpha, call.out);
  });
}

}  // namespace hero::core::cpu
