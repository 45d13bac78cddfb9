#pragma once
// Products with matrices whose numbers are quantised in blocks and stay so in memory.
#include <cstdint>
#include <span>
#include <string_view>

#include <hero/core/array.h>

namespace hero::core {

namespace gguf {
struct BlockType;
}

/// A matrix [rows, columns] in the blocks of a type of GGUF files, in cpu memory. Its numbers are
/// those that GGUFReader::load() reads from such blocks as float32. The types are Q8_0, Q4_0, Q4_1,
/// Q5_0, Q5_1 (blocks of 32 numbers of a row) and Q4_K, Q5_K, Q6_K (of 256).
class QuantizedMatrix {
 public:
  /// Takes blocks as they lie in a file: uint8 [rows, bytes of a row], which are not copied. Throws
  /// an Error if there is no such type, or if a row is not a whole number of blocks.
  QuantizedMatrix(std::string_view type, const Array& blocks);
  /// Quantises the floating matrix x [rows, columns] to Q8_0, Q4_0 or Q4_1. A block's scale (and,
  /// for Q4_1, its least number) is rounded to float16, and each number then to the nearest one
  /// that the block can hold. Throws an Error unless a row is a whole number of blocks and all
  /// numbers are finite and not too large for the scales.
  static QuantizedMatrix from(const Array& x, std::string_view type);

  /// The type, such as "Q4_1".
  const char* type() const;
  /// The blocks, uint8 [rows, bytes of a row].
  const Array& blocks() const { return blocks_; }
  /// The number of rows.
  int64_t rows() const { return blocks_.size(0); }
  /// The number of columns.
  int64_t columns() const;

  /// All numbers, each rounded once to the floating dtype: [rows, columns].
  Array values(DType dtype = kFloat32) const;
  /// The values of the rows with these numbers: [numbers.size(), columns]. Throws an Error for a
  /// number outside [0, rows()).
  Array values_of(std::span<const int64_t> numbers, DType dtype = kFloat32) const;

 private:
  friend Array quantized_product(const Array& x, const QuantizedMatrix& w);
  const gguf::BlockType* type_;
  Array blocks_;
};

/// y [.., n] = x [.., k] w^T, in x's dtype, which is float32, float16 or bfloat16. Only the blocks
/// of w are read from memory. Throws an Error unless x lies on the cpu and has w's columns.
///
/// Each element of y is the sum of sixteen partial sums in float32. Partial sum l begins at 0 and
/// adds the products x[p] w[p] for p = l, l + 16, l + 32, .., by fused multiply-add where the
/// machine has it (AVX2 and 64-bit ARM do). Then partial sum l + 8 is added to partial sum l for l
/// below 8, l + 4 to l for l below 4, and so on with 2 and 1; the first one is rounded to the
/// dtype. So a row of y has the same bits for any number of rows and of threads, and on any machine
/// that has fused multiply-add.
Array quantized_product(const Array& x, const QuantizedMatrix& w);

}  // namespace hero::core
