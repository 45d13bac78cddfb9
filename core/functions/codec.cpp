#include <hero/core/functions/codec.h>
#include <hero/core/kernels/codecs.h>

namespace hero::core {

namespace {

constexpr int64_t kSignWord = 32;  // elements

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_rows(const char* op, Codec codec, const Array& bytes, int64_t row, const Array& x) {
  const bool floats = x.dtype() == kFloat32 || is_half(x.dtype());
  check(floats && x.ndim() == 1 && x.is_contiguous(), op, ": values are ", x.dtype(), " ",
        x.shape(), "; they must be contiguous float32, float16 or bfloat16 of one dimension");
  check(row > 0, op, ": a row must have one element or more: ", row);
  check(bytes.dtype() == kUInt8 && bytes.ndim() == 2 && bytes.is_contiguous() &&
            bytes.size(1) == encoded_bytes(codec, row),
        op, ": bytes of ", name(codec), " in rows of ", row,
        " elements are contiguous uint8 [rows, ", encoded_bytes(codec, row), "], not ",
        bytes.dtype(), " ", bytes.shape());
  check(bytes.device().type == DeviceType::meta ||
            reinterpret_cast<uintptr_t>(bytes.bytes()) % 4 == 0,
        op, ": bytes must lie at a multiple of 4 bytes");
  check_same_device(op, x, bytes);
}

}  // namespace

const char* name(Codec codec) {
  constexpr const char* names[] = {"sign1", "int8", "int4", "fp8_e4m3", "fp8_e5m2"};
  return names[static_cast<int>(codec)];
}

int64_t encoded_bytes(Codec codec, int64_t elements) {
  check(elements >= 0, "encoded_bytes: elements are fewer than 0: ", elements);
  if (codec == Codec::sign1) {
    return codecs::kScaleBytes + ceil_divide(elements, kSignWord) * (kSignWord / 8);
  }
  const int64_t codes = codec == Codec::int4 ? codecs::kBlock / 2 : codecs::kBlock;
  return ceil_divide(elements, codecs::kBlock) * (codecs::kScaleBytes + codes);
}

int64_t row_elements(Codec codec, int64_t elements, int parts) {
  check(elements >= 0 && parts > 0, "row_elements: ", elements, " elements in ", parts, " parts");
  const int64_t unit = codec == Codec::sign1 ? kSignWord : codecs::kBlock;
  return std::max<int64_t>(ceil_divide(ceil_divide(elements, parts), unit), 1) * unit;
}

void encode(Codec codec, const Array& x, int64_t row, const Array& bytes, const Array* error) {
  check_rows("encode", codec, bytes, row, x);
  check(bytes.size(0) * row >= x.numel(), "encode: ", bytes.size(0), " rows of ", row,
        " elements hold no ", x.numel());
  if (error) {
    check(error->dtype() == kFloat32 && error->shape() == x.shape() && error->is_contiguous(),
          "encode: the error must be contiguous float32 ", x.shape(), ", not ", error->dtype(), " ",
          error->shape());
    check_same_device("encode", x, *error);
    error->storage().bump_version();
  }
  bytes.storage().bump_version();
  if (bytes.numel() > 0) backend(x.device()).run(call::Encode{codec, x, row, bytes, error});
}

void decode(Codec codec, const Array& bytes, int64_t row, const Array& out, DecodeMode mode) {
  check_rows("decode", codec, bytes, row, out);
  if (mode == DecodeMode::sum) {
    check(out.numel() <= row && bytes.size(0) > 0, "decode: the sum of ", bytes.size(0),
          " rows of ", row, " elements cannot be ", out.numel(), " elements");
  } else {
    check(bytes.size(0) * row >= out.numel(), "decode: ", bytes.size(0), " rows of ", row,
          " elements are no ", out.numel());
  }
  out.storage().bump_version();
  if (out.numel() > 0) backend(out.device()).run(call::Decode{codec, bytes, row, mode, out});
}

}  // namespace hero::core
