#include <hero/core/backend.h>
#include <hero/core/matmul.h>

namespace hero::core {

namespace {

// The last leading dimension stays the batch of one call; those before it are walked.
void multiply(const Array& a, const Array& b, const Array& out) {
  if (out.ndim() == 2) {
    return backend(out.device()).matmul(a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0));
  }
  if (out.ndim() == 3) return backend(out.device()).matmul(a, b, out);
  for (int64_t i = 0; i < out.size(0); ++i) {
    multiply(a.select(0, i), b.select(0, i), out.select(0, i));
  }
}

// The same operands with leading dimensions merged where all three allow it.
Array merge_leading(const Array& x) {
  Shape shape;
  Dims strides;
  for (int i = 0; i < x.ndim(); ++i) {
    const bool leading = i > 0 && i < x.ndim() - 2;
    if (leading) {
      shape.back() *= x.shape()[i];
      strides.back() = x.strides()[i];
    } else {
      shape.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
    }
  }
  return Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

bool leading_is_even(const Array& x) {
  for (int i = 0; i + 3 < x.ndim(); ++i) {
    if (x.strides()[i] != x.strides()[i + 1] * x.shape()[i + 1]) return false;
  }
  return true;
}

}  // namespace

Array matmul(const Array& a, const Array& b) {
  check_same_device("matmul", a, b);
  check(a.ndim() >= 2 && b.ndim() >= 2, "matmul: operands need two dimensions: ", a.shape(), " x ",
        b.shape());
  check(a.size(-1) == b.size(-2), "matmul: inner sizes differ: ", a.shape(), " x ", b.shape(), " (",
        a.size(-1), " and ", b.size(-2), "); transpose one with t()?");
  const DType dtype = promote(a.dtype(), b.dtype());
  const DType compute = dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype;
  Shape lead_a, lead_b;
  for (int i = 0; i < a.ndim() - 2; ++i) lead_a.push_back(a.shape()[i]);
  for (int i = 0; i < b.ndim() - 2; ++i) lead_b.push_back(b.shape()[i]);
  const Shape lead = broadcast_shapes("matmul", lead_a, lead_b);
  const auto shaped = [&lead](int64_t rows, int64_t cols) {
    Shape shape = lead;
    shape.push_back(rows);
    shape.push_back(cols);
    return shape;
  };
  Array out = Array::empty(shaped(a.size(-2), b.size(-1)), compute, a.device());
  Array left = a.to(compute).expand(shaped(a.size(-2), a.size(-1)));
  Array right = b.to(compute).expand(shaped(b.size(-2), b.size(-1)));
  if (out.ndim() > 3 && out.numel() > 0 && leading_is_even(left) && leading_is_even(right)) {
    multiply(merge_leading(left), merge_leading(right), merge_leading(out));
  } else if (out.numel() > 0) {
    multiply(left, right, out);
  }
  return out.to(dtype);
}

}  // namespace hero::core
