#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Integers: exact, modulo 2^64; a plain loop, since nothing time-critical multiplies them.
template <class T>
void integer_products(const Array& a, const Array& b, const Array& out) {
  const int64_t rows = out.shape()[1], cols = out.shape()[2], depth = a.shape()[2];
  parallel_for(out.shape()[0] * rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t batch = row / rows, i = row % rows;
      const T* x = a.data<T>() + batch * a.strides()[0] + i * a.strides()[1];
      const T* y = b.data<T>() + batch * b.strides()[0];
      T* z = out.data<T>() + row * cols;
      for (int64_t j = 0; j < cols; ++j) {
        uint64_t total = 0;
        for (int64_t k = 0; k < depth; ++k) {
          total += static_cast<uint64_t>(x[k * a.strides()[2]]) *
                   static_cast<uint64_t>(y[k * b.strides()[1] + j * b.strides()[2]]);
        }
        z[j] = static_cast<T>(total);
      }
    }
  });
}

template <class T>
void float_products(const Array& a, const Array& b, const Array& out) {
  gemm_batched<T>(out.size(0), a.size(1), b.size(2), a.size(2), a.data<T>(), a.strides()[0],
                  a.strides()[1], a.strides()[2], b.data<T>(), b.strides()[0], b.strides()[1],
                  b.strides()[2], out.data<T>(), out.strides()[0], out.strides()[1]);
}

// A matrix as float32, whose rows or columns, whichever are contiguous, stay so.
Array widened(const Array& x) {
  const bool by_columns = x.strides()[0] < x.strides()[1];
  return by_columns ? x.t().to(kFloat32).t() : x.to(kFloat32);
}

// sums (+)= a b of float32, of some steps of a product whose partial results have `length` steps.
void add_steps(const Array& a, const Array& b, const Array& sums, bool first, int64_t length) {
  const int64_t m = sums.size(0), n = sums.size(1), k = a.size(1);
  for (int64_t p = 0; p == 0 || p < k; p += length) {
    const int64_t steps = std::min(length, k - p);
    const float* const left = a.data<float>() + p * a.strides()[1];
    const float* const right = b.data<float>() + p * b.strides()[0];
    const auto run = [&](auto&& product) {
      product(m, n, steps, left, a.strides()[0], a.strides()[1], right, b.strides()[0],
              b.strides()[1], sums.data<float>(), n);
    };
    if (first && p == 0) {
      run(gemm<float>);
    } else {
      run([](auto... all) { gemm_add<float>(all...); });
    }
  }
}

// A block of one operand of a product, converted unless it was the last one.
class WidenedBlock {
 public:
  explicit WidenedBlock(const Array& all) : all_(all) {}
  const Array& at(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    if (block_.defined() && row == row_ && column == column_) return block_;
    block_ = Array();  // its memory goes before there is other
    block_ = widened(all_.slice(0, row, row + rows).slice(1, column, column + columns));
    row_ = row, column_ = column;
    return block_;
  }

 private:
  Array all_, block_;
  int64_t row_ = 0, column_ = 0;
};

// The product of two matrices of halves in blocks: take(row, column, sums) is called with the sums
// of each, float32 and contiguous.
template <class Take>
void widened_blocks(const Array& a, const Array& b, const Take& take) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  const WideBlocks cut(a, b);
  const Array room = Array::empty({cut.rows * cut.columns});
  const int64_t length = cut.steps < k ? block_length(k) : std::max<int64_t>(1, k);
  WidenedBlock left(a), right(b);
  for (int64_t i = 0; i < m; i += cut.rows) {
    const int64_t rows = std::min(cut.rows, m - i);
    for (int64_t j = 0; j < n; j += cut.columns) {
      const int64_t columns = std::min(cut.columns, n - j);
      const Array sums = room.slice(0, 0, rows * columns).reshape({rows, columns});
      for (int64_t p = 0; p == 0 || p < k; p += std::max<int64_t>(1, cut.steps)) {
        const int64_t steps = std::min(cut.steps, k - p);
        add_steps(left.at(i, rows, p, steps), right.at(p, steps, j, columns), sums, p == 0, length);
      }
      take(i, j, sums);
    }
  }
}

// What lies in an array [m, n] where a block of its size begins at this place.
Array place_of(const Array& block, const Array& all, int64_t row, int64_t column) {
  return all.slice(0, row, row + block.size(0)).slice(1, column, column + block.size(1));
}

// Halves go through float32, some matrices at a time, or parts of one, where the machine has no
// products of them.
void widened_products(const Array& a, const Array& b, const Array& out) {
  const int64_t step = widened_at_once(a, b, out);
  if (step == 1) {
    for (int64_t p = 0; p < out.size(0); ++p) {
      const Array to = out.select(0, p);
      widened_blocks(a.select(0, p), b.select(0, p),
                     [&](int64_t row, int64_t column, const Array& sums) {
                       cpu_backend().run(call::Copy{sums, place_of(sums, to, row, column)});
                     });
    }
    return;
  }
  // A repeated matrix is converted once.
  const auto part = [](const Array& x, int64_t at, int64_t count) {
    if (x.strides()[0] != 0) return x.slice(0, at, at + count).to(kFloat32);
    return x.slice(0, 0, 1).to(kFloat32).expand({count, x.size(1), x.size(2)});
  };
  for (int64_t at = 0; at < out.size(0); at += step) {
    const int64_t count = std::min(step, out.size(0) - at);
    const Array wide = Array::empty({count, out.size(1), out.size(2)});
    float_products<float>(part(a, at, count), part(b, at, count), wide);
    cpu_backend().run(call::Copy{wide, out.slice(0, at, at + count)});
  }
}

