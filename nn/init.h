#pragma once
// Initialisers: recipes for first values. Every element depends on the stream and its index in the
// whole array alone, so that a shard filled by itself has the bits of the whole. Names, formulas
// and defaults are those of torch.nn.init.
#include <functional>
#include <vector>

#include <hero/autograd/layout.h>
#include <hero/autograd/tensor.h>
#include <hero/core/random.h>

namespace hero::nn {

/// How a parameter gets its first values.
struct Init {
  /// Fills `part`, contiguous and of floating dtype (constants: any), with elements first,
  /// first + 1, ... of a row-major array of shape `whole`.
  using Fill =
      std::function<void(const Array& part, const Shape& whole, int64_t first, Stream stream)>;
  Fill fill;
};

/// Elements first ... first + part.numel() - 1 of the recipe's array of shape `whole`; the whole
/// array when first is 0 and part has that shape. `part` must be contiguous; on meta nothing
/// happens.
void fill_part(const Init& init, const Array& part, const Shape& whole, int64_t first,
               Stream stream);
/// The same of elements first ... of boxes of the recipe's array, laid one behind the other
/// (Partition::boxes); without boxes, of the array. The recipe is asked for one contiguous run
/// after the other: those that are computed whole and cut (orthogonal, sparse) are computed for
/// each.
void fill_part(const Init& init, const Array& part, const Shape& whole,
               const std::vector<Box>& boxes, int64_t first, Stream stream);

namespace init {

/// \name Recipes
/// \{
Init constant(double value);
Init zeros();
Init ones();
/// Uniform in [low, high).
Init uniform(double low = 0.0, double high = 1.0);
Init normal(double mean = 0.0, double stddev = 1.0);
/// Normal, cut to [low, high] by the inverse of its distribution function.
Init trunc_normal(double mean = 0.0, double stddev = 1.0, double low = -2.0, double high = 2.0);
/// Uniform in +-gain sqrt(6 / (fan_in + fan_out)). Glorot and Bengio 2010.
Init xavier_uniform(double gain = 1.0);
/// Normal of deviation gain sqrt(2 / (fan_in + fan_out)).
Init xavier_normal(double gain = 1.0);

enum class FanMode { fan_in, fan_out };
enum class GainOf { linear, sigmoid, tanh, relu, leaky_relu, selu };
struct KaimingOptions {
  double a = 0.0;  ///< negative slope, for leaky_relu
  FanMode mode = FanMode::fan_in;
  GainOf nonlinearity = GainOf::leaky_relu;
};
/// Uniform in +-gain sqrt(3 / fan). He et al., arXiv 1502.01852.
Init kaiming_uniform(const KaimingOptions& options = {});
/// Normal of deviation gain / sqrt(fan).
Init kaiming_normal(const KaimingOptions& options = {});
/// Uniform in +-1 / sqrt(fan_in) of a layer whose fan is given: PyTorch's default for biases.
Init uniform_fan(int64_t fan_in);
/// Rows (or columns, where there are fewer) orthonormal, times gain; dimensions after the first are
/// one. Saxe et al., arXiv 1312.6120.
Init orthogonal(double gain = 1.0);
/// The identity of a matrix.
Init eye();
/// The identity of a convolution [O, C / groups, K...]: channel i to channel i at the middle.
Init dirac(int64_t groups = 1);
/// Normal(0, stddev) with ceil(sparsity * rows) zeros in each column of a matrix. Martens 2010.
Init sparse(double sparsity, double stddev = 0.01);
/// \}

/// PyTorch's recommended gain; `param` is leaky_relu's negative slope.
double calculate_gain(GainOf nonlinearity, double param = 0.01);

struct Fans {
  int64_t in, out;
};
/// Inputs and outputs of one element's products: [out, in, receptive field...]; needs two
/// dimensions or more.
Fans calculate_fans(const Shape& shape);

/// \name In place, drawn from this thread's generator
/// \{
/// Fills a tensor by a recipe, without recording; returns it.
const Tensor& fill_(const Tensor& x, const Init& recipe);
inline const Tensor& constant_(const Tensor& x, double value) { return fill_(x, constant(value)); }
inline const Tensor& zeros_(const Tensor& x) { return fill_(x, zeros()); }
inline const Tensor& ones_(const Tensor& x) { return fill_(x, ones()); }
inline const Tensor& uniform_(const Tensor& x, double low = 0.0, double high = 1.0) {
  return fill_(x, uniform(low, high));
}
inline const Tensor& normal_(const Tensor& x, double mean = 0.0, double stddev = 1.0) {
  return fill_(x, normal(mean, stddev));
}
inline const Tensor& trunc_normal_(const Tensor& x, double mean = 0.0, double stddev = 1.0,
                                   double low = -2.0, double high = 2.0) {
  return fill_(x, trunc_normal(mean, stddev, low, high));
}
inline const Tensor& xavier_uniform_(const Tensor& x, double gain = 1.0) {
  return fill_(x, xavier_uniform(gain));
}
inline const Tensor& xavier_normal_(const Tensor& x, double gain = 1.0) {
  return fill_(x, xavier_normal(gain));
}
inline const Tensor& kaiming_uniform_(const Tensor& x, const KaimingOptions& options = {}) {
  return fill_(x, kaiming_uniform(options));
}
inline const Tensor& kaiming_normal_(const Tensor& x, const KaimingOptions& options = {}) {
  return fill_(x, kaiming_normal(options));
}
inline const Tensor& orthogonal_(const Tensor& x, double gain = 1.0) {
  return fill_(x, orthogonal(gain));
}
inline const Tensor& eye_(const Tensor& x) { return fill_(x, eye()); }
inline const Tensor& dirac_(const Tensor& x, int64_t groups = 1) { return fill_(x, dirac(groups)); }
inline const Tensor& sparse_(const Tensor& x, double sparsity, double stddev = 0.01) {
  return fill_(x, sparse(sparsity, stddev));
}
/// \}

}  // namespace init

}  // namespace hero::nn
