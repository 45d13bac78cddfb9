#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>

namespace hero::core {

namespace {

// Batch dimensions over which both operands run evenly, merged; a stride of 0 repeats an operand.
struct ProductBatch {
  Dims sizes, a_strides, b_strides;

  void push(int64_t size, int64_t a_stride, int64_t b_stride) {
    if (size == 1) return;
    const bool even = !sizes.empty() && a_strides.back() == a_stride * size &&
                      b_strides.back() == b_stride * size;
    if (even) {
      sizes.back() *= size;
      a_strides.back() = a_stride;
      b_strides.back() = b_stride;
    } else {
      sizes.push_back(size);
      a_strides.push_back(a_stride);
      b_strides.push_back(b_stride);
    }
  }
};

Array matrices(const Array& x, int64_t count, int64_t stride, int64_t offset) {
  const int n = x.ndim();
  return Array(x.storage_ref(), {count, x.shape()[n - 2], x.shape()[n - 1]},
               {stride, x.strides()[n - 2], x.strides()[n - 1]}, x.offset() + offset, x.dtype());
}

// All products, `out` being [batch.., M, N] and contiguous.
void products(const Array& a, const Array& b, const ProductBatch& batch, const Array& out) {
  Backend& device = backend(out.device());
  const int outer = std::max(0, batch.sizes.size() - 1);
  const bool one = batch.sizes.empty();
  const int64_t count = one ? 1 : batch.sizes.back();
  const int64_t m = out.size(-2), n = out.size(-1);
  int64_t runs = 1;
  for (int d = 0; d < outer; ++d) runs *= batch.sizes[d];
  for (int64_t run = 0; run < runs; ++run) {
    int64_t a_offset = 0, b_offset = 0, rest = run;
    for (int d = outer - 1; d >= 0; --d) {
      const int64_t at = rest % batch.sizes[d];
      rest /= batch.sizes[d];
      a_offset += at * batch.a_strides[d];
      b_offset += at * batch.b_strides[d];
    }
    device.run(call::Matmul{matrices(a, count, one ? 0 : batch.a_strides.back(), a_offset),
                            matrices(b, count, one ? 0 : batch.b_strides.back(), b_offset),
                            matrices(out, count, m * n, run * count * m * n)});
  }
}

void check_operands(const Array& a, const Array& b) {
  check_same_device("matmul", a, b);
  check(a.ndim() > 0 && b.ndim() > 0, "matmul: needs at least one dimension: ", a.shape(), " x ",
        b.shape(), "; multiply by a number with *");
  check(a.dtype() == b.dtype(), "matmul: dtypes differ: ", a.dtype(), " and ", b.dtype(),
        "; convert one with to()");
  check(a.dtype() != kBool, "matmul: bool has no product; convert with to()");
  check(a.size(-1) == b.size(b.ndim() > 1 ? -2 : 0), "matmul: inner sizes differ: ", a.shape(),
        " x ", b.shape(), "; the last size of the first must be the ",
        b.ndim() > 1 ? "last but one" : "size", " of the second");
}

// out = a b, of matrices.
void product(const Array& a, const Array& b, const Array& out) {
  backend(out.device()).run(call::Matmul{a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0)});
}

}  // namespace

void plain_input_backward(const call::LinearBack& back) {
  if (!back.g_x.defined()) return;
  product(back.g, back.w, back.g_x);
  if (back.activation == Activation::gelu) {
    map_into<kernels::GeluBackward>(back.g_x, back.g_x, back.u);
  } else if (back.activation == Activation::gelu_tanh) {
    map_into<kernels::GeluTanhBackward>(back.g_x, back.g_x, back.u);
  }
}

void plain_weight_backward(const call::LinearBack& back) {
  if (back.g_w.defined()) product(back.g.t(), back.x, back.g_w);
  if (!back.g_bias.defined()) return;
  backend(back.g.device())
      .run(call::Reduce{ReduceKind::sum, back.g, nullptr, back.g_bias.unsqueeze(0)});
}

Array matmul(const Array& a, const Array& b) {
  check_operands(a, b);
  Array left = a.ndim() == 1 ? a.unsqueeze(0) : a;
  const Array right = b.ndim() == 1 ? b.unsqueeze(1) : b;
  Shape a_batch(std::span(left.shape().begin(), left.shape().end() - 2));
  Shape b_batch(std::span(right.shape().begin(), right.shape().end() - 2));
  Shape shape = broadcast_shapes("matmul", a_batch, b_batch);
  ProductBatch batch;
  // One matrix on the right: where the rows of the left lie evenly they are one tall matrix.
  const bool tall = b_batch.numel() == 1 && left.is_contiguous() && shape == a_batch;
  if (tall) {
    left = left.reshape({shape.numel() * left.size(-2), left.size(-1)});
  } else {
    const auto stride = [&](const Array& x, int d) {
      const int at = d - (shape.size() - (x.ndim() - 2));
      return at < 0 || x.shape()[at] == 1 ? 0 : x.strides()[at];
    };
    for (int d = 0; d < shape.size(); ++d) batch.push(shape[d], stride(left, d), stride(right, d));
  }
  shape.push_back(tall && a.ndim() > 1 ? a.size(-2) : left.size(-2));
  shape.push_back(right.size(-1));
  Array out = Array::empty(shape, a.dtype(), a.device());
  if (out.numel() > 0) {
    products(left, right, batch, tall ? out.reshape({left.size(0), right.size(-1)}) : out);
  }
  if (b.ndim() == 1) out = out.squeeze(-1);
  return a.ndim() == 1 ? out.squeeze(b.ndim() == 1 ? -1 : -2) : out;
}

}  // namespace hero::core
