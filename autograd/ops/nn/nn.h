#pragma once
// Operations of networks, as functions without state, like PyTorch's torch.nn.functional: linear
// maps, activations, softmax, normalisation, attention, recurrence, dropout, embeddings. Losses are
// in losses.h, convolutions in conv.h, pooling in pool.h. Gradients at kinks: that of relu is 0 at
// 0.
#include <optional>

#include <hero/autograd/ops/elementwise/elementwise.h>

namespace hero {

/// \name Activations
/// They compute each element by itself, so the result has x's shape; glu() halves dim. sigmoid(),
/// tanh() and relu() are in elementwise.h.
/// \{
Tensor logsigmoid(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor mish(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1.0);
/// The exact GELU, or its approximation by tanh.
enum class Gelu { erf, tanh };
/// x Phi(x), with the normal distribution function Phi, exact or approximated by tanh. Hendrycks
/// and Gimpel, arXiv 1606.08415.
Tensor gelu(const Tensor& x, Gelu approximate = Gelu::erf);
/// log(1 + exp(beta x)) / beta; x itself if beta x > threshold.
Tensor softplus(const Tensor& x, double beta = 1.0, double threshold = 20.0);
/// elu() with fixed constants, scaled. Klambauer et al., arXiv 1706.02515.
Tensor selu(const Tensor& x);
/// x if it is positive, else alpha (exp(x / alpha) - 1).
Tensor celu(const Tensor& x, double alpha = 1.0);
/// relu6(x + 3) / 6
Tensor hardsigmoid(const Tensor& x);
/// x clamped to [min_val, max_val]; on the bounds the gradient is 0.
Tensor hardtanh(const Tensor& x, double min_val = -1.0, double max_val = 1.0);
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// x moved towards 0 by lambda; 0 within [-lambda, lambda].
Tensor softshrink(const Tensor& x, double lambda = 0.5);
/// 0 within [-lambda, lambda], else x.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// x if it is above the threshold, else value.
Tensor threshold(const Tensor& x, double threshold, double value);
/// x if it is positive, else weight x; weight is [1], or [C] with a number for each channel of
/// dimension 1. He et al., arXiv 1502.01852.
Tensor prelu(const Tensor& x, const Tensor& weight);
/// a sigmoid(b), where a and b are the two halves of x along dim. Dauphin et al., arXiv 1612.08083.
Tensor glu(const Tensor& x, int64_t dim = -1);
/// Randomised leaky_relu(): in training, each element that is not above 0 is multiplied by a number
/// of its own, drawn from [lower, upper); in evaluation, by their mean. Xu et al., arXiv
/// 1505.00853.
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8.0, double upper = 1.0 / 3.0,
             bool training = false);
/// \}

/// \name Linear maps
/// \{
/// x W^T + b, for x [.., in], weight [out, in] and bias [out], which may be undefined; or for
/// weight [in] and bias [], whose result has no dimension of outputs.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// [out], or undefined.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});
/// relu(linear(x, weight, bias)) in one operation, which keeps only its input and output.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// gelu(linear(x, weight, bias)) in one operation.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   Gelu approximate = Gelu::erf);
/// The parameters of a linear layer.
struct LinearWeights {
  Tensor weight;
  Tensor bias = {};
};
/// linear(gelu(linear(x, in..)), out..) in one operation: in backward, a GPU can compute the
/// derivative of gelu together with the product before it.
Tensor linear_gelu_linear(const Tensor& x, const LinearWeights& in, const LinearWeights& out,
                          Gelu approximate = Gelu::erf);
/// \}

/// \name Softmax
/// \{
/// \snippet test_examples_tensors.cpp softmax
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
/// softmax(-x)
Tensor softmin(const Tensor& x, int64_t dim);
/// x is converted first, as PyTorch's `dtype=` does, and the result has that dtype.
Tensor softmax(const Tensor& x, int64_t dim, DType dtype);
Tensor log_softmax(const Tensor& x, int64_t dim, DType dtype);
/// \}

/// \name Normalisation
/// Results have the dtype of x, whatever the dtypes of parameters and statistics are.
/// \{
/// Normalises x to mean 0 and variance 1 over the trailing `normalized_shape`, then applies weight
/// and bias of that shape, which may be undefined. Ba et al., arXiv 1607.06450.
/// \snippet test_examples_tensors.cpp layer_norm
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight, with the mean over the last dimension. When absent, eps is
/// the machine epsilon of the dtype of the computation: 2^-52 for float64, else 2^-23. Zhang and
/// Sennrich, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, std::optional<double> eps = {});
/// What add_layer_norm() and add_rms_norm() return.
struct SumAndNorm {
  Tensor sum;   ///< x + residual
  Tensor norm;  ///< the normalised sum
};
/// Returns {x + residual, layer_norm(x + residual, ...)}, with the same values. If x and residual
/// are contiguous and of the same shape, and of one dtype or of float32 and half precision (a
/// residual under Autocast), it is one operation: one pass over memory in forward, and one in
/// backward, which gives x and residual their common gradient, each in its dtype.
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Does the same with rms_norm().
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                        std::optional<double> eps = {});
/// Normalises each of num_groups groups of channels of each sample of x [N, C, ...], then applies
/// weight [C] and bias [C], which may be undefined. Wu and He, arXiv 1803.08494.
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Options of batch_norm().
struct BatchNormOptions {
  Tensor weight = {};     ///< [C], or undefined
  Tensor bias = {};       ///< [C], or undefined
  bool training = false;  ///< true: use the batch's statistics, and update the running ones
  double momentum = 0.1;  ///< weight of the batch in the running statistics
  double eps = 1e-5;      ///< added to the variance
};
/// Normalises each channel of x [N, C, ...]. In training it uses the batch's mean and variance, and
/// updates running_mean and running_var (which may be undefined) in place, the latter with the
/// unbiased variance; otherwise it uses these two. Ioffe and Szegedy, arXiv 1502.03167.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});
/// Options of instance_norm().
struct InstanceNormOptions {
  Tensor weight = {};  ///< [C]; may be undefined
  Tensor bias = {};    ///< [C]; may be undefined
  /// True: each channel's own statistics normalise it. False: running_mean and running_var do.
  bool use_input_stats = true;
  double momentum = 0.1;  ///< weight of the newest statistics in the running ones
  double eps = 1e-5;      ///< added to the variance
};
/// Normalises each channel of each sample of x [N, C, ..] to mean 0 and variance 1, then applies
/// weight and bias. Ulyanov et al., arXiv 1607.08022. Running statistics [C], which may be
/// undefined, are updated in place with use_input_stats, by the means over the batch of the
/// channels' means and unbiased variances.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const InstanceNormOptions& options = {});
/// x / max(norm(x, p, dim), eps): scales vectors along `dim` to length 1.
Tensor normalize(const Tensor& x, double p = 2.0, int64_t dim = 1, double eps = 1e-12);
/// x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta, for x [N, C, ..]; channels
/// before the first and after the last one count as zeros. Krizhevsky et al., NIPS 2012.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1.0);
/// \}

