#pragma once
// Normalisation layers. N batch, C channels.
#include <optional>

#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/module.h>

namespace hero::nn {

class Convolution;
class Linear;

/// Options of BatchNorm1d, 2d and 3d.
struct BatchNormOptions {
  double eps = 1e-5;  ///< added to the variance
  /// Weight of the newest batch in the running statistics; when absent, they are the mean over all
  /// batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;  ///< true: the layer has a weight and, unless bias is false, a bias
  bool bias = true;    ///< whether there is a bias, if affine
  /// True: running statistics are kept and used in evaluation. False: each batch's own statistics
  /// are used, also in evaluation.
  bool track_running_stats = true;
};

/// The common base of BatchNorm and InstanceNorm: their parameters and running statistics.
/// Parameters: weight [C] ones, bias [C] zeros. Buffers: running_mean [C], running_var [C],
/// num_batches_tracked (int64).
class StatisticsNorm : public Module {
 public:
  std::string extra_repr() const override;

  /// The number of channels, C.
  const int64_t num_features;
  Tensor& weight;        ///< [C]; undefined without affine
  Tensor& bias;          ///< [C]; undefined without affine or bias
  Tensor& running_mean;  ///< [C]; undefined without running statistics
  Tensor& running_var;   ///< [C]; undefined without running statistics
  /// Batches of training so far, which BatchNorm counts; undefined without running statistics.
  Tensor& num_batches_tracked;
  /// The options that the layer was made with.
  const BatchNormOptions& options() const { return options_; }
  /// Sets the weight of the newest batch in the running statistics.
  void set_momentum(std::optional<double> momentum) { options_.momentum = momentum; }
  /// Gives the running statistics their first values: means of 0, variances of 1, no batches.
  void reset_running_stats();

 protected:
  /// Makes parameters and buffers for this number of channels.
  StatisticsNorm(int64_t features, const BatchNormOptions& options);

 private:
  BatchNormOptions options_;
};

/// The common base of BatchNorm1d, 2d and 3d: (x - mean) / sqrt(var + eps) * weight + bias for
/// each channel, with mean and variance over the batch and all positions. Ioffe and Szegedy, arXiv
/// 1502.03167.
class BatchNorm : public StatisticsNorm {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  /// Makes parameters and buffers for this number of channels.
  BatchNorm(int64_t features, const BatchNormOptions& options)
      : StatisticsNorm(features, options) {}
  /// Throws an Error unless x has a shape for this layer.
  virtual void check_input(const Tensor& x) const = 0;
  /// Counts a batch of training, and returns the weight with which it enters the running
  /// statistics.
  double next_momentum();
};

/// Batch normalisation of x [N, C] or [N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  using Options = BatchNormOptions;
  /// Makes the layer for this number of channels.
  explicit BatchNorm1d(int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(features, options) {}

 protected:
  void check_input(const Tensor& x) const override;
};

/// Batch normalisation of images x [N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  using Options = BatchNormOptions;
  /// Makes the layer for this number of channels.
  explicit BatchNorm2d(int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(features, options) {}

 protected:
  void check_input(const Tensor& x) const override;
};

/// Batch normalisation of volumes x [N, C, D, H, W].
class BatchNorm3d : public BatchNorm {
 public:
  using Options = BatchNormOptions;
  /// Makes the layer for this number of channels.
  explicit BatchNorm3d(int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(features, options) {}

 protected:
  void check_input(const Tensor& x) const override;
};

/// Computes the running statistics of every BatchNorm below `module` anew, after its weights were
/// averaged (optim::EMA): `forwards` calls the module with each batch, in training mode, and the
/// statistics become the means over these batches. Modes and momenta are as before afterwards.
void update_bn(Module& module, const std::function<void()>& forwards);

/// \name Folds a norm that follows a layer into the layer's weight and bias, in place, so that in
/// evaluation layer(x) becomes norm(layer(x)). Take the norm out then: `net.replace("bn",
/// nn::Identity())`. Throws an Error unless both are in evaluation mode and fit together.
/// \{
void fuse_conv_bn_eval(Convolution& conv, const BatchNorm& bn);
void fuse_linear_bn_eval(Linear& linear, const BatchNorm& bn);
/// \}

/// Options of LayerNorm.
struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance
  /// True: the layer has a weight and, unless bias is false, a bias.
  bool elementwise_affine = true;
  bool bias = true;  ///< whether there is a bias, if elementwise_affine
};

/// The common base of norms that may follow a residual connection.
class ResidualNorm : public Module {
 public:
  using Module::operator();
  /// Returns x + residual and its norm, in one operation (add_layer_norm(), add_rms_norm()) unless
  /// the module has hooks, which see the sum.
  SumAndNorm operator()(const Tensor& x, const Tensor& residual);

 protected:
  /// Does the same for tensors of one shape, without hooks.
  virtual SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) = 0;
};

