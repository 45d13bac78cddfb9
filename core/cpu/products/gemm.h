#pragma once
// Matrix products of float and double. [note: the bits of a product]
// Every element of C is one chain of fused multiply-adds in the order of k, begun again from zero
// every kDepth or fewer steps (a length that follows from k alone) and the partial results added in
// order. Nothing else enters into the bits: not the number of threads, not how C is cut into tiles,
// not the layout of the operands, not the other rows and columns, and not the width of the
// machine's vectors. Machines without fused multiply-add round twice a step.
#include <cstdint>

#include <hero/core/cpu/products/half_sums.h>

namespace hero::core::cpu {

/// C [m, n] = A [m, k] B [k, n] for T float or double. Element (i, j) of an operand lies at i * rs
/// + j * cs; C has unit column stride. Any strides do, zero and negative ones too; with neither
/// stride one a panel at a time is copied. C must not overlap A or B. k = 0 gives zeros. Scratch is
/// at most 1.3 MiB a thread for float, 2.6 MiB for double.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b,
          int64_t b_rs, int64_t b_cs, T* c, int64_t c_rs);

/// C += factor A B: each block of k is added to C in order, so that the bits of the sum depend on
/// C, A and B alone.
template <class T>
void gemm_add(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b,
              int64_t b_rs, int64_t b_cs, T* c, int64_t c_rs, T factor = T(1));

/// `batch` products, operand x of the p-th at x + p * x_bs (zero repeats the same one); the batch
/// is shared among the threads when it is large enough, else each product is. The bits are those of
/// gemm.
template <class T>
void gemm_batched(int64_t batch, int64_t m, int64_t n, int64_t k, const T* a, int64_t a_bs,
                  int64_t a_rs, int64_t a_cs, const T* b, int64_t b_bs, int64_t b_rs, int64_t b_cs,
                  T* c, int64_t c_bs, int64_t c_rs);

/// \name Products with one B: packed once, it is read in the order of the kernel. The bits are
/// gemm's.
/// \{
/// Elements that B [k, n] takes when packed.
template <class T>
int64_t packed_size(int64_t k, int64_t n);
template <class T>
void gemm_pack(int64_t k, int64_t n, const T* b, int64_t b_rs, int64_t b_cs, T* packed);
template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs,
                 const T* packed, T* c, int64_t c_rs);
/// \}

/// \name Halves
/// Products of H, BFloat16 or Float16: their elements become float as they are packed, and `to`
/// takes the sums, which have the bits of gemm<float>. A packed B is float.
/// \{
template <class H>
void gemm_halves(int64_t m, int64_t n, int64_t k, const H* a, int64_t a_rs, int64_t a_cs,
                 const H* b, int64_t b_rs, int64_t b_cs, const HalfSums& to);
template <class H>
void gemm_pack_halves(int64_t k, int64_t n, const H* b, int64_t b_rs, int64_t b_cs, float* packed);
template <class H>
void gemm_packed_halves(int64_t m, int64_t n, int64_t k, const H* a, int64_t a_rs, int64_t a_cs,
                        const float* packed, const HalfSums& to);
/// \}

}  // namespace hero::core::cpu