namespace detail {
/// rms_norm() over the trailing `normalized_shape`.
Tensor rms_norm_over(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                     std::optional<double> eps);
}  // namespace detail
/// Does what rms_norm(x, weight, eps) does, with the mean over the trailing `normalized_shape`,
/// which is that of weight, too. It is a template, so that {} still means no weight.
template <std::same_as<Shape> S = Shape>
Tensor rms_norm(const Tensor& x, const S& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {}) {
  return detail::rms_norm_over(x, normalized_shape, weight, eps);
}

/// \name Attention and recurrence
/// \{
/// Options of scaled_dot_product_attention().
struct AttentionOptions {
  Tensor mask = {};                  ///< bool, where true means attend; broadcasts to [.., T, S]
  Tensor bias = {};                  ///< added to the scores
  bool is_causal = false;            ///< true: query t sees keys 0 to first_query + t
  std::optional<double> scale = {};  ///< factor of the scores; 1 / sqrt(D) when absent
  double dropout_p = 0.0;            ///< rate of dropout on the weights; use 0 outside of training
  bool enable_gqa = false;  ///< true: q [B, H, T, D] with k, v [B, G, S, ..], where G divides H
  int64_t first_query = 0;  ///< the first query's position among the keys, for is_causal
};
/// softmax(q k^T scale + bias) v, for q [.., T, D], k [.., S, D] and v [.., S, E]. If mask, causal
/// order and bias (-inf) leave no key to a query, its result is 0, with finite gradients. With
/// enable_gqa, H / G neighbouring heads of q share a head of k and v. Vaswani et al., arXiv
/// 1706.03762.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});
/// The activation of a plain recurrent network.
enum class Nonlinearity { tanh, relu };
/// The parameters of a recurrent cell with G gates.
struct CellWeights {
  /// The weights w_ih [G H, I], w_hh [G H, H]; biases [G H], which may be undefined.
  Tensor w_ih, w_hh, b_ih, b_hh;
};
Tensor rnn_cell(const Tensor& x, const Tensor& h, const CellWeights& weights,
                Nonlinearity nonlinearity = Nonlinearity::tanh);