/// Layer normalisation over the trailing dimensions `normalized_shape`: (x - mean) / sqrt(var +
/// eps) * weight + bias. Parameters: weight ones, bias zeros, of that shape. Ba et al., arXiv
/// 1607.06450.
class LayerNorm : public ResidualNorm {
 public:
  using Options = LayerNormOptions;
  /// Makes the layer for these trailing dimensions.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  /// Makes the layer for a last dimension of this size.
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// The trailing dimensions that are normalised together.
  const Shape normalized_shape;
  Tensor& weight;  ///< of shape normalized_shape; undefined without elementwise_affine
  Tensor& bias;    ///< of shape normalized_shape; undefined without bias

 protected:
  SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) override;

 private:
  double eps_;
};

/// Options of RMSNorm.
struct RMSNormOptions {
  /// Added to the mean square; when absent, the machine epsilon of x's dtype.
  std::optional<double> eps = {};
  bool elementwise_affine = true;  ///< whether the layer has a weight
};

/// x / sqrt(mean(x^2) + eps) * weight, with the mean over the trailing dimensions
/// `normalized_shape`. Parameter: weight ones. Zhang and Sennrich, arXiv 1910.07467.
class RMSNorm : public ResidualNorm {
 public:
  using Options = RMSNormOptions;
  /// Makes the layer for these trailing dimensions.
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  /// Makes the layer for a last dimension of this size.
  explicit RMSNorm(int64_t size, const RMSNormOptions& options = {})
      : RMSNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// The trailing dimensions that are normalised together.
  const Shape normalized_shape;
  Tensor& weight;  ///< of shape normalized_shape; undefined without elementwise_affine

 protected:
  SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) override;

 private:
  std::optional<double> eps_;
};

/// Options of GroupNorm.
struct GroupNormOptions {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< true: the layer has a weight and, unless bias is false, a bias
  bool bias = true;    ///< whether there is a bias, if affine
};

/// Normalises each group of channels of each sample of x [N, C, ..] by itself. Parameters: weight
/// [C] ones, bias [C] zeros. Wu and He, arXiv 1803.08494.
class GroupNorm : public Module {
 public:
  using Options = GroupNormOptions;
  /// Makes the layer. Throws an Error unless num_groups divides num_channels.
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// The numbers of groups and of channels.
  const int64_t num_groups, num_channels;
  Tensor& weight;  ///< [C]; undefined without affine
  Tensor& bias;    ///< [C]; undefined without affine or bias

 private:
  double eps_;
};

/// Options of InstanceNorm1d, 2d and 3d.
struct InstanceNormOptions {
  double eps = 1e-5;  ///< added to the variance
  /// Weight of the newest batch in the running statistics; when absent it is 0, and they stay as
  /// they are.
  std::optional<double> momentum = 0.1;
  bool affine = false;  ///< true: the layer has a weight and, unless bias is false, a bias
  bool bias = true;     ///< whether there is a bias, if affine
  /// True: running statistics are kept and used in evaluation. False: each channel's own statistics
  /// are used, also in evaluation.
  bool track_running_stats = false;
};

/// The common base of InstanceNorm1d, 2d and 3d, which normalise each channel of each sample by
/// itself. num_batches_tracked stays 0, as in PyTorch. Ulyanov et al., arXiv 1607.08022.
class InstanceNorm : public StatisticsNorm {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  /// Makes the parameters for this number of channels.
  InstanceNorm(int64_t features, const InstanceNormOptions& options);
  /// The number of dimensions of a batch.
  virtual int batched_ndim() const = 0;
};

/// Instance normalisation of x [N, C, L] or [C, L].
class InstanceNorm1d : public InstanceNorm {
 public:
  using Options = InstanceNormOptions;
  /// Makes the layer for this number of channels.
  explicit InstanceNorm1d(int64_t features, const InstanceNormOptions& options = {})
      : InstanceNorm(features, options) {}

 protected:
  int batched_ndim() const override { return 3; }
};

/// Instance normalisation of images x [N, C, H, W] or [C, H, W].
class InstanceNorm2d : public InstanceNorm {
 public:
  using Options = InstanceNormOptions;
  /// Makes the layer for this number of channels.
  explicit InstanceNorm2d(int64_t features, const InstanceNormOptions& options = {})
      : InstanceNorm(features, options) {}

 protected:
  int batched_ndim() const override { return 4; }
};

/// Instance normalisation of volumes x [N, C, D, H, W] or [C, D, H, W].
class InstanceNorm3d : public InstanceNorm {
 public:
  using Options = InstanceNormOptions;
  /// Makes the layer for this number of channels.
  explicit InstanceNorm3d(int64_t features, const InstanceNormOptions& options = {})
      : InstanceNorm(features, options) {}

 protected:
  int batched_ndim() const override { return 5; }
};

/// Options of LocalResponseNorm.
struct LocalResponseNormOptions {
  double alpha = 1e-4;  ///< factor of the mean of squares
  double beta = 0.75;   ///< exponent
  double k = 1.0;       ///< added to the mean of squares
};

/// x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta, x [N, C, ..]. Krizhevsky et
/// al., NIPS 2012.
class LocalResponseNorm : public Module {
 public:
  using Options = LocalResponseNormOptions;
  /// Makes the layer for this number of neighbouring channels.
  explicit LocalResponseNorm(int64_t size, const LocalResponseNormOptions& options = {})
      : size_(size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t size_;
  LocalResponseNormOptions options_;
};

}  // namespace hero::nn
