#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/array/checked.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/kernels/wrapping.h>

namespace hero {

namespace {

template <class T>
Tensor from_values(const std::vector<T>& values, const Shape& shape, DType natural,
                   const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(natural);
  if (dtype != natural && !is_floating(dtype)) {
    for (const T value : values) {
      check(fits(Scalar(value), dtype), "tensor: ", value, " does not fit ", dtype);
    }
  }
  return Tensor(Array::from(values, shape).to(dtype).to(options.device), options.requires_grad);
}

// bools lie in no std::vector as an array does.
Tensor from_values(const std::vector<bool>& values, const Shape& shape, DType natural,
                   const TensorOptions& options) {
  return from_values(std::vector<uint8_t>(values.begin(), values.end()), shape, natural, options);
}

template <class T>
constexpr DType kNaturalDType = std::is_floating_point_v<T>
                                    ? kFloat32
                                    : (std::is_same_v<T, bool> ? kBool : kInt64);

template <class T>
Tensor from_vector(const std::vector<T>& values, const TensorOptions& options) {
  return from_values(values, {static_cast<int64_t>(values.size())}, kNaturalDType<T>, options);
}

Tensor make(const char* op, Array array, const TensorOptions& options) {
  check(!options.requires_grad || is_floating(array.dtype()), op,
        ": requires_grad needs a floating "
        "dtype, not ",
        array.dtype());
  return Tensor(std::move(array), options.requires_grad);
}

Tensor from_mixed(const std::vector<Scalar>& values, const Shape& shape,
                  const TensorOptions& options) {
  const auto as = [&]<class T>(TypeTag<T>) {
    std::vector<T> same;
    for (const Scalar& value : values) same.push_back(value.to<T>());
    return from_values(same, shape, kNaturalDType<T>, options);
  };
  const bool floating = std::any_of(values.begin(), values.end(),
                                    [](const Scalar& value) { return value.is_floating(); });
  return floating ? as(TypeTag<double>{}) : as(TypeTag<int64_t>{});
}

}  // namespace

Tensor tensor(Scalar value, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(value.dtype());
  check(fits(value, dtype), "tensor: ", value, " does not fit ", dtype);
  return make("tensor", Array::full({}, value, dtype, options.device), options);
}
template <RowElement T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options) {
  return from_vector(std::vector<T>(values), options);
}
template Tensor tensor(std::initializer_list<double>, const TensorOptions&);
template Tensor tensor(std::initializer_list<float>, const TensorOptions&);
template Tensor tensor(std::initializer_list<int>, const TensorOptions&);
template Tensor tensor(std::initializer_list<int64_t>, const TensorOptions&);
template Tensor tensor(std::initializer_list<bool>, const TensorOptions&);

Tensor tensor(std::initializer_list<detail::MixedElement> values, const TensorOptions& options) {
  std::vector<Scalar> all;
  for (const detail::MixedElement& element : values) all.push_back(element.value);
  return from_mixed(all, {static_cast<int64_t>(all.size())}, options);
}

template <RowElement T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& options) {
  std::vector<T> values;
  const size_t width = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    check(row.size() == width, "tensor: rows of different lengths: ", width, " and ", row.size());
    values.insert(values.end(), row);
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  return from_values(values, shape, kNaturalDType<T>, options);
}
template Tensor tensor(std::initializer_list<std::initializer_list<double>>, const TensorOptions&);
template Tensor tensor(std::initializer_list<std::initializer_list<float>>, const TensorOptions&);
template Tensor tensor(std::initializer_list<std::initializer_list<int>>, const TensorOptions&);
template Tensor tensor(std::initializer_list<std::initializer_list<int64_t>>, const TensorOptions&);
template Tensor tensor(std::initializer_list<std::initializer_list<bool>>, const TensorOptions&);
Tensor tensor(std::initializer_list<std::initializer_list<detail::MixedElement>> rows,
              const TensorOptions& options) {
  std::vector<Scalar> all;
  const size_t width = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    check(row.size() == width, "tensor: rows of different lengths: ", width, " and ", row.size());
    for (const detail::MixedElement& element : row) all.push_back(element.value);
  }
  return from_mixed(all, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)}, options);
}
Tensor tensor(const std::vector<double>& values, const TensorOptions& options) {
  return from_vector(values, options);
}
Tensor tensor(const std::vector<float>& values, const TensorOptions& options) {
  return from_vector(values, options);
}
Tensor tensor(const std::vector<int>& values, const TensorOptions& options) {
  return from_vector(values, options);
}
Tensor tensor(const std::vector<int64_t>& values, const TensorOptions& options) {
  return from_vector(values, options);
}
Tensor tensor(const std::vector<bool>& values, const TensorOptions& options) {
  return from_vector(values, options);
}

