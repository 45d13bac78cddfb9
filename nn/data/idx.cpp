#include <algorithm>
#include <cstring>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/stored_numbers.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/idx.h>

namespace hero::nn::data {
namespace {

struct Code {
  int64_t code;
  DType dtype;
  int64_t bytes;  // of an element in the file, fewer than in the array where it is widened
};
constexpr Code kCodes[] = {{0x08, kUInt8, 1}, {0x09, kInt32, 1},   {0x0B, kInt32, 2},
                           {0x0C, kInt32, 4}, {0x0D, kFloat32, 4}, {0x0E, kFloat64, 8}};

int64_t byte_at(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<int64_t>(bytes[at]);
}

const Code& code_of(int64_t code, const std::string& label) {
  for (const Code& known : kCodes) {
    if (known.code == code) return known;
  }
  fail("load_idx: ", label, " has element type ", code,
       ", known are 8 (uint8), 9 (int8), 11 (int16), 12 (int32), 13 (float32) and 14 (float64)");
}

// Copies elements between big endian and the machine's little endian.
void copy_swapped(std::byte* to, const std::byte* from, int64_t bytes, int64_t item) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
  core::reverse_numbers(std::span(to, static_cast<size_t>(bytes)), item);
}

}  // namespace

Array parse_idx(std::span<const std::byte> bytes, const std::string& label) {
  check(bytes.size() >= 4, "load_idx: ", label, " has ", bytes.size(),
        " bytes, too few for a header");
  check(byte_at(bytes, 0) == 0 && byte_at(bytes, 1) == 0, "load_idx: ", label,
        " is not an IDX file: it begins with ", byte_at(bytes, 0), " ", byte_at(bytes, 1),
        ", not with 0 0");
  const Code& code = code_of(byte_at(bytes, 2), label);
  const DType dtype = code.dtype;
  const int64_t ndim = byte_at(bytes, 3);
  check(ndim <= kMaxDims, "load_idx: ", label, " has ", ndim, " dimensions, more than ", kMaxDims);
  const size_t begin = 4 + 4 * static_cast<size_t>(ndim);
  check(bytes.size() >= begin, "load_idx: ", label, " ends inside its header, after ", bytes.size(),
        " bytes");
  std::vector<int64_t> sizes;
  int64_t needed = item_size(dtype);
  bool fits = true;
  for (size_t at = 4; at < begin; at += 4) {
    sizes.push_back(byte_at(bytes, at) << 24 | byte_at(bytes, at + 1) << 16 |
                    byte_at(bytes, at + 2) << 8 | byte_at(bytes, at + 3));
    // A size of 0 counts as 1: the product must not overflow with the others either.
    fits = fits && !__builtin_mul_overflow(needed, std::max<int64_t>(sizes.back(), 1), &needed);
  }
  check(fits, "load_idx: ", label, " has an impossible shape: ", Dims(sizes));
  const Shape shape(sizes);
  needed = shape.numel() * code.bytes;
  const auto held = static_cast<int64_t>(bytes.size() - begin);
  check(held == needed, "load_idx: ", label, " holds ", held, " bytes of data, shape ", shape,
        " of ", code.bytes, " bytes each needs ", needed);
  const Array array = Array::empty(shape, dtype);
  if (code.bytes < item_size(dtype)) {
    const core::StoredNumber stored = {.bytes = code.bytes, .is_big_endian = true};
    core::widen_integers(bytes.subspan(begin), stored, dtype, array.bytes());
  } else if (held > 0) {
    copy_swapped(array.bytes(), bytes.data() + begin, held, item_size(dtype));
  }
  return array;
}

Array load_idx(const std::string& path) {
  return with_file_errors("load_idx", path, [&] { return parse_idx(read_bytes(path), path); });
}

void save_idx(const std::string& path, const Array& array) {
  check(array.defined(), "save_idx: the array is undefined");
  const Array values = array.to(kCpu).contiguous();
  int64_t code = -1;
  for (const Code& known : kCodes) {
    const bool is_same = known.bytes == item_size(known.dtype);
    if (known.dtype == values.dtype() && is_same) code = known.code;
  }
  check(code >= 0, "save_idx: the format has no ", values.dtype(),
        "; convert it to uint8, int32, float32 or float64");
  std::vector<std::byte> bytes{std::byte{0}, std::byte{0}, static_cast<std::byte>(code),
                               static_cast<std::byte>(values.ndim())};
  for (const int64_t size : values.shape()) {
    check(size <= 0xffffffff, "save_idx: a size does not fit into 32 bits: ", size);
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::byte>(size >> shift & 0xff));
  }
  const size_t begin = bytes.size();
  bytes.resize(begin + static_cast<size_t>(values.nbytes()));
  if (values.nbytes() > 0) {
    copy_swapped(bytes.data() + begin, values.bytes(), values.nbytes(), item_size(values.dtype()));
  }
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace hero::nn::data
