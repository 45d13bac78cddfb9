#pragma once
// Array: what kernels, optimizers and collectives compute with. It is a cheap handle, with shape,
// strides and offset, over a shared Storage, and has no gradient.
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dims.h>
#include <hero/core/dtype.h>
#include <hero/core/ostream.h>
#include <hero/core/scalar.h>
#include <hero/core/storage.h>

namespace hero::core {

/// Stands for the end of a dimension in slice().
inline constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

/// An n-dimensional array of up to kMaxDims dimensions. Copies and views share storage. A
/// default-constructed Array is undefined: it has no storage and no shape.
class Array {
 public:
  Array() = default;
  /// Makes a view of `storage`; strides and offset count elements. Throws an Error if the number of
  /// bytes does not fit into 64 bits; the caller has to ensure that they lie inside the storage.
  Array(Ref<Storage> storage, const Shape& shape, const Dims& strides, int64_t offset, DType dtype);

  /// A contiguous array whose values are unspecified.
  static Array empty(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  /// A contiguous array whose elements all have this value.
  static Array full(const Shape& shape, Scalar value, DType dtype = kFloat32, Device device = kCpu);
  /// A contiguous array of zeros.
  static Array zeros(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  /// A contiguous array of ones.
  static Array ones(const Shape& shape, DType dtype = kFloat32, Device device = kCpu);
  /// Copies `values`, in row-major order, into a new cpu array of this shape.
  template <class T>
  static Array from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Array from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }

  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  /// The size of a dimension; negative ones count from the end.
  int64_t size(int64_t dim) const { return shape_[normalize_dim("size", dim, shape_.size())]; }
  int ndim() const { return shape_.size(); }
  int64_t numel() const { return numel_; }
  int64_t offset() const { return offset_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  int64_t nbytes() const { return numel_ * item_size(dtype_); }
  /// True if the elements are row-major without gaps; dimensions of size 1 do not count.
  bool is_contiguous() const { return contiguous_; }
  Storage& storage() const { return *storage_; }
  const Ref<Storage>& storage_ref() const { return storage_; }

  /// The address of the first element; on cuda, an address of the device. Throws an Error if the
  /// bytes are released.
  std::byte* bytes() const {
    if (storage_ && storage_->data()) [[likely]]
      return storage_->data() + offset_ * item_size(dtype_);
    return no_bytes();
  }
  /// The address of the first element, for the host to read and write; T must match the dtype.
  /// Throws an Error for an array on another device.
  template <class T>
  T* data() const {
    check(kDTypeOf<T> == dtype_ && kIsElement<T>, "data: array is ", dtype_, ", asked for ",
          kDTypeOf<T>);
    check(device().type != DeviceType::cuda, "data: array ", shape_, " lies on ", device(),
          ", where the host cannot reach it; move it with to(kCpu)");
    return reinterpret_cast<T*>(bytes());
  }
  /// The value of the only element; the array must have exactly one.
  template <class T = double>
  T item() const;
  /// All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  /// \name Views, which share the storage
  /// \{
  /// The elements start, start + step, ... below stop along `dim`, as Python's slice with step > 0.
  Array slice(int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1) const;
  /// The slice at `index` of `dim`, without this dimension.
  Array select(int64_t dim, int64_t index) const;
  /// Exchanges two dimensions.
  Array transpose(int64_t dim0, int64_t dim1) const;
  /// Exchanges the last two dimensions.
  Array t() const { return transpose(-2, -1); }
  /// The dimensions in another order.
  Array permute(const Dims& dims) const;
  /// Expands dimensions of size 1 to `shape`, with stride 0; new dimensions are added in front, and
  /// -1 keeps a size.
  Array expand(const Shape& shape) const;
  /// The same elements in another shape, in which one size may be -1: a view if the strides allow
  /// it, else a copy.
  Array reshape(const Shape& shape) const;
  /// Removes dimension `dim` if its size is 1.
  Array squeeze(int64_t dim) const;
  /// Removes every dimension of size 1.
  Array squeeze() const;
  /// Adds a dimension of size 1 at `dim`.
  Array unsqueeze(int64_t dim) const;
  /// Joins dimensions start_dim to end_dim into one.
  Array flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  /// A view with any shape, strides >= 0 and offset that stay inside the storage. Strides count
  /// elements, as does the offset, which begins at the start of the storage.
  Array as_strided(const Shape& shape, const Dims& strides, int64_t offset = 0) const;
  /// The elements x[.., i, .., i + offset, ..]; the diagonal is the last dimension of the result.
  Array diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;
  /// The windows of `size` elements at every `step` along `dim`; the window is the last dimension
  /// of the result.
  Array unfold(int64_t dim, int64_t size, int64_t step) const;
  /// \}

  /// The array itself if it is contiguous, else a contiguous copy.
  Array contiguous() const;
  /// A contiguous copy with storage of its own.
  Array clone() const;
  /// The array itself if it has this dtype, else a converted copy.
  Array to(DType dtype) const;
  /// The array itself if it is on this device, else a copy there; a copy to the host is complete on
  /// return.
  Array to(Device device) const;
  /// An uninitialised array of the same shape, dtype and device.
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

/// Throws an Error that begins with `op` unless both arrays are defined and on the same device.
void check_same_device(const char* op, const Array& a, const Array& b);

}  // namespace hero::core

namespace hero {
using core::Array;
using core::kEnd;
}  // namespace hero
