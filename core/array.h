#pragma once
// Array: what kernels, optimizers and collectives see. A cheap handle: shape, strides and offset
// over a shared Storage; no gradient.
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dims.h>
#include <hero/core/dtype.h>
#include <hero/core/scalar.h>
#include <hero/core/storage.h>
#include <hero/core/stream.h>

namespace hero::core {

/// "to the end" in slice().
inline constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

/// An n-dimensional array of up to kMaxDims dimensions. Copies and views share storage. A
/// default-made Array is undefined: it has no storage and no shape.
class Array {
 public:
  Array() = default;
  /// A view over `storage`; strides and offset count elements. An Error where the shape's bytes
  /// cannot be counted in 64 bits; that they lie inside the storage is the caller's to know.
  Array(Ref<Storage> storage, const Shape& shape, const Dims& strides, int64_t offset, DType dtype);

  /// Uninitialised, contiguous.
  static Array empty(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  static Array full(const Shape& shape, Scalar value, DType dtype = kFloat32, Device device = kCpu);
  static Array zeros(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  static Array ones(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  /// Copies `values` (row-major) into a new cpu array of that shape.
  template <class T>
  static Array from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Array from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }

  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  /// Size of one dimension; negative dims count from the end.
  int64_t size(int64_t dim) const { return shape_[normalize_dim("size", dim, shape_.size())]; }
  int ndim() const { return shape_.size(); }
  int64_t numel() const { return numel_; }
  int64_t offset() const { return offset_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  int64_t nbytes() const { return numel_ * item_size(dtype_); }
  /// True for row-major without gaps (dimensions of size 1 do not count).
  bool is_contiguous() const { return contiguous_; }
  Storage& storage() const { return *storage_; }
  const Ref<Storage>& storage_ref() const { return storage_; }

  /// First element, untyped; on cuda an address of the device. Throws when the bytes are released.
  std::byte* bytes() const {
    if (storage_ && storage_->data()) [[likely]]
      return storage_->data() + offset_ * item_size(dtype_);
    return no_bytes();
  }
  /// First element, for the host to read and write; T must match the dtype. Throws for an array on
  /// another device.
  template <class T>
  T* data() const {
    check(kDTypeOf<T> == dtype_ && kIsElement<T>, "data: array is ", dtype_, ", asked for ",
          kDTypeOf<T>);
    check(device().type != DeviceType::cuda, "data: array ", shape_, " lies on ", device(),
          ", where the host cannot reach it; move it with to(kCpu)");
    return reinterpret_cast<T*>(bytes());
  }
  /// The only element's value; the array must have exactly one.
  template <class T = double>
  T item() const;
  /// All elements, row-major, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  /// \name Views: they share storage.
  /// \{
  /// Elements start, start+step, ... below stop of `dim`, as Python's slice with step > 0.
  Array slice(int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1) const;
  /// The sub-array at `index` of `dim`, which is dropped.
  Array select(int64_t dim, int64_t index) const;
  Array transpose(int64_t dim0, int64_t dim1) const;
  /// Last two dimensions swapped.
  Array t() const { return transpose(-2, -1); }
  Array permute(const Dims& dims) const;
  /// Sizes of 1 grow to `shape` with stride 0; new dimensions come in front; -1 keeps a size.
  Array expand(const Shape& shape) const;
  /// The same elements in another shape; one size may be -1. A view where strides allow, else a
  /// copy.
  Array reshape(const Shape& shape) const;
  /// Drops dimension `dim` if its size is 1.
  Array squeeze(int64_t dim) const;
  /// Drops every dimension of size 1.
  Array squeeze() const;
  Array unsqueeze(int64_t dim) const;
  /// Dimensions start_dim..end_dim become one.
  Array flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  /// Any view inside the storage; strides >= 0 count elements, offset is absolute.
  Array as_strided(const Shape& shape, const Dims& strides, int64_t offset = 0) const;
  /// The elements x[.., i, .., i + offset, ..]; the diagonal becomes the last dimension.
  Array diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;
  /// Windows of `size` elements every `step` along `dim`; the window becomes the last dimension.
  Array unfold(int64_t dim, int64_t size, int64_t step) const;
  /// \}

  /// Itself when contiguous, else a contiguous copy.
  Array contiguous() const;
  /// A contiguous copy with storage of its own.
  Array clone() const;
  /// Itself when the dtype matches, else a converted copy.
  Array to(DType dtype) const;
  /// Itself when the device matches, else a copy there; a copy to the host is complete on return.
  Array to(Device device) const;
  /// Uninitialised array of the same shape, dtype and device.
  Array empty_like() const { return empty(shape_, dtype_, device()); }

 private:
  struct Contiguous {};
  Array(Contiguous, Ref<Storage> storage, const Shape& shape, int64_t numel, DType dtype);
  void update_layout();
  std::byte* no_bytes() const;

  Ref<Storage> storage_;
  Shape shape_;
  Dims strides_;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
  DType dtype_ = kFloat32;
  bool contiguous_ = true;
};

/// Throws unless both are defined and on the same device.
void check_same_device(const char* op, const Array& a, const Array& b);

}  // namespace hero::core

namespace hero {
using core::Array;
using core::kEnd;
}  // namespace hero
