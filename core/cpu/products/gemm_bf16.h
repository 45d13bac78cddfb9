#pragma once
// Products of bfloat16 by the machine's own instruction.
//
// [note: the bits of a native product] Below level amx:
// Elements of k are taken in pairs (the last one beside a zero). Every element of C is a chain that
// begins at zero; a pair adds first the product of its second elements, then that of its first
// ones, each by one fused multiply-add of float32 that reads subnormal numbers as zeros and gives
// zero where its result is one. A chain ends after kBf16Chain or fewer elements, and the chains of
// an element are added in order by ordinary additions. Nothing else enters into the bits: not the
// number of threads, not how C is cut into tiles, not the layout of the operands.
//
// [note: the bits of a product on ARM] At level neon-bf16 the chains are the same, but a pair first
// adds its two products to each other, and then what results to the chain. Both additions round to
// odd: what float32 lacks is cut off, and where that was not zero the last bit is one. They read
// subnormal numbers as zeros, and give zero, with the sign, in place of a result below the normal
// numbers, and infinity for one of 2^128 or more. An exact zero is positive, unless both numbers
// are negative zeros.
//
// [note: the bits of a product by tiles] At level amx the elements of k are taken 32 at a time, of
// which the last may be fewer, an odd one beside a zero. From zero the products of their first,
// third, .. elements are added up in order, each by one fused multiply-add of float32, and those of
// their second, fourth, .. ones by themselves; the two sums are added, and what results is added to
// the element of C, which began at zero. All of these read subnormal numbers as zeros and give zero
// where their result is one. Nothing else enters here either. Convolutions whose groups have fewer
// than 16 outputs each (for the gradient of the input: channels), and the gradients of the weights
// of groups, have the bits of below level amx.
//
// [note: bfloat16 in layers] What a layer does beside the products above. The output of a
// convolution is one sum over channels, each with its taps row by row (depth first), padding as
// zeros. The gradient of a plane's input is one over taps, then output channels; with a weight that
// is not finite, or strides above one over at most four input channels, it is float32 sums tap by
// tap. That of a volume's input is a mirrored convolution for stride one, else such float32 sums.
// The gradient of the weight is one sum over places, image by image, a zero behind an odd number,
// over as many images as have 2 MiB (at least one); in groups each image is a sum of its own. Batch
// norm and pooling compute in float32. Recurrent layers keep gates and cells in float32 and round h
// at every step. Attention splits a probability into its rounded value and the remainder, and adds
// the two sums at the end; backward rounds probabilities and gradients of logits, and those of keys
// and values are float32 sums over tiles of 64 queries. linear_cross_entropy rounds the gradients
// of logits once, and sums those of rows and weight in float32 over all chunks.
#include <cstdint>

#include <hero/core/cpu/products/half_sums.h>
#include <hero/core/kernels/half.h>

namespace hero::core::cpu {

/// Elements of k after which a chain ends.
inline constexpr int64_t kBf16Chain = 512;

/// A matrix whose element (i, j) lies at i * rs + j * cs; any strides do.
struct Bf16Matrix {
  const BFloat16* data;
  int64_t rs, cs;
};

/// The first operand of a product if it is no matrix in memory: its rows are copied.
class Bf16Rows {
 public:
  /// Elements [first, first + length) of k of rows [row, row + count), row i from to + i *
  /// row_words on; `first` and `length` are even. 16 words behind the last row may be overwritten.
  virtual void copy(int64_t row, int64_t count, int64_t first, int64_t length, uint32_t* to,
                    int64_t row_words) const = 0;

 protected:
  ~Bf16Rows() = default;
};

/// The second operand if it is no matrix in memory.
class Bf16Columns {
 public:
  /// Elements [first, first + length) of k of columns [column, column + count), as
  /// bf16::pack_columns() leaves them; `first` is even.
  virtual void pack(int64_t column, int64_t count, int64_t first, int64_t length,
                    uint32_t* to) const = 0;

 protected:
  ~Bf16Columns() = default;
};

namespace bf16 {
struct TileKernel;
}
/// Passes the sums of A [m, k] B [k, n] to `to`, computed by a kernel whose instructions the
/// processor has.
void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const Bf16Matrix& b, const HalfSums& to);

/// \name The same bits for operands that are no matrices in memory. Columns whose rows are a matrix
/// are packed once for every 512 or fewer rows, and never all of them at a time. Rows that are
/// copied have an even k.
/// \{
void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const Bf16Columns& b, const HalfSums& to);
void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Rows& a,
               const Bf16Columns& b, const HalfSums& to);
/// \}

/// \name The same bits where B [k, n] is packed once for many products: room for so many words,
/// what fills them, and the product.
/// \{
int64_t packed_bf16_words(int64_t n, int64_t k);
void pack_bf16(int64_t n, int64_t k, const Bf16Matrix& b, uint32_t* to);
void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const uint32_t* packed_b, const HalfSums& to);
/// \}

/// By that of level(). Needs native_half_products(). Scratch is about 1
/// MiB a thread, and a copy of B where it is read often.
void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               const HalfSums& to);

/// The sums as float32: C [m, n] = or += A B.
void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b, float* c,
               int64_t c_rs, bool add);
/// The sums rounded: C [m, n] = A B.
void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               BFloat16* c, int64_t c_rs);
/// The sums of a B that pack_bf16() has packed.
void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      const HalfSums& to);

}  // namespace hero::core::cpu
