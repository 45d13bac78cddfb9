#pragma once
// Differentiable operations of networks, functions without state: PyTorch's torch.nn.functional.
#include <array>

#include <hero/autograd/ops.h>

namespace hero {

/// \snippet test_examples_tensors.cpp softmax
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
/// x1 W_o x2 + b_o: x1 [.., in1], x2 [.., in2], weight [out, in1, in2], bias [out].
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});
/// softmax(-x)
Tensor softmin(const Tensor& x, int64_t dim);

/// \name Activations, beside those in <hero/autograd/ops.h>
/// \{
/// Klambauer et al., arXiv 1706.02515.
Tensor selu(const Tensor& x);
/// x above 0, alpha (exp(x / alpha) - 1) below.
Tensor celu(const Tensor& x, double alpha = 1.0);
/// relu6(x + 3) / 6
Tensor hardsigmoid(const Tensor& x);
/// x cut to [min_val, max_val]; the gradient is 0 on the bounds, unlike clamp's.
Tensor hardtanh(const Tensor& x, double min_val = -1.0, double max_val = 1.0);
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// Moved towards 0 by lambda; 0 within [-lambda, lambda].
Tensor softshrink(const Tensor& x, double lambda = 0.5);
/// 0 within [-lambda, lambda], else x.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// x above the threshold, else value.
Tensor threshold(const Tensor& x, double threshold, double value);
/// x above 0, weight x below; weight [1] or [C], one a channel of dimension 1. He et al., arXiv
/// 1502.01852.
Tensor prelu(const Tensor& x, const Tensor& weight);
/// a sigmoid(b) of the halves a, b of x along dim. Dauphin et al., arXiv 1612.08083.
Tensor glu(const Tensor& x, int64_t dim = -1);
/// \}

/// relu(linear(x, weight, bias)) in one operation that keeps only its input and output.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// gelu(linear(x, weight, bias)) in one operation.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   Gelu approximate = Gelu::erf);
/// What a linear layer computes with: weight [out, in], perhaps bias [out].
struct LinearWeights {
  Tensor weight;
  Tensor bias = {};
};
/// linear(gelu(linear(x, in..)), out..) in one operation: in its backward a GPU can make gelu's
/// derivative with the product before it.
Tensor linear_gelu_linear(const Tensor& x, const LinearWeights& in, const LinearWeights& out,
                          Gelu approximate = Gelu::erf);

/// \name Losses
/// \{
enum class Reduction { none, mean, sum };
struct CrossEntropyOptions {
  Tensor weight = {};  ///< [C]
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};
/// Scores x [N, C, ...], int64 targets [N, ...]; mean divides by the weights of targets not
/// ignored. Targets of x's shape and a floating dtype are class probabilities; mean then divides by
/// the number of rows.
/// \snippet test_examples_tensors.cpp cross_entropy
Tensor cross_entropy(const Tensor& x, const Tensor& target,
                     const CrossEntropyOptions& options = {});
struct LinearCrossEntropyOptions {
  Tensor linear_bias = {};                ///< [C]
  Reduction reduction = Reduction::mean;  ///< mean or sum: the loss of single rows is no help here
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  /// Rows whose scores exist at one time; absent: 2^24 / C on the CPU and 2^30 / C on a GPU, there
  /// in chunks of one length, but at least 1024.
  std::optional<int64_t> batch_chunk_size = {};
};
/// cross_entropy(linear(x, weight, linear_bias), target) of rows x [N, K] or [K] with int64 targets
/// [N] or [], weight [C, K]. The scores [N, C] never exist as a whole: they are made chunk by chunk
/// of rows, and so are, while recording, the gradients of x, weight and bias, in forward already;
/// backward only scales them. The second derivative is that of the two operations.
///
/// A weight that holds boxes of rows of [C, K] (partition.h), as tensor parallelism cuts a
/// vocabulary, gives the scores of these classes: the owners join each row's largest score, its sum
/// of exponentials and its target's score, all three in float32 for halves, and every rank gets the
/// loss over all C. It is a collective of the owners, forward and backward; each box is a slice
/// ([note: slices of a rank] in collectives.h). The exponentials [N, C / owners] stay for backward.
/// Without bias and label smoothing.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options = {});
struct NllOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;
};
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NllOptions& options = {});
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1.0,
                  Reduction reduction = Reduction::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1.0,
                      Reduction reduction = Reduction::mean);
