#include <cstring>

#include <hero/core/array.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/memory/fetcher.h>

namespace hero::core {

Array::Array(Ref<Storage> storage, const Shape& shape, const Dims& strides, int64_t offset,
             DType dtype)
    : storage_(std::move(storage)),
      shape_(shape),
      strides_(strides),
      offset_(offset),
      dtype_(dtype) {
  update_layout();
}

Array::Array(Contiguous, Ref<Storage> storage, const Shape& shape, int64_t numel, DType dtype)
    : storage_(std::move(storage)),
      shape_(shape),
      strides_(contiguous_strides(shape)),
      numel_(numel),
      dtype_(dtype) {}

namespace {

// The bytes of a shape's elements, which may be more than any memory has.
int64_t bytes_of(const char* op, const Shape& shape, int64_t numel, DType dtype) {
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(numel, int64_t{item_size(dtype)}, &bytes), op, ": shape ", shape,
        " of ", dtype, " is too large for 64-bit byte counts");
  return bytes;
}

}  // namespace

void Array::update_layout() {
  numel_ = shape_.numel("view");
  bytes_of("view", shape_, numel_, dtype_);
  if (numel_ == 0) offset_ = 0;  // no element lies there, and none is looked for past the end
  contiguous_ = true;
  int64_t expected = 1;
  for (int i = shape_.size() - 1; i >= 0 && numel_ > 0; --i) {
    if (shape_[i] == 1) continue;
    if (strides_[i] != expected) {
      contiguous_ = false;
      return;
    }
    expected *= shape_[i];
  }
}

Array Array::empty(const Shape& shape, DType dtype, Device device) {
  const int64_t numel = shape.numel("empty");
  const int64_t bytes = bytes_of("empty", shape, numel, dtype);
  return Array(Contiguous{}, Storage::create(bytes, device), shape, numel, dtype);
}

Array Array::full(const Shape& shape, Scalar value, DType dtype, Device device) {
  check(fits(value, dtype), "full: ", value, " does not fit ", dtype);
  Array array = empty(shape, dtype, device);
  backend(device).run(call::Fill{array, value});
  return array;
}

Array Array::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}

Array Array::ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1, dtype, device);
}

template <class T>
Array Array::from(std::span<const T> values, const Shape& shape) {
  check(shape.numel("from") == static_cast<int64_t>(values.size()), "from: ", values.size(),
        " values do not fill shape ", shape);
  Array array = empty(shape, kDTypeOf<T>);
  if (!values.empty()) std::memcpy(array.bytes(), values.data(), values.size_bytes());
  return array;
}

std::byte* Array::no_bytes() const {
  check(defined(), "data: the array is undefined");
  if (storage_->released()) {
    if (Fetcher* const fetcher = fetcher_of(*storage_)) {
      fetcher->fetch();
      if (storage_->data() != nullptr) return bytes();
    }
  }
  check(numel_ == 0 && !storage_->released(), "data: array ", shape_, " on ", device(),
        storage_->released()                ? ": its storage is released; refill it first"
        : device().type == DeviceType::meta ? " has no values, but only a shape"
                                            : " has no bytes here; copy it with to(kCpu)");
  return nullptr;
}

template <class T>
T Array::item() const {
  check(defined() && numel_ == 1, "item: needs exactly one element: array has shape ", shape_);
  if (device().type == DeviceType::cuda) return to(kCpu).template item<T>();
  const std::byte* from = bytes();
  return dispatch(dtype_, [&](auto tag) {
    using From = typename decltype(tag)::type;
    return convert<T>(*reinterpret_cast<const From*>(from));
  });
}

template <class T>
std::vector<T> Array::to_vector() const {
  const Array dense =
      to(kDTypeOf<T>).contiguous().to(device().type == DeviceType::cuda ? kCpu : device());
  const T* first = numel_ > 0 ? dense.data<T>() : nullptr;
  return std::vector<T>(first, first + numel_);
}

// std::vector<bool> has no contiguous bytes to copy to.
template <>
std::vector<bool> Array::to_vector<bool>() const {
  const std::vector<uint8_t> flags = to(kBool).to(kUInt8).to_vector<uint8_t>();
  return std::vector<bool>(flags.begin(), flags.end());
}

Array Array::contiguous() const { return contiguous_ ? *this : clone(); }

Array Array::clone() const {
  check(defined(), "clone: the array is undefined");
  Array result = empty_like();
  backend(device()).run(call::Copy{*this, result});
  return result;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  check(defined(), "to: the array is undefined");
  Array result = empty(shape_, dtype, device());
  backend(device()).run(call::Copy{*this, result});
  return result;
}

Array Array::to(Device target) const {
  if (target == device()) return *this;
  const bool planned = device().type == DeviceType::meta && target.type == DeviceType::meta;
  check(planned || device().type != DeviceType::meta, "to: meta array ", shape_,
        " has no values to copy to ", target, "; create it there instead");
  Array result = empty(shape_, dtype_, target);
  // Only a device's own backend knows how to reach its memory.
  const Device worker = target.type == DeviceType::cpu ? device() : target;
  if (planned || target.type != DeviceType::meta) backend(worker).run(call::Copy{*this, result});
  return result;
}

void check_same_device(const char* op, const Array& a, const Array& b) {
  check(a.defined() && b.defined(), op, ": an operand is undefined");
  const bool meta = a.device().type == DeviceType::meta || b.device().type == DeviceType::meta;
  check(a.device() == b.device(), op, ": operands on different devices: ", a.device(), " and ",
        b.device(),
        meta ? "; what is on meta has no values: materialize() its module, or make it elsewhere"
             : "; move one with to()");
}

template Array Array::from(std::span<const uint8_t>, const Shape&);
template Array Array::from(std::span<const int32_t>, const Shape&);
template Array Array::from(std::span<const int64_t>, const Shape&);
template Array Array::from(std::span<const Float16>, const Shape&);
template Array Array::from(std::span<const BFloat16>, const Shape&);
template Array Array::from(std::span<const float>, const Shape&);
template Array Array::from(std::span<const double>, const Shape&);
template Array Array::from(std::span<const bool>, const Shape&);

template bool Array::item() const;
template uint8_t Array::item() const;
template int32_t Array::item() const;
template int64_t Array::item() const;
template float Array::item() const;
template double Array::item() const;

template std::vector<uint8_t> Array::to_vector() const;
template std::vector<int32_t> Array::to_vector() const;
template std::vector<int64_t> Array::to_vector() const;
template std::vector<Float16> Array::to_vector() const;
template std::vector<BFloat16> Array::to_vector() const;
template std::vector<float> Array::to_vector() const;
template std::vector<double> Array::to_vector() const;

}  // namespace hero::core
