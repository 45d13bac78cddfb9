#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/kernels/wrapping.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Floats accumulate in double: a running sum cannot be a tree, and the error would grow with the
// length.
template <class T>
using Running = std::conditional_t<std::is_same_v<T, float>, double, T>;

// `out` may be `x`.
template <class T, class Join>
void scan_row(const T* x, int64_t n, Direction direction, Running<T> value, Join&& join, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = direction == Direction::forward ? i : n - 1 - i;
    value = static_cast<Running<T>>(join(value, static_cast<Running<T>>(x[at])));
    out[at] = static_cast<T>(value);
  }
}

template <class T>
void scan_as(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) {
  const RowReader<T> reader(x, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> in(reader.buffer_size()), result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* target = writer.target(at, result.data());
      for (int64_t r = 0; r < count; ++r) {
        const T* row = rows + r * n;
        if (op == ScanOp::sum) {
          scan_row(row, n, direction, Running<T>(0), wrapping_add<Running<T>>, target + r * n);
        } else {
          scan_row(row, n, direction, Running<T>(1), wrapping_mul<Running<T>>, target + r * n);
        }
      }
      writer.commit(at, count, target);
    }
  });
}

}  // namespace

void CpuBackend::scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) {
  if (out.numel() == 0) return;
  dispatch_compute(out.dtype(),
                   [&]<class T>(TypeTag<T>) { scan_as<T>(op, direction, x, dim, out); });
}

}  // namespace hero::core::cpu
