#pragma once
// Differentiable operations of networks, as functions without state, like PyTorch's
// torch.nn.functional.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/windows/window_sizes.h>

namespace hero {

/// \snippet test_examples_tensors.cpp softmax
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
/// [out], or undefined.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});
/// softmax(-x)
Tensor softmin(const Tensor& x, int64_t dim);

/// \name Activations, beside those in <hero/autograd/ops.h>
/// They compute each element by itself, so the result has x's shape; glu() halves dim.
/// \{
/// elu() with fixed constants, scaled. Klambauer et al., arXiv 1706.02515.
Tensor selu(const Tensor& x);
/// x if it is positive, else alpha (exp(x / alpha) - 1).
Tensor celu(const Tensor& x, double alpha = 1.0);
/// relu6(x + 3) / 6
Tensor hardsigmoid(const Tensor& x);
/// x clamped to [min_val, max_val]; on the bounds the gradient is 0, other than that of clamp().
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
/// \}

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

/// \name Normalisation
/// Results have the dtype of x, whatever the dtypes of parameters and statistics are.
/// \{
/// Normalises x to mean 0 and variance 1 over the trailing `normalized_shape`, then applies weight
/// and bias of that shape, which may be undefined. Ba et al., arXiv 1607.06450.
/// \snippet test_examples_tensors.cpp layer_norm
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight, with the mean over the last dimension. When absent, eps is
/// the machine epsilon of the dtype that is computed in: 2^-52 for float64, else 2^-23. Zhang and
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
/// \}

/// \name Convolution (cross-correlation) and pooling
/// \{
/// Options of conv1d().
struct Conv1dOptions {
  int64_t stride = 1;    ///< positions from one window to the next
  int64_t padding = 0;   ///< zeros on each side
  int64_t dilation = 1;  ///< positions from one tap to the next
  int64_t groups = 1;    ///< groups of channels that are convolved separately
};
/// Convolution of x [N, C, L] with weight [O, C / groups, K] and bias [O], which may be undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
/// Options of conv2d().
struct Conv2dOptions {
  Pair stride = {1, 1};    ///< positions from one window to the next
  Pair padding = {0, 0};   ///< zeros on each side
  Pair dilation = {1, 1};  ///< positions from one tap to the next
  int64_t groups = 1;      ///< groups of channels that are convolved separately
};
/// Convolution of x [N, C, H, W] with weight [O, C / groups, KH, KW] and bias [O], which may be
/// undefined.
/// \snippet test_examples_tensors.cpp conv2d
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});
/// relu(conv2d(x, weight, bias, options)) in one operation, which keeps only its input and output.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const Conv2dOptions& options = {});
/// Options of conv_transpose2d().
struct ConvTranspose2dOptions {
  Pair stride = {1, 1};          ///< positions of the output from one input element to the next
  Pair padding = {0, 0};         ///< elements that are cut off on each side of the output
  Pair output_padding = {0, 0};  ///< elements that the output has more at its end
  Pair dilation = {1, 1};        ///< positions from one tap to the next
  int64_t groups = 1;            ///< groups of channels that are convolved separately
};
/// The transpose of conv2d(), for x [N, C, H, W], weight [C, O / groups, KH, KW] and bias [O].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
/// Options of conv_transpose1d().
struct ConvTranspose1dOptions {
  int64_t stride = 1;          ///< positions of the output from one input element to the next
  int64_t padding = 0;         ///< elements that are cut off on each side of the output
  int64_t output_padding = 0;  ///< elements that the output has more at its end
  int64_t dilation = 1;        ///< positions from one tap to the next
  int64_t groups = 1;          ///< groups of channels that are convolved separately
};
/// The transpose of conv1d(), for x [N, C, L], weight [C, O / groups, K] and bias [O].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
/// Options of max_pool2d() and avg_pool2d().
struct PoolOptions {
  std::optional<Pair> stride = {};  ///< windows' distance; the kernel size when absent
  Pair padding = {0, 0};            ///< elements on each side, which do not count or are 0
  Pair dilation = {1, 1};           ///< for max pooling: distance of a window's elements
  bool ceil_mode = false;           ///< true: keep a last window that extends over the end
  bool count_include_pad = true;    ///< for average pooling: divide by the whole window's size
  /// For average pooling: what sums of windows are divided by, in place of their size.
  std::optional<int64_t> divisor_override = {};
};
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
/// Means of cells: cell i of o covers positions floor(i n / o) to ceil((i + 1) n / o) - 1 of n.
/// Here and in all adaptive pooling, an output size of -1 (PyTorch's None) is that of x.
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);
/// The largest elements in the cells of adaptive_avg_pool2d().
Tensor adaptive_max_pool2d(const Tensor& x, Pair output_size);
/// Options of max_pool1d() and avg_pool1d().
struct Pool1dOptions {
  std::optional<int64_t> stride = {};  ///< windows' distance; the kernel size when absent
  int64_t padding = 0;                 ///< elements on each side, which do not count or are 0
  int64_t dilation = 1;                ///< for max pooling: distance of a window's elements
  bool ceil_mode = false;              ///< true: keep a last window that extends over the end
  bool count_include_pad = true;       ///< for average pooling: divide by the whole window's size
};
/// The largest element in each window of x [N, C, L] or [C, L].
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size);
/// Nearest neighbours: pixel i of o takes the value of pixel floor(i n / o) of n.
Tensor upsample_nearest2d(const Tensor& x, Pair output_size);
/// \}

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
/// TimeOrder::reverse begins with the last step; outputs keep the order of x. Of halves (also under
/// Autocast) each h is rounded, and sums are float32, as are gates and c on the CPU.
RnnOutput rnn(const Tensor& x, const Tensor& h, const CellWeights& weights,
              Nonlinearity nonlinearity = Nonlinearity::tanh, TimeOrder order = TimeOrder::forward);
LstmOutput lstm(const Tensor& x, const LstmState& state, const CellWeights& weights,
                TimeOrder order = TimeOrder::forward);
RnnOutput gru(const Tensor& x, const Tensor& h, const CellWeights& weights,
              TimeOrder order = TimeOrder::forward);
/// Zeroes elements with probability p, scales the rest by 1 / (1 - p); returns x unless training.
/// Within a module under DDP, ZeRO or fully_shard(), each rank gets its rows of the mask that one
/// process with the batches of all ranks would get (batch_part()).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
/// Does the same with whole channels of x [N, C, L] or [C, L]. Tompson et al., arXiv 1411.4280.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
/// Does the same with whole channels of x [N, C, ...] or [C, H, W].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// \}

}  // namespace hero

#include <hero/autograd/norm_overloads.h>
