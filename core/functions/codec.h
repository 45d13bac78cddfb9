#pragma once
// Codecs: encoding arrays of floating numbers in fewer bytes, for links and files. The bytes are
// the same on every device and for any number of threads.
#include <string>

#include <hero/core/device/backend.h>

namespace hero::core {

/// "sign1", "int8", "int4", "fp8_e4m3" or "fp8_e5m2".
const char* name(Codec codec);

/// The bytes of `elements` elements, with a block of 256 elements:
///   sign1      4 + 4 ceil(elements / 32)         a float32, then 32-bit words
///   int8, fp8  260 ceil(elements / block)        each block a float32 and 256 codes
///   int4       132 ceil(elements / block)        each block a float32 and 128 bytes
/// Integers and floats are little-endian. Every part begins at a multiple of four bytes, and bits
/// for elements behind the last one are zeros.
///
/// sign1: the float32 is s = sqrt(sum of squares / elements), the sum without rounding; bit i % 32
/// of word i / 32 is element i's sign bit, and the element is decoded as s or -s (Tang et al.,
/// arXiv 2102.02888, section 4.1). int8: the float32 is s = m / 127 for the block's largest
/// magnitude m, byte i the whole number that is nearest to x[i] * (127 / m), ties to even; it is
/// decoded as s times that number. int4: the same with 7 for 127; byte i holds, each in four bits
/// of two's complement, element i of the block below and element i + 128 above. fp8: the same with
/// 448 for e4m3 and 57344 for e5m2, and the nearest number of that format. A block without a
/// magnitude of 2^-110 or more is decoded as zeros; if s times its largest code would overflow, s
/// is the next smaller float.
///
/// Numbers that are not finite are never decoded as finite ones: a block (sign1: a row) with an
/// infinity or a NaN has the scale NaN and is decoded as NaN.
int64_t encoded_bytes(Codec codec, int64_t elements);

/// The elements of a row if an array of `elements` is cut into `parts` equal rows, rounded up to
/// whole blocks (sign1: to 32 elements), so that only the last row with elements is padded.
int64_t row_elements(Codec codec, int64_t elements, int parts);

/// bytes = x, row by row: x [n] is cut into rows of `row` elements, the last of which may have
/// fewer, and row i becomes bytes[i]; bytes is uint8 [rows, encoded_bytes(codec, row)], and rows
/// behind the last one are zeros. x is float32, float16 or bfloat16. With `error`, float32 [n], the
/// sum x + error is encoded, and error becomes this sum minus its decoded value: error feedback,
/// Seide et al., "1-bit stochastic gradient descent", 2014. It becomes 0 where that value is NaN.
void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
            const Array* error = nullptr);

/// Decodes rows into out [n], float32 or half precision: out is set to the rows, one after the
/// other (assign), the rows are added to it (add), or it is set to the sum over all rows of their
/// first n elements, in the order of the rows (sum). Sums are computed in float32 and rounded once.
void decode(Codec codec, const Array& bytes, int64_t row, const Array& out,
            DecodeMode mode = DecodeMode::assign);

}  // namespace hero::core