/// The state of an LSTM.
struct LstmState {
  Tensor h, c;  ///< each [N, H]
};
/// One step of an LSTM, for x [N, I]; the rows of the weights are those of the gates i, f, g, o.
/// Hochreiter and Schmidhuber, Neural Computation 9(8), 1997.
LstmState lstm_cell(const Tensor& x, const LstmState& state, const CellWeights& weights);
/// One step of a GRU, for x [N, I]; the rows of the weights are those of the gates r, z, n. Cho et
/// al., arXiv 1406.1078.
Tensor gru_cell(const Tensor& x, const Tensor& h, const CellWeights& weights);
/// Whether a recurrent layer begins with the first or the last step.
enum class TimeOrder { forward, reverse };
/// What rnn() and gru() return.
struct RnnOutput {
  Tensor output;  ///< [T, N, H]: the state after every step
  Tensor h;       ///< the state after the last step, [N, H]
};
/// What lstm() returns.
struct LstmOutput {
  Tensor output, h, c;  ///< [T, N, H], and the state after the last step, each [N, H]
};
/// A layer in one direction over whole sequences x [T, N, I], from the state h (and c) [N, H].
/// TimeOrder::reverse begins with the last step; outputs keep the order of x. In half precision
/// (also under Autocast) each h is rounded, and sums are float32, as are gates and c on the CPU.
RnnOutput rnn(const Tensor& x, const Tensor& h, const CellWeights& weights,
              Nonlinearity nonlinearity = Nonlinearity::tanh, TimeOrder order = TimeOrder::forward);
LstmOutput lstm(const Tensor& x, const LstmState& state, const CellWeights& weights,
                TimeOrder order = TimeOrder::forward);
RnnOutput gru(const Tensor& x, const Tensor& h, const CellWeights& weights,
              TimeOrder order = TimeOrder::forward);
/// \}

/// \name Dropout
/// \{
/// Zeroes elements with probability p, scales the rest by 1 / (1 - p); returns x unless training.
/// Within a module under DDP, ZeRO or fully_shard(), each rank gets its rows of the mask that one
/// process with the batches of all ranks would get (batch_part()).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
/// Does the same with whole channels of x [N, C, L] or [C, L]. Tompson et al., arXiv 1411.4280.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
/// Does the same with whole channels of x [N, C, ...] or [C, H, W].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// Dropout that keeps mean 0 and variance 1 after selu(): dropped elements become -1.758, and all
/// are then scaled and shifted. Klambauer et al., arXiv 1706.02515.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// alpha_dropout() of whole channels of x [N, C, ..].
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// Dropout of whole channels of x [N, C, D, H, W] or [C, D, H, W].
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);
/// \}

/// \name Embeddings
/// \{
/// The rows of weight [V, D] at each index; the gradient of row padding_idx is zero. With
/// scale_grad_by_freq the gradient of a row is divided by the number of times that it occurs.
/// \snippet test_examples_tensors.cpp embedding
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<int64_t> padding_idx = {},
                 bool scale_grad_by_freq = false);
/// How embedding_bag() combines the rows of a bag.
enum class BagMode { sum, mean, max };
/// Options of embedding_bag().
struct EmbeddingBagOptions {
  Tensor offsets = {};               ///< int64 [B]: where each bag begins in an index [N]
  BagMode mode = BagMode::mean;      ///< how the rows of a bag are combined
  Tensor per_sample_weights = {};    ///< factors of the rows, in the shape of index; for sums only
  bool include_last_offset = false;  ///< true: the last offset is the end of the last bag
  std::optional<int64_t> padding_idx = {};  ///< rows that do not count
  /// Divide the gradient of a row by the number of times that it occurs; not for maxima.
  bool scale_grad_by_freq = false;
};
/// Combines rows of weight [V, D] over bags to [B, D]. A bag is a row of index [B, N], or the part
/// of index [N] from one offset to the next. Empty bags give 0.
Tensor embedding_bag(const Tensor& weight, const Tensor& index,
                     const EmbeddingBagOptions& options = {});
/// \}

}  // namespace hero
