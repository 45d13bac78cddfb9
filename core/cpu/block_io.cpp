#include <algorithm>
#include <array>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/elementwise/move_blocks.h>

namespace hero::core::cpu {

BroadcastWalk::BroadcastWalk(const Array& array, const Shape& shape) {
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

// Elements that are not neighbours are converted by way of a small buffer of neighbours.
void convert_apart(ConvertFn convert, int64_t from_size, int64_t to_size, int64_t count,
                   const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride) {
  constexpr int64_t kPart = 128;
  alignas(8) std::byte from[kPart * 8];
  alignas(8) std::byte to[kPart * 8];
  const int64_t src_step = src_stride * from_size, dst_step = dst_stride * to_size;
  if (src_stride == 0) {
    convert(1, src, 1, to, 1);
    return move_line(to_size, count, to, 0, dst, dst_step);
  }
  for (int64_t at = 0; at < count; at += kPart) {
    const int64_t part = std::min(kPart, count - at);
    move_line(from_size, part, src + at * src_step, src_step, from, from_size);
    convert(part, from, 1, to, 1);
    move_line(to_size, part, to, to_size, dst + at * dst_step, dst_step);
  }
}

template <class From, class To>
void convert_run(int64_t count, const std::byte* src, int64_t src_stride, std::byte* dst,
                 int64_t dst_stride) {
  if (count > 1 && (src_stride != 1 || dst_stride != 1)) {
    return convert_apart(&convert_run<From, To>, sizeof(From), sizeof(To), count, src, src_stride,
                         dst, dst_stride);
  }
  const auto* from = reinterpret_cast<const From*>(src);
  auto* to = reinterpret_cast<To*>(dst);
  for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
}

template <int64_t size>
void copy_run(int64_t count, const std::byte* src, int64_t src_stride, std::byte* dst,
              int64_t dst_stride) {
  if (src_stride == 1 && dst_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(count * size));
  } else {
    move_line(size, count, src, src_stride * size, dst, dst_stride * size);
  }
}

template <class From, class To>
constexpr ConvertFn run_of() {
  if constexpr (std::is_same_v<From, To>) {
    return &copy_run<sizeof(From)>;
  } else {
    return &convert_run<From, To>;
  }
}

template <int From, int... To>
constexpr std::array<ConvertFn, kDTypeCount> row(std::integer_sequence<int, To...>) {
  return {run_of<Element<static_cast<DType>(From)>, Element<static_cast<DType>(To)>>()...};
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
      has_rows_(direct_ || (walk_.has_rows(1) && array.dtype() == as)),
      convert_(converter(as, array.dtype())) {}

void BlockWriter::commit(int64_t begin, int64_t count, const std::byte* scratch) const {
  if (direct_) return;
  walk_.runs(begin, count, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
    convert_(run, scratch + done * from_size_, 1, data_ + element * to_size_, stride);
  });
}

}  // namespace hero::core::cpu
