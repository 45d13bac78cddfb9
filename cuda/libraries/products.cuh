#pragma once
// Products by cuBLASLt. [note: plans]
// What a call needs besides its addresses (descriptors, layouts and the algorithm) is a plan: made
// once for a shape and kept for the life of the process. The library names up to eight algorithms
// for a shape in the order in which it expects them to be quick; the first call measures them and
// keeps the quickest (with an epilogue only if it is no slower than what is done without one), so
// the bits of a product are those of one algorithm for all of a process. A
// call while its stream is captured cannot wait for a clock and keeps the first, and so does every
// call where HERO_CUDA_AUTOTUNE=0, which makes the choice the same in every process.
#include <functional>

#include <hero/cuda/libraries/cublaslt.cuh>

namespace hero::cuda {

/// The function that is applied to a product before it is stored, or computed with it. Addresses
/// are multiples of 16.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  ///< one number a column of out; or (BGRADB), to be written, the
                               ///< sums of a's rows
  const void* aux = nullptr;   ///< the argument of gelu
};

/// The alignment of addresses decides which algorithms there are, and so the last bits. All
/// products have this alignment: a sharded parameter, wherever it is in its unit's flat parameter,
/// has the products of a whole one.
inline constexpr uintptr_t kProductAlignment = 16;
inline bool is_aligned(const Array& x) {
  return reinterpret_cast<uintptr_t>(x.bytes()) % kProductAlignment == 0;
}

/// Whether contiguous rows [M, N] may be Epilogue::aux: N is a multiple of 8.
inline bool can_be_aux(const Array& rows) { return rows.size(1) % 8 == 0 && is_aligned(rows); }

/// What a caller does if it gets no product with its epilogue: it writes the same arrays.
using Otherwise = std::function<void()>;

/// out [B, M, N] = a [B, M, K] b [B, K, N], of one floating dtype, on the current device; nothing
/// is empty and out is contiguous. a and b may have any strides: a matrix that begins at a multiple
/// of 16 bytes and has a unit stride in one of its dimensions is read where it lies, any other is
/// copied; the bits do not depend on where operands lie. False where the library
/// has no algorithm with this epilogue, or `otherwise` is quicker; then outputs hold anything.
/// Without an epilogue that throws.
bool product(const char* op, const Array& a, const Array& b, const Array& out,
             const Epilogue& epilogue = {}, const Otherwise& otherwise = {});

}  // namespace hero::cuda