struct BceOptions {
  Tensor weight = {};  ///< broadcasts to x
  Reduction reduction = Reduction::mean;
};
/// Of probabilities x with probabilities y, both in [0, 1]; logarithms are cut at -100.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& y, const BceOptions& options = {});
struct BceWithLogitsOptions {
  Tensor weight = {};      ///< of elements; broadcasts to x
  Tensor pos_weight = {};  ///< of positive answers; broadcasts to x
  Reduction reduction = Reduction::mean;
};
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BceWithLogitsOptions& options = {});
/// Binary cross entropy of logits x with probabilities y.
Tensor bce_with_logits(const Tensor& x, const Tensor& y, const Tensor& pos_weight = {},
                       Reduction reduction = Reduction::mean);
enum class KlReduction { none, mean, sum, batchmean };
/// Pointwise y * (log y - x) for log-probabilities x; log_target: y is given as a logarithm too.
Tensor kl_div(const Tensor& x, const Tensor& y, KlReduction reduction = KlReduction::mean,
              bool log_target = false);
/// x where y is 1, max(0, margin - x) where y is -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin = 1.0,
                            Reduction reduction = Reduction::mean);
/// log(1 + exp(-y x)), y 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// max(0, margin - y (a - b)): a should be above b where y is 1, below where it is -1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin = 0.0,
                           Reduction reduction = Reduction::mean);
/// Rows [N, D] or [D]: 1 - cos where y [N] is 1, max(0, cos - margin) where it is -1.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin = 0.0,
                             Reduction reduction = Reduction::mean);
struct MultiMarginOptions {
  int64_t p = 1;  ///< 1 or 2
  double margin = 1.0;
  Tensor weight = {};  ///< [C]
  Reduction reduction = Reduction::mean;
};
/// Scores x [N, C], classes [N]: sum over wrong classes of max(0, margin - x_right + x)^p / C.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginOptions& options = {});
/// Mean over the last dimension of the binary cross entropy of scores x with labels y, 0 or 1.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2.0;  ///< of the distance
  double eps = 1e-6;
  bool swap = false;  ///< take the smaller of the negative's distances to anchor and positive
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin), rows [.., D].
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});
struct PoissonNllOptions {
  bool log_input = true;  ///< x is the logarithm of the rate
  bool full = false;      ///< add Stirling's approximation of log y!
  double eps = 1e-8;      ///< added to the rate before its logarithm
  Reduction reduction = Reduction::mean;
};
/// exp(x) - y x, or x - y log(x + eps) of a rate.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options = {});
struct GaussianNllOptions {
  bool full = false;  ///< add log(2 pi) / 2
  double eps = 1e-6;  ///< the smallest variance
  Reduction reduction = Reduction::mean;
};
/// (log v + (x - y)^2 / v) / 2; the variance v has x's shape, that with 1 in one dimension, that
/// without the last dimension (one variance a sample), or [].
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options = {});
/// |a - b + eps|_p over the last dimension.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2.0, double eps = 1e-6,
                         bool keepdim = false);
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// \}

/// \name Normalisation
/// Results have x's dtype, whatever the parameters' and statistics' are.
/// \{
/// Over the trailing `normalized_shape`; weight and bias may be undefined. Ba et al., arXiv
/// 1607.06450.
/// \snippet test_examples_tensors.cpp layer_norm
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2, last) + eps) * weight. eps, where absent, is that of the dtype computed in:
/// 2^-52 for float64, else 2^-23. Zhang and Sennrich, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, std::optional<double> eps = {});
struct SumAndNorm {
  Tensor sum;   ///< x + residual
  Tensor norm;  ///< the sum normalised
};
/// {x + residual, layer_norm(x + residual, ...)}, with the same values. Where x and residual are
/// contiguous and of one shape, and of one dtype or float32 and a half (a residual under Autocast),
/// it is one operation: one pass over memory forward, and one backward that gives x and residual
/// their common gradient, each in its dtype.
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// The same with rms_norm.
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                        std::optional<double> eps = {});
/// x [N, C, ...]. Wu and He, arXiv 1803.08494.
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
struct BatchNormOptions {
  Tensor weight = {};
  Tensor bias = {};
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
};
/// x [N, C, ...]. In training the batch's statistics are used and running_mean and running_var (may
/// be undefined) are updated in place, the latter with the unbiased variance. arXiv 1502.03167.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});
/// \}

