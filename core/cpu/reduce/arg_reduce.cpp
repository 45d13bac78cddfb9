#include <algorithm>
#include <functional>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/interleaved_lines.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
bool is_nan(T x) {
  return x != x;
}

// The first NaN, else the first element that no other beats. The value is found in lanes, without
// positions; then its position is looked up.
template <class Beats, class T>
int64_t best_of(const T* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  const Beats beats;
  T lane[kLanes];
  std::fill_n(lane, kLanes, x[0]);
  bool nans[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      lane[j] = beats(x[i + j], lane[j]) ? x[i + j] : lane[j];
      nans[j] |= is_nan(x[i + j]);
    }
  }
  T best = x[0];
  bool nan = false;
  for (; i < n; ++i) {
    best = beats(x[i], best) ? x[i] : best;
    nan |= is_nan(x[i]);
  }
  for (int64_t j = 0; j < kLanes && n >= kLanes; ++j) {
    best = beats(lane[j], best) ? lane[j] : best;
    nan |= nans[j];
  }
  if (nan) return std::find_if(x, x + n, is_nan<T>) - x;
  return std::find(x, x + n, best) - x;
}

template <class T>
void store(const BlockWriter& writer, int64_t at, int64_t count, const T* values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  if (writer.direct()) {
    std::memcpy(writer.target(at, nullptr), bytes, static_cast<size_t>(count) * sizeof(T));
  } else {
    writer.commit(at, count, bytes);
  }
}

// Row i of columns: where it has a NaN, or what beats all rows before it, `index` becomes i.
template <class Beats, class T>
void take_row(const T* x, int64_t i, int64_t width, T* best, int64_t* index) {
  const Beats beats;
#pragma GCC ivdep
  for (int64_t c = 0; c < width; ++c) {
    const bool better = beats(x[c], best[c]) | (is_nan(x[c]) & !is_nan(best[c]));
    // A NaN is beaten by nothing, as no comparison with it is true.
    best[c] = better ? x[c] : best[c];
    index[c] = better ? i : index[c];
  }
}

template <class T>
void arg_reduce_columns(ArgOp op, const Array& x, const ColumnLayout& layout, const Array& values,
                        const Array& indices) {
  const ColumnPieces<T> reader(x, layout);
  const BlockWriter value_writer(values, kDTypeOf<T>), index_writer(indices, kInt64);
  layout.share([&](int64_t begin, int64_t end) {
    const auto most = static_cast<size_t>(layout.width);
    std::vector<T> room(most), best(most);
    std::vector<int64_t> index(most);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t width = layout.columns_of(piece), at = layout.column_of(piece);
      std::byte* const start = reader.start(piece);
      std::copy_n(reader.read_row(start, 0, width, room.data()), width, best.data());
      std::fill(index.begin(), index.end(), 0);
      for (int64_t i = 1; i < layout.n; ++i) {
        reader.fetch_row(start, i + 1, width);
        const T* row = reader.read_row(start, i, width, room.data());
        op == ArgOp::max ? take_row<std::greater<T>>(row, i, width, best.data(), index.data())
                         : take_row<std::less<T>>(row, i, width, best.data(), index.data());
      }
      store(value_writer, at, width, best.data());
      store(index_writer, at, width, index.data());
    }
  });
}

template <class T>
void arg_reduce_as(ArgOp op, const Array& x, int dim, const Array& values, const Array& indices) {
  if (const ColumnLayout layout(dim, Passes::one, {&x}); layout) {
    return arg_reduce_columns<T>(op, x, layout, values, indices);
  }
  const RowReader<T> reader(x, dim);
  const BlockWriter value_writer(values, kDTypeOf<T>), index_writer(indices, kInt64);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> buffer(reader.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, buffer.data());
      T value[kRowGroup];
      int64_t index[kRowGroup];
      for (int64_t r = 0; r < count; ++r) {
        const T* row = rows + r * n;
        index[r] =
            op == ArgOp::max ? best_of<std::greater<T>>(row, n) : best_of<std::less<T>>(row, n);
        value[r] = row[index[r]];
      }
      store(value_writer, at, count, value);
      store(index_writer, at, count, index);
    }
  });
}

}  // namespace

void CpuBackend::run(const call::ArgReduce& call) {
  if (call.x.numel() == 0) return;
  dispatch_compute(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    arg_reduce_as<T>(call.op, call.x, call.dim, call.values, call.indices);
  });
}

}  // namespace hero::core::cpu
