#include <hero/autograd/dlpack.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_place.h>
#include <hero/autograd/tensor/memory.h>
#include <hero/core/array/checked.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/overlap.h>

namespace hero {

namespace detail {

void begin_write(const char* op, const Tensor& x) {
  if (grad_enabled()) {
    check(!wants(op, x) && !Recorder::shows_leaf(x), op, ": a tensor of shape ", x.shape(),
          " that requires grad cannot be written to while recording; only read it, or use NoGrad "
          "or clone()");
  }
  core::check_no_overlap(op, x.array());
  x.array().storage().bump_version();
}

void check_host_values(const char* op, const Tensor& x, DType dtype) {
  check_defined(op, {{"x", x}});
  check(x.dtype() == dtype, op, ": the tensor is ", x.dtype(), ", asked for ", dtype,
        "; convert with to()");
  check(core::is_host_memory(x.device()), op, ": the tensor lies on ", x.device(),
        ", where the host cannot reach it; move it with to(kCpu)");
}

Array host_copy(const char* op, const Tensor& x, DType dtype) {
  check_defined(op, {{"x", x}});
  return x.array().to(kCpu).to(dtype);
}

Tensor with_options(const char* op, const Array& array, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(array.dtype());
  check(!options.requires_grad || is_floating(dtype), op,
        ": requires_grad needs a floating dtype, not ", dtype);
  if (dtype != array.dtype() && !is_floating(dtype)) {
    // as tensor() of a list refuses numbers that would be others
    dispatch(array.dtype(), [&](auto tag) {
      using Value = typename decltype(tag)::type;
      using Number = std::conditional_t<core::kIsHalf<Value>, float, Value>;
      for (const Number value : array.to_vector<Number>()) {
        check(fits(Scalar(value), dtype), op, ": ", value, " does not fit ", dtype);
      }
    });
  }
  return Tensor(array.to(dtype).to(options.device), options.requires_grad);
}

Tensor tensor_over(const char* op, void* data, const Shape& shape, const Dims& strides, DType dtype,
                   const TensorOptions& options) {
  check(options.dtype.value_or(dtype) == dtype && core::is_host_memory(options.device), op,
        ": the memory has elements of ", dtype, " on cpu, asked for ",
        options.dtype.value_or(dtype), " on ", options.device, "; convert the tensor with to()");
  const int64_t item = item_size(dtype), numel = shape.numel(op);
  check(data || numel == 0, op, ": data is null, and shape ", shape, " has ", numel, " elements");
  check(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item) == 0, op,
        ": data is not aligned for ", dtype, ", whose elements take ", item,
        " bytes; copy it to memory that is");
  int64_t bytes = 0;
  if (numel > 0) {
    const core::Checked last{op, last_position(op, shape, strides, 0)};
    bytes = ((last + 1) * item).value;
  }
  auto storage = core::Storage::borrow(data, bytes, kCpu, {});
  return with_options(op, Array(std::move(storage), shape, strides, 0, dtype), options);
}

MatrixView matrix_view(const char* op, const Tensor& x, const MatrixRequest& request) {
  check_host_values(op, x, request.dtype);
  const Array& array = x.array();
  const int ndim = request.is_vector ? 1 : 2;
  check(array.ndim() == ndim, op, ": a ", request.is_vector ? "vector" : "matrix",
        " is asked for, and the tensor has shape ", array.shape(), "; reshape it to ", ndim,
        ndim == 1 ? " dimension" : " dimensions");
  MatrixView view;
  if (request.is_vector) {
    view.rows = request.is_row ? 1 : array.size(0);
    view.cols = request.is_row ? array.size(0) : 1;
  } else {
    view.rows = array.size(0);
    view.cols = array.size(1);
  }
  const auto check_size = [&](const char* what, int64_t size, int64_t wanted, int64_t most) {
    check(wanted < 0 || size == wanted, op, ": a type with ", wanted, " ", what,
          " for a tensor of shape ", array.shape());
    check(most < 0 || size <= most, op, ": a type with at most ", most, " ", what,
          " for a tensor of shape ", array.shape());
  };
  check_size("rows", view.rows, request.rows, request.max_rows);
  check_size("columns", view.cols, request.cols, request.max_cols);
  // Strides of dimensions with one element may be any.
  const auto stride = [&](int dim, int64_t otherwise) {
    return array.numel() > 0 && array.shape()[dim] > 1 ? array.strides()[dim] : otherwise;
  };
  const int inner = request.is_vector || !request.is_row_major ? 0 : 1;
  view.inner = stride(inner, 1);
  view.outer = request.is_vector ? array.size(0) : stride(1 - inner, array.size(inner));
  check(request.is_strided || view.inner == 1, op, ": the ",
        request.is_vector      ? "elements"
        : request.is_row_major ? "rows"
                               : "columns",
        " do not lie without gaps, shape ", array.shape(), " with strides ", array.strides(),
        request.is_vector      ? ""
        : request.is_row_major ? "; columns need a column-major type"
                               : "; rows need a row-major type, as RowMajorMatrix",
        "; take contiguous() first, or strided_eigen_map()");
  view.data = array.bytes();
  if (request.is_written) begin_write(op, x);
  return view;
}

namespace {

const Array& without_history(const Tensor& x) {
  check_defined("to_dlpack", {{"x", x}});
  check(!x.requires_grad(), "to_dlpack: a tensor of shape ", x.shape(),
        " requires grad, and its history cannot be given away; give detach() of it");
  return x.array();
}

}  // namespace

}  // namespace detail

dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, uint64_t flags) {
  return core::to_dlpack(detail::without_history(x), flags);
}
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x) {
  return core::to_dlpack_unversioned(detail::without_history(x));
}
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* managed) {
  return Tensor(core::from_dlpack(managed));
}
Tensor from_dlpack(dlpack::DLManagedTensor* managed) { return Tensor(core::from_dlpack(managed)); }

}  // namespace hero
