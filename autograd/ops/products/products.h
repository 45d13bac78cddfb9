#pragma once
// Products of vectors and matrices: matmul() and the like, einsum(), products that are added to a
// tensor, products over any dimensions, the Kronecker and the cross product; distances, powers and
// exponentials of matrices.
#include <string>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name Products
/// \{
/// The product of matrices [.., M, K] and [.., K, N], or of vectors; leading dimensions are
/// batches, which broadcast.
/// \snippet test_examples_tensors.cpp matmul
Tensor matmul(const Tensor& a, const Tensor& b);
/// The product of matrices [M, K] and [K, N].
Tensor mm(const Tensor& a, const Tensor& b);
/// The products of batches of matrices [B, M, K] and [B, K, N].
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
/// Einstein summation, with "..." and implicit output as in NumPy.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
/// \}

/// \name Products that are added: beta * input + alpha * product
/// With beta = 0 the values of input have no effect, not even NaN. Half precision is rounded only
/// once.
/// \{
/// Factors of addmm() and its like.
struct AddProduct {
  Scalar beta = 1;   ///< factor of the input
  Scalar alpha = 1;  ///< factor of the product
};
/// The product of a [M, K] and b [K, N], added to `input`, which broadcasts to [M, N].
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const AddProduct& options = {});
/// The product of a [M, K] and v [K], added to input [M].
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& v, const AddProduct& options = {});
/// The outer product of u [M] and v [N], added to input [M, N].
Tensor addr(const Tensor& input, const Tensor& u, const Tensor& v, const AddProduct& options = {});
/// The products of a [B, M, K] and b [B, K, N], added to input [B, M, N].
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b,
               const AddProduct& options = {});
/// The sum over the batch of the products of a [B, M, K] and b [B, K, N], added to input [M, N].
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b,
              const AddProduct& options = {});
/// \}

/// \name Products over other dimensions
/// \{
/// The product of a matrix [M, K] and a vector [K].
Tensor mv(const Tensor& a, const Tensor& v);
/// Sums of products over the last dimension of both; the product if one has no dimensions.
Tensor inner(const Tensor& a, const Tensor& b);
/// Another name of dot(), as there are no complex numbers.
Tensor vdot(const Tensor& a, const Tensor& b);
/// Sums of products along dim of a and b, which broadcast.
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim = -1);
/// Sums of products over dims_a of a and dims_b of b, which have the same sizes in this order; a
/// size of 1 repeats. The result has the other dimensions of a, then those of b. Both have one
/// floating dtype, as for matmul(). Throws an Error for sizes that differ and for lists of
/// different lengths.
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b);
/// Does the same over the last `dims` dimensions of a and the first `dims` of b; for 0 it is the
/// product of each element with each.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims = 2);
/// The Kronecker product: each element of a is replaced by itself times b.
Tensor kron(const Tensor& a, const Tensor& b);
/// The cross product of vectors of three elements along `dim`; without it along the first dimension
/// of a that has three.
Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim = {});
/// The product of matrices (the first and the last may be vectors), in the order that takes the
/// fewest multiplications. Cormen et al., Introduction to Algorithms, 14.2.
Tensor multi_dot(const std::vector<Tensor>& matrices);
/// \}

/// \name Functions of matrices
/// \{
/// The distances |a_i - b_j|_p of rows a [.., P, D] and b [.., R, D], as [.., P, R]; a distance of
/// 0 has the gradient 0. If p = 2 and there are more than 25 rows, it is computed by a matrix
/// product, as in PyTorch.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2.0);
/// The distances of all pairs of rows of x [N, D], which are the elements above the diagonal of
/// cdist(x, x, p), row by row, as [N (N - 1) / 2]; computed from differences for every p.
Tensor pdist(const Tensor& x, double p = 2.0);
/// A copy of x in which each slice along `dim` whose p-norm is above maxnorm is scaled to that
/// norm.
Tensor renorm(const Tensor& x, double p, int64_t dim, double maxnorm);
/// The n-th power of a [.., N, N]; if n is negative, the power of the inverse.
Tensor matrix_power(const Tensor& a, int64_t n);
/// The matrix exponential, the sum of a^k / k!, of a [.., N, N]: 16 terms for the matrix scaled to
/// a norm below 1/2, which is then squared repeatedly.
Tensor matrix_exp(const Tensor& a);
/// \}

/// \name Second names, as PyTorch has them
/// \{
inline Tensor ger(const Tensor& a, const Tensor& b) { return outer(a, b); }
inline Tensor chain_matmul(const std::vector<Tensor>& matrices) { return multi_dot(matrices); }
/// \}

}  // namespace hero