template <class T>
PackedMatrix packed(const Array& b) {
  const int64_t rows = b.size(0), columns = b.size(1);
  const Array panels = Array::empty({packed_size<T>(rows, columns)}, b.dtype());
  gemm_pack<T>(rows, columns, b.data<T>(), b.strides()[0], b.strides()[1], panels.data<T>());
  return {rows, columns, panels};
}

template <class T>
void packed_product(const Array& a, const PackedMatrix& b, const Array& out) {
  gemm_packed<T>(a.size(0), b.columns, b.rows, a.data<T>(), a.strides()[0], a.strides()[1],
                 b.panels.data<T>(), out.data<T>(), out.strides()[0]);
}

}  // namespace

PackedMatrix CpuBackend::run(const call::PackMatrix& call) {
  if (call.b.dtype() == kFloat64) return packed<double>(call.b);
  if (!is_half(call.b.dtype())) return packed<float>(call.b);
  return are_widened(call.b.dtype()) ? packed<float>(call.b.to(kFloat32)) : bf16_packed(call.b);
}

void CpuBackend::run(const call::MatmulPacked& call) {
  if (call.out.numel() == 0) return;
  if (call.a.dtype() == kFloat64) return packed_product<double>(call.a, call.b, call.out);
  if (call.a.dtype() == kFloat32) return packed_product<float>(call.a, call.b, call.out);
  if (call.b.panels.dtype() == kBFloat16) return bf16_packed_product(call.a, call.b, call.out);
  constexpr int64_t kRows = 256;  // that pay for reading the packed matrix
  const int64_t widest = std::max<int64_t>({call.a.size(1), call.out.size(1), 1});
  const int64_t rows = std::max(kRows, kWideElements / widest);
  for (int64_t row = 0; row < call.a.size(0); row += rows) {
    const int64_t end = std::min(row + rows, call.a.size(0));
    const Array to = call.out.slice(0, row, end);
    const Array sums = call.out.dtype() == kFloat32 ? to : Array::empty(to.shape());
    packed_product<float>(call.a.slice(0, row, end).to(kFloat32), call.b, sums);
    if (call.out.dtype() != kFloat32) run(call::Copy{sums, to});
  }
}

void CpuBackend::run(const call::Linear& call) {
  if (call.out.numel() == 0) return;
  const auto product = [&](const Array& to) {
    run(call::Matmul{call.x.unsqueeze(0), call.w.t().unsqueeze(0), to.unsqueeze(0)});
  };
  if (item_size(call.out.dtype()) != 2) {
    const Array& sums = call.z ? *call.z : call.out;
    product(sums);
    if (call.bias || call.activation != Activation::none || call.z)
      run(call::BiasActivation{call.activation, call.bias, sums, call.out});
    return;
  }
  if (!are_widened(call.out.dtype()))
    return bf16_linear(call.activation, call.x, call.w, call.bias, call.out, call.z);
  // Halves: what follows the product is done on its float32 sums, and the result is rounded.
  const Array shift = call.bias ? call.bias->to(kFloat32) : Array();
  widened_blocks(call.x, call.w.t(), [&](int64_t row, int64_t column, const Array& sums) {
    const Array wide = call.z ? sums.empty_like() : sums;
    const Array own = call.bias ? shift.slice(0, column, column + sums.size(1)) : Array();
    run(call::BiasActivation{call.activation, call.bias ? &own : nullptr, sums, wide});
    run(call::Copy{wide, place_of(wide, call.out, row, column)});
    if (call.z) run(call::Copy{sums, place_of(sums, *call.z, row, column)});
  });
}

void CpuBackend::run(const call::LinearBack& back) {
  const bool native = is_half(back.g.dtype()) && !are_widened(back.g.dtype());
  native ? bf16_input_backward(back) : plain_input_backward(back);
  plain_weight_backward(back);
}

void CpuBackend::run(const call::Matmul& call) {
  if (call.out.numel() == 0) return;
  switch (call.out.dtype()) {
    case DType::float64:
      return float_products<double>(call.a, call.b, call.out);
    case DType::int64:
      return integer_products<int64_t>(call.a, call.b, call.out);
    case DType::int32:
      return integer_products<int32_t>(call.a, call.b, call.out);
    case DType::uint8:
      return integer_products<uint8_t>(call.a, call.b, call.out);
    case DType::boolean:
      fail("matmul: bool matrices have no product; convert with to()");
    case DType::float32:
      return call.a.dtype() == kFloat32 ? float_products<float>(call.a, call.b, call.out)
                                        : bf16_products(call.a, call.b, call.out);
    default:
      return are_widened(call.out.dtype()) ? widened_products(call.a, call.b, call.out)
                                           : bf16_products(call.a, call.b, call.out);
  }
}

}  // namespace hero::core::cpu
