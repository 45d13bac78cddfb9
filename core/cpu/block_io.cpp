#include <algorithm>
#include <array>

#include <hero/core/cpu/block_io.h>

namespace hero::core::cpu {

Walk::Walk(const Array& array, const Shape& shape) {
  // Dimensions over which this array runs evenly are merged; a scalar position keeps one dimension.
  const int lead = shape.size() - array.ndim();
  sizes_[0] = 1;
  strides_[0] = 1;
  for (int i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[i];
    if (size == 1) continue;
    const bool repeated = i < lead || array.shape()[i - lead] == 1;
    const int64_t stride = repeated ? 0 : array.strides()[i - lead];
    if (ndim_ > 0 && strides_[ndim_ - 1] == stride * size) {
      sizes_[ndim_ - 1] *= size;
      strides_[ndim_ - 1] = stride;
    } else {
      sizes_[ndim_] = size;
      strides_[ndim_++] = stride;
    }
  }
  if (ndim_ == 0) ndim_ = 1;
  linear_ = ndim_ == 1 && strides_[0] == 1;
}

namespace {

template <class From, class To>
void convert_run(int64_t count, const std::byte* src, int64_t src_stride, std::byte* dst,
                 int64_t dst_stride) {
  const auto* from = reinterpret_cast<const From*>(src);
  auto* to = reinterpret_cast<To*>(dst);
  if (src_stride == 1 && dst_stride == 1) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(dst, src, static_cast<size_t>(count) * sizeof(From));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
    }
  } else if (src_stride == 0) {
    const To value = convert<To>(from[0]);
    for (int64_t i = 0; i < count; ++i) to[i * dst_stride] = value;
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * dst_stride] = convert<To>(from[i * src_stride]);
  }
}

template <int From, int... To>
constexpr std::array<ConvertFn, kDTypeCount> row(std::integer_sequence<int, To...>) {
  return {&convert_run<Element<static_cast<DType>(From)>, Element<static_cast<DType>(To)>>...};
}

template <int... From>
constexpr auto table(std::integer_sequence<int, From...> all) {
  return std::array<std::array<ConvertFn, kDTypeCount>, kDTypeCount>{row<From>(all)...};
}

constexpr auto kConverters = table(std::make_integer_sequence<int, kDTypeCount>{});

// A bool is stored as a byte 0 or 1, so that reading it as uint8 converts nothing.
bool same_bytes(DType from, DType as) { return from == as || (from == kBool && as == kUInt8); }

}  // namespace

ConvertFn converter(DType from, DType to) {
  return kConverters[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

void fill_block(std::byte* block, int64_t count, DType dtype, Scalar value) {
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(reinterpret_cast<T*>(block), count, value.to<T>());
  });
}

BlockReader::BlockReader(const Array& array, const Shape& shape, DType as)
    : walk_(array, shape),
      data_(array.bytes()),
      dtype_(array.dtype()),
      from_size_(item_size(array.dtype())),
      to_size_(item_size(as)),
      converts_(!same_bytes(array.dtype(), as)),
      direct_(walk_.linear() && !converts_),
      convert_(converter(array.dtype(), as)) {}

const std::byte* BlockReader::read(int64_t begin, int64_t count, std::byte* scratch) const {
  if (direct_) return data_ + begin * from_size_;
  walk_.runs(begin, count, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
    convert_(run, data_ + element * from_size_, stride, scratch + done * to_size_, 1);
  });
  return scratch;
}

BlockWriter::BlockWriter(const Array& array, DType as)
    : walk_(array, array.shape()),
      data_(array.bytes()),
      from_size_(item_size(as)),
      to_size_(item_size(array.dtype())),
      direct_(walk_.linear() && array.dtype() == as),
      convert_(converter(as, array.dtype())) {}

void BlockWriter::commit(int64_t begin, int64_t count, const std::byte* scratch) const {
  if (direct_) return;
  walk_.runs(begin, count, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
    convert_(run, scratch + done * from_size_, 1, data_ + element * to_size_, stride);
  });
}

}  // namespace hero::core::cpu