template <class T>
Tensor detail::tensor_of_span(std::span<const T> values, const TensorOptions& options) {
  constexpr bool kept = core::kIsHalf<T> || std::is_same_v<T, uint8_t>;
  using Listed = std::conditional_t<core::kIsHalf<T>, float, T>;  // halves are exact floats
  std::vector<Listed> list;
  for (const T value : values) list.push_back(static_cast<Listed>(value));
  return from_values(list, {static_cast<int64_t>(list.size())},
                     kept ? kDTypeOf<T> : kNaturalDType<Listed>, options);
}
template Tensor detail::tensor_of_span(std::span<const bool>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const uint8_t>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const int>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const int64_t>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const Float16>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const BFloat16>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const float>, const TensorOptions&);
template Tensor detail::tensor_of_span(std::span<const double>, const TensorOptions&);

Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options) {
  return from_blob(data, shape, std::function<void(void*)>(), options);
}
Tensor from_blob(void* data, const Shape& shape, const std::function<void(void*)>& deleter,
                 const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(kFloat32);
  const int64_t numel = shape.numel("from_blob"), item = item_size(dtype);
  check(core::has_values(options.device), "from_blob: there is no memory on meta");
  check(data || numel == 0, "from_blob: data is null, and shape ", shape, " has ", numel,
        " elements");
  check(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item) == 0,
        "from_blob: data is not aligned for ", dtype, ", whose elements take ", item,
        " bytes; copy it to memory that is");
  std::function<void()> done;
  if (deleter) done = [deleter, data] { deleter(data); };
  auto storage = core::Storage::borrow(data, (core::Checked{"from_blob", numel} * item).value,
                                       options.device, std::move(done));
  return make("from_blob", Array(std::move(storage), shape, contiguous_strides(shape), 0, dtype),
              options);
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return make("empty", Array::empty(shape, options.dtype.value_or(kFloat32), options.device),
              options);
}
Tensor zeros(const Shape& shape, const TensorOptions& options) {
  const detail::Named named("zeros");
  return full(shape, 0.0, options);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
  const detail::Named named("ones");
  return full(shape, 1.0, options);
}
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  const detail::Named named("full");
  const DType dtype = options.dtype.value_or(value.dtype());
  return make("full", Array::full(shape, value, dtype, options.device), options);
}
Tensor empty_like(const Tensor& x) {
  detail::check_defined("empty_like", {{"x", x}});
  return Tensor(x.array().empty_like());
}
Tensor zeros_like(const Tensor& x) {
  detail::check_defined("zeros_like", {{"x", x}});
  return full_like(x, 0);
}
Tensor ones_like(const Tensor& x) {
  detail::check_defined("ones_like", {{"x", x}});
  return full_like(x, 1);
}
Tensor full_like(const Tensor& x, Scalar value) {
  const detail::Named named("full_like", {"x", x});
  detail::check_defined("full_like", {{"x", x}});
  return Tensor(Array::full(x.shape(), value, x.dtype(), x.device()));
}

