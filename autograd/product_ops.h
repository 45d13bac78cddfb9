#pragma once
// Products beyond those of ops.h: with a summand, over any dimensions, of Kronecker and of vectors
// in space; distances, powers and exponentials of matrices.
#include <hero/autograd/ops.h>

namespace hero {

/// \name Products with a summand: beta * input + alpha * product
/// With beta = 0 the input's values do not count, NaN included. Halves are rounded once.
/// \{
struct AddProduct {
  Scalar beta = 1;
  Scalar alpha = 1;
};
/// input [M, N] (broadcast) and a [M, K] b [K, N].
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const AddProduct& options = {});
/// input [M] and a [M, K] v [K].
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& v, const AddProduct& options = {});
/// input [M, N] and the outer product of u [M] and v [N].
Tensor addr(const Tensor& input, const Tensor& u, const Tensor& v, const AddProduct& options = {});
/// input [B, M, N] and a [B, M, K] b [B, K, N].
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b,
               const AddProduct& options = {});
/// input [M, N] and the sum over the batch of a [B, M, K] b [B, K, N].
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b,
              const AddProduct& options = {});
/// \}

/// \name Products over other dimensions
/// \{
/// [M, K] x [K]
Tensor mv(const Tensor& a, const Tensor& v);
/// Sums over the last dimension of both; the product where one is a number.
Tensor inner(const Tensor& a, const Tensor& b);
/// dot() by its other name: there are no complex numbers.
Tensor vdot(const Tensor& a, const Tensor& b);
/// Sums over dimensions of one and dimensions of the other of the same sizes, in their order.
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b);
/// Over the last `dims` dimensions of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims = 2);
/// Kronecker's product: each element of a times b, in its place.
Tensor kron(const Tensor& a, const Tensor& b);
/// Of vectors of three elements along `dim`.
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1);
/// The product of matrices (the first and the last may be vectors), in the order that takes the
/// fewest multiplications. Cormen et al., Introduction to Algorithms, 14.2.
Tensor multi_dot(const std::vector<Tensor>& matrices);
/// \}

/// \name Of matrices
/// \{
/// |a_i - b_j|_p of rows a [.., P, D] and b [.., R, D], as [.., P, R]; 0 has the gradient 0. For p
/// = 2 and more than 25 rows it comes from a matrix product, as in PyTorch.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2.0);
/// a [.., N, N] to the n-th power; the inverse's where n is negative.
Tensor matrix_power(const Tensor& a, int64_t n);
/// The sum of a^k / k!, of [.., N, N]: 16 terms of the matrix scaled below 1/2, squared back.
Tensor matrix_exp(const Tensor& a);
/// \}

}  // namespace hero
