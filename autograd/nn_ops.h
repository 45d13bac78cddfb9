#pragma once
// Differentiable operations of networks, functions without state: PyTorch's torch.nn.functional.
#include <array>

#include <hero/autograd/ops.h>

namespace hero {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);

/// relu(linear(x, weight, bias)) in one operation that keeps only its input and output.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// gelu(linear(x, weight, bias)) in one operation.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
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
/// ignored.
Tensor cross_entropy(const Tensor& x, const Tensor& target,
                     const CrossEntropyOptions& options = {});
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
/// Binary cross entropy of logits x with probabilities y.
Tensor bce_with_logits(const Tensor& x, const Tensor& y, const Tensor& pos_weight = {},
                       Reduction reduction = Reduction::mean);
enum class KlReduction { none, mean, sum, batchmean };
/// Pointwise y * (log y - x) for log-probabilities x; log_target: y is given as a logarithm too.
Tensor kl_div(const Tensor& x, const Tensor& y, KlReduction reduction = KlReduction::mean,
              bool log_target = false);
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// \}

/// \name Normalisation
/// \{
/// Over the trailing `normalized_shape`; weight and bias may be undefined. Ba et al., arXiv
/// 1607.06450.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2, last) + eps) * weight. Zhang and Sennrich, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);
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
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
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
/// \}

/// \name Attention and recurrence
/// \{
struct AttentionOptions {
  Tensor mask = {};  ///< bool, true = attend; broadcasts to [.., T, S]
  Tensor bias = {};  ///< added to the scores
  bool is_causal = false;
  std::optional<double> scale = {};  ///< 1 / sqrt(D) when absent
  double dropout_p = 0.0;            ///< probabilities are dropped out; 0 outside of training
  bool enable_gqa = false;           ///< q [B, H, T, D] with k, v [B, G, S, ..], H % G == 0
};
/// softmax(q k^T scale + bias) v: q [.., T, D], k [.., S, D], v [.., S, E]. A row of the mask
/// without any true gives NaN. With enable_gqa, H / G neighbouring heads of q share a head of k, v.
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
/// \}

}  // namespace hero