TensorOptions detail::options_like(const Tensor& x, const LikeOptions& options) {
  return {.dtype = options.dtype.value_or(x.dtype()),
          .device = options.device.value_or(x.device()),
          .requires_grad = options.requires_grad};
}
Tensor empty_like(const Tensor& x, const LikeOptions& options) {
  detail::check_defined("empty_like", {{"x", x}});
  return empty(x.shape(), detail::options_like(x, options));
}
Tensor zeros_like(const Tensor& x, const LikeOptions& options) {
  detail::check_defined("zeros_like", {{"x", x}});
  return full_like(x, 0, options);
}
Tensor ones_like(const Tensor& x, const LikeOptions& options) {
  detail::check_defined("ones_like", {{"x", x}});
  return full_like(x, 1, options);
}
Tensor full_like(const Tensor& x, Scalar value, const LikeOptions& options) {
  const detail::Named named("full_like", {"x", x});
  detail::check_defined("full_like", {{"x", x}});
  return full(x.shape(), value, detail::options_like(x, options));
}

namespace {

// value(i) for each i, computed as T and converted; meta arrays have only the shape.
template <class T, class Value>
Tensor sequence(const char* op, int64_t count, DType natural, const TensorOptions& options,
                Value&& value) {
  const DType dtype = options.dtype.value_or(natural);
  if (!core::has_values(options.device)) {
    return make(op, Array::empty({count}, dtype, options.device), options);
  }
  const Array values = Array::empty({count}, kDTypeOf<T>);
  T* data = values.data<T>();
  for (int64_t i = 0; i < count; ++i) data[i] = value(i);
  return make(op, values.to(dtype).to(options.device), options);
}

// first + i * by for each i; on an accelerator computed there, with the same bits.
template <class T>
Tensor steps(T first, T by, int64_t count, DType natural, const TensorOptions& options) {
  if (core::is_accelerator(options.device)) {
    const Array at = detail::positions(count, options.device).to(kDTypeOf<T>);
    const Array values =
        core::map<core::kernels::Add>(core::map<core::kernels::Mul>(at, Scalar(by)), Scalar(first));
    return make("arange", values.to(options.dtype.value_or(natural)), options);
  }
  return sequence<T>("arange", count, natural, options, [=](int64_t i) {
    return core::wrapping_add(first, core::wrapping_mul(static_cast<T>(i), by));
  });
}

// How many integers from first by `by` lie before end. The distance may be any of 64 bits.
int64_t count_of(int64_t first, int64_t end, int64_t by) {
  check(by > 0 ? first <= end : first >= end, "arange: from ", first, " to ", end, " by ", by,
        " leads away from the end");
  const auto a = static_cast<uint64_t>(first), b = static_cast<uint64_t>(end);
  const uint64_t span = by > 0 ? b - a : a - b;
  const uint64_t width = by > 0 ? static_cast<uint64_t>(by) : -static_cast<uint64_t>(by);
  const uint64_t count = span / width + (span % width != 0 ? 1 : 0);
  check(count <= static_cast<uint64_t>(kEnd), "arange: from ", first, " to ", end, " by ", by,
        " are ", count, " numbers; use a larger step");
  return static_cast<int64_t>(count);
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const detail::Named named("arange");
  check(std::isfinite(start.real()) && std::isfinite(end.real()) && std::isfinite(step.real()),
        "arange: bounds and step must be finite: ", start, " to ", end, " by ", step);
  check(step.real() != 0.0, "arange: the step is 0");
  check((end.real() - start.real()) * step.real() >= 0.0, "arange: from ", start, " to ", end,
        " by ", step, " leads away from the end");
  if (!start.is_floating() && !end.is_floating() && !step.is_floating()) {
    const int64_t first = start.to<int64_t>(), by = step.to<int64_t>();
    return steps<int64_t>(first, by, count_of(first, end.to<int64_t>(), by), kInt64, options);
  }
  const double first = start.real(), by = step.real();
  const double numbers = std::ceil((end.real() - first) / by);
  check(numbers < 0x1p63, "arange: from ", start, " to ", end, " by ", step, " are ", numbers,
        " numbers; use a larger step");
  const auto count = static_cast<int64_t>(numbers);
  if (!is_floating(options.dtype.value_or(kFloat32))) {
    check(fits(start, kInt64) && fits(step, kInt64), "arange: ", start, " or ", step,
          " does not fit int64");
    return steps<int64_t>(start.to<int64_t>(), step.to<int64_t>(), count, kInt64, options);
  }
  return steps<double>(first, by, count, kFloat32, options);
}

Tensor arange(Scalar end, const TensorOptions& options) {
  const detail::Named named("arange");
  return arange(end.is_floating() ? Scalar(0.0) : Scalar(0), end, 1, options);
}

Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options) {
  const detail::Named named("linspace");
  check(steps >= 0, "linspace: negative number of steps: ", steps);
  const DType dtype = options.dtype.value_or(kFloat32);
  int64_t half = steps / 2 + steps % 2;
  if (!is_floating(dtype)) {
    check(fits(start, dtype) && fits(end, dtype), "linspace: ", start, " or ", end,
          " does not fit ", dtype);
    start = std::trunc(start);
    end = std::trunc(end);
    // As PyTorch: it tells to which side the middle of an odd number is cut.
    half = std::max<int64_t>(steps / 2, 1);
  }
  const double by = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  // From both ends, so that both are met exactly and the middle errs least.
  return sequence<double>("linspace", steps, kFloat32, options, [=](int64_t i) {
    return i < half ? start + static_cast<double>(i) * by
                    : end - static_cast<double>(steps - 1 - i) * by;
  });
}