/// \name Convolution (cross-correlation) and pooling
/// \{
struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};
/// x [N, C, L], weight [O, C / groups, K], bias [O].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
using Pair = std::array<int64_t, 2>;
struct Conv2dOptions {
  Pair stride = {1, 1};
  Pair padding = {0, 0};
  Pair dilation = {1, 1};
  int64_t groups = 1;
};
/// x [N, C, H, W], weight [O, C / groups, KH, KW], bias [O].
/// \snippet test_examples_tensors.cpp conv2d
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});
/// relu(conv2d(x, weight, bias, options)) in one operation that keeps only its input and output.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const Conv2dOptions& options = {});
struct ConvTranspose2dOptions {
  Pair stride = {1, 1};
  Pair padding = {0, 0};
  Pair output_padding = {0, 0};
  Pair dilation = {1, 1};
  int64_t groups = 1;
};
/// x [N, C, H, W], weight [C, O / groups, KH, KW], bias [O].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};
/// x [N, C, L], weight [C, O / groups, K], bias [O].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
struct PoolOptions {
  std::optional<Pair> stride = {};  ///< the kernel size when absent
  Pair padding = {0, 0};
  Pair dilation = {1, 1};  ///< max pooling only
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pooling only
};
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
/// Cell i of o covers floor(i n / o) .. ceil((i + 1) n / o).
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);
/// The same cells as adaptive_avg_pool2d.
Tensor adaptive_max_pool2d(const Tensor& x, Pair output_size);
struct Pool1dOptions {
  std::optional<int64_t> stride = {};  ///< the kernel size when absent
  int64_t padding = 0;
  int64_t dilation = 1;  ///< max pooling only
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pooling only
};
/// x [N, C, L] or [C, L].
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size);
/// Pixel i of o takes the value of pixel floor(i n / o).
Tensor upsample_nearest2d(const Tensor& x, Pair output_size);
/// \}

/// \name Attention and recurrence
/// \{
struct AttentionOptions {
  Tensor mask = {};                  ///< bool, true = attend; broadcasts to [.., T, S]
  Tensor bias = {};                  ///< added to the scores
  bool is_causal = false;            ///< query t sees keys 0 ... first_query + t
  std::optional<double> scale = {};  ///< 1 / sqrt(D) when absent
  double dropout_p = 0.0;            ///< probabilities are dropped out; 0 outside of training
  bool enable_gqa = false;           ///< q [B, H, T, D] with k, v [B, G, S, ..], H % G == 0
  int64_t first_query = 0;           ///< the first query's position among the keys, for is_causal
};
/// softmax(q k^T scale + bias) v: q [.., T, D], k [.., S, D], v [.., S, E]. A query to which mask,
/// causal order and bias (-inf) leave no key gives 0, with finite gradients. With enable_gqa, H / G
/// neighbouring heads of q share a head of k, v.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});
enum class Nonlinearity { tanh, relu };
struct CellWeights {
  Tensor w_ih, w_hh, b_ih, b_hh;  ///< biases may be undefined
};
Tensor rnn_cell(const Tensor& x, const Tensor& h, const CellWeights& weights,
                Nonlinearity nonlinearity = Nonlinearity::tanh);
struct LstmState {
  Tensor h, c;
};
/// Gate rows i, f, g, o.
LstmState lstm_cell(const Tensor& x, const LstmState& state, const CellWeights& weights);
/// Gate rows r, z, n.
Tensor gru_cell(const Tensor& x, const Tensor& h, const CellWeights& weights);
enum class TimeOrder { forward, reverse };
struct RnnOutput {
  Tensor output;  ///< [T, N, H]
  Tensor h;       ///< the state after the last step, [N, H]
};
struct LstmOutput {
  Tensor output, h, c;
};
/// One layer in one direction over whole sequences, time first: x [T, N, I], h and c [N, H].
/// TimeOrder::reverse begins at the last step; outputs stay in the order of x.
RnnOutput rnn(const Tensor& x, const Tensor& h, const CellWeights& weights,
              Nonlinearity nonlinearity = Nonlinearity::tanh, TimeOrder order = TimeOrder::forward);
LstmOutput lstm(const Tensor& x, const LstmState& state, const CellWeights& weights,
                TimeOrder order = TimeOrder::forward);
RnnOutput gru(const Tensor& x, const Tensor& h, const CellWeights& weights,
              TimeOrder order = TimeOrder::forward);
/// Zeroes elements with probability p and scales the rest by 1 / (1 - p); identity unless training.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
/// The same for whole channels of x [N, C, L] or [C, L]. Tompson et al., arXiv 1411.4280.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
/// The same for whole channels of x [N, C, ...] or [C, H, W].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// \}

}  // namespace hero

#include <hero/autograd/loss_overloads.h>
