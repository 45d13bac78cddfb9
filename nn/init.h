#pragma once
// Initialisers of parameters. Every element depends only on the stream and its index in the whole
// array, so that a shard which is filled by itself has the bits of the whole. Names, formulas and
// defaults are those of torch.nn.init.
#include <functional>
#include <vector>

#include <hero/autograd/sharding/layout.h>
#include <hero/autograd/tensor.h>
#include <hero/core/random.h>

namespace hero::nn {

/// An initialiser: how a parameter gets its first values.
struct Init {
  /// Fills `part`, which is contiguous and of floating dtype (of any dtype for constants), with the
  /// elements first, first + 1, ... of a row-major array of shape `whole`.
  using Fill = std::function<void(const Array& part, const Shape& whole, int64_t first,
                                  RandomStream stream)>;
  Fill fill;  ///< the function that fills
};

/// Fills `part` with the elements from first to first + part.numel() - 1 of an array of shape
/// `whole`, initialised by `init`. `part` must be contiguous; on meta nothing happens.
void fill_part(const Init& init, const Array& part, const Shape& whole, int64_t first,
               RandomStream stream);
/// Does the same with elements of boxes of that array, in the order of the boxes
/// (Partition::boxes), or of the whole array if there are no boxes. Every contiguous run is filled
/// by a call of its own; initialisers that have to compute the whole array (orthogonal, sparse) do
/// so in each call.
void fill_part(const Init& init, const Array& part, const Shape& whole,
               const std::vector<Box>& boxes, int64_t first, RandomStream stream);

namespace init {

/// \name Initialisers
/// \{
/// Every element is `value`.
Init constant(double value);
/// Every element is 0.
Init zeros();
/// Every element is 1.
Init ones();
/// Uniform in [low, high).
Init uniform(double low = 0.0, double high = 1.0);
/// Normal with this mean and standard deviation.
Init normal(double mean = 0.0, double stddev = 1.0);
/// Normal, restricted to [low, high], by the inverse of the distribution function.
Init trunc_normal(double mean = 0.0, double stddev = 1.0, double low = -2.0, double high = 2.0);
/// Uniform within +-gain sqrt(6 / (fan_in + fan_out)). Glorot and Bengio, "Understanding the
/// difficulty of training deep feedforward neural networks", 2010.
Init xavier_uniform(double gain = 1.0);
/// Normal with mean 0 and standard deviation gain sqrt(2 / (fan_in + fan_out)).
Init xavier_normal(double gain = 1.0);

/// Whether an initialiser keeps the variance of outputs (fan_in) or of gradients (fan_out).
enum class FanMode { fan_in, fan_out };
/// The nonlinearity that follows a layer, for which a gain is recommended.
enum class GainOf { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// Options of kaiming_uniform() and kaiming_normal().
struct KaimingOptions {
  double a = 0.0;                            ///< negative slope of leaky_relu
  FanMode mode = FanMode::fan_in;            ///< which of the two fans counts
  GainOf nonlinearity = GainOf::leaky_relu;  ///< what gives the gain, see calculate_gain()
};
/// Uniform within +-gain sqrt(3 / fan). He et al., arXiv 1502.01852.
Init kaiming_uniform(const KaimingOptions& options = {});
/// Normal with mean 0 and standard deviation gain / sqrt(fan). He et al., arXiv 1502.01852.
Init kaiming_normal(const KaimingOptions& options = {});
/// Uniform within +-1 / sqrt(fan_in), for a layer of the given fan: PyTorch's default for biases.
Init uniform_fan(int64_t fan_in);
/// A matrix with orthonormal rows (or columns, if there are fewer), times gain; all dimensions
/// after the first count as one. Saxe et al., arXiv 1312.6120.
Init orthogonal(double gain = 1.0);
/// The identity matrix.
Init eye();
/// The identity as a convolution [O, C / groups, K...]: a 1 from channel i to channel i at the
/// middle tap.
Init dirac(int64_t groups = 1);
/// Normal with mean 0 and standard deviation stddev, with ceil(sparsity * rows) zeros in each
/// column of a matrix. Martens, "Deep learning via Hessian-free optimization", 2010.
Init sparse(double sparsity, double stddev = 0.01);
/// \}

/// The gain that PyTorch recommends for a nonlinearity; `param` is the negative slope of
/// leaky_relu.
double calculate_gain(GainOf nonlinearity, double param = 0.01);

/// How many inputs and outputs each element of a layer has.
struct Fans {
  int64_t in, out;  ///< numbers of inputs and of outputs
};
/// The fans of a weight of shape [out, in, receptive field...]: in and out, each times the size of
/// the receptive field. Throws an Error unless there are two dimensions or more.
Fans calculate_fans(const Shape& shape);

/// \name In place, drawn from this thread's generator
/// \{
/// Fills a tensor by an initialiser, which is not recorded for backward, and returns it.
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