Tensor eye(int64_t n, const TensorOptions& options) {
  const detail::Named named("eye");
  return eye(n, n, options);
}

Tensor eye(int64_t n, int64_t m, const TensorOptions& options) {
  const detail::Named named("eye");
  check(n >= 0 && m >= 0, "eye: negative size: ", n, " x ", m);
  const Array out = Array::zeros({n, m}, options.dtype.value_or(kFloat32), options.device);
  core::backend(out.device()).run(core::call::Fill{out.diagonal(), 1});
  return make("eye", out, options);
}

Tensor one_hot(const Tensor& x, int64_t num_classes) {
  const detail::Named named("one_hot", {"x", x});
  detail::check_defined("one_hot", {{"x", x}});
  check(x.dtype() == kInt64 || x.dtype() == kInt32, "one_hot: classes are ", x.dtype(),
        "; they must be int64 or int32");
  int64_t classes = num_classes;
  check(classes >= -1, "one_hot: negative number of classes ", classes, "; -1 counts them");
  if (classes < 0) {
    check(x.numel() > 0, "one_hot: no classes to count; give num_classes");
    const int64_t largest = core::reduce(core::ReduceKind::max, x.array()).item<int64_t>();
    classes = (core::Checked{"one_hot", largest} + 1).value;
  }
  Shape shape = x.shape();
  shape.push_back(classes);
  const Array out = Array::zeros(shape, kInt64, x.device());
  const Array index = core::checked_index("one_hot", x.array(), classes).unsqueeze(-1);
  core::scatter_into(core::ScatterMode::assign, out, -1, index,
                     Array::ones(index.shape(), kInt64, x.device()));
  return Tensor(out);
}

Tensor logspace(double start, double end, int64_t steps, double base,
                const TensorOptions& options) {
  const detail::Named named("logspace");
  TensorOptions wide{.dtype = kFloat64, .device = options.device};
  if (options.dtype && !is_floating(*options.dtype)) {  // as linspace() of integers
    start = std::trunc(start);
    end = std::trunc(end);
  }
  Tensor powers = pow(base, linspace(start, end, steps, wide));
  const Tensor result(powers.to(options.dtype.value_or(kFloat32)).array(), options.requires_grad);
  return result;
}

}  // namespace hero
