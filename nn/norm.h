#pragma once
// Normalisation layers. N batch, C channels.
#include <optional>

#include <hero/autograd/nn_ops.h>
#include <hero/nn/module.h>

namespace hero::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// Weight of the newest batch in the running statistics; absent: they are the mean of all
  /// batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;  ///< learn weight and, unless bias is false, bias
  bool bias = true;
  /// Keep running statistics and use them in evaluation; else each batch's own, always.
  bool track_running_stats = true;
};

/// What BatchNorm1d and BatchNorm2d share. Parameters: weight [C] ones, bias [C] zeros. Buffers:
/// running_mean [C], running_var [C], num_batches_tracked (int64). Ioffe and Szegedy, arXiv
/// 1502.03167.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const int64_t num_features;
  Tensor& weight;               ///< undefined without affine
  Tensor& bias;                 ///< undefined without affine
  Tensor& running_mean;         ///< undefined without running statistics
  Tensor& running_var;          ///< undefined without running statistics
  Tensor& num_batches_tracked;  ///< undefined without running statistics

 protected:
  BatchNorm(int64_t features, const BatchNormOptions& options);
  /// Throws unless x has a shape for this layer.
  virtual void check_input(const Tensor& x) const = 0;
  /// Counts a batch of training, and says with which weight it enters the running statistics.
  double next_momentum();

 public:
  const BatchNormOptions& options() const { return options_; }

 private:
  BatchNormOptions options_;
};

/// x [N, C] or [N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  using Options = BatchNormOptions;
  explicit BatchNorm1d(int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(features, options) {}

 protected:
  void check_input(const Tensor& x) const override;
};

/// x [N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  using Options = BatchNormOptions;
  explicit BatchNorm2d(int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(features, options) {}

 protected:
  void check_input(const Tensor& x) const override;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< learn weight and, unless bias is false, bias
  bool bias = true;
};

/// A norm that may follow a residual.
class ResidualNorm : public Module {
 public:
  using Module::operator();
  /// x + residual and its norm, in one operation (add_layer_norm, add_rms_norm) unless the module
  /// has hooks, which see the sum.
  SumAndNorm operator()(const Tensor& x, const Tensor& residual);

 protected:
  /// The same of tensors of one shape, without hooks.
  virtual SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) = 0;
};

/// Over the trailing dimensions `normalized_shape`. Parameters: weight ones, bias zeros, of that
/// shape. Ba et al., arXiv 1607.06450.
class LayerNorm : public ResidualNorm {
 public:
  using Options = LayerNormOptions;
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const Shape normalized_shape;
  Tensor& weight;  ///< undefined without elementwise_affine
  Tensor& bias;    ///< undefined without bias

 protected:
  SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) override;

 private:
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  ///< the machine epsilon of x's dtype when absent
  bool elementwise_affine = true;
};

/// x / sqrt(mean(x^2) + eps) weight, over the trailing dimensions `normalized_shape`. Parameter:
/// weight ones. Zhang and Sennrich, arXiv 1910.07467.
class RMSNorm : public ResidualNorm {
 public:
  using Options = RMSNormOptions;
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(int64_t size, const RMSNormOptions& options = {})
      : RMSNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const Shape normalized_shape;
  Tensor& weight;  ///< undefined without elementwise_affine

 protected:
  SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) override;

 private:
  std::optional<double> eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< learn weight and, unless bias is false, bias
  bool bias = true;
};

/// Over groups of channels of x [N, C, ..]. Parameters: weight [C] ones, bias [C] zeros. Wu and He,
/// arXiv 1803.08494.
class GroupNorm : public Module {
 public:
  using Options = GroupNormOptions;
  /// An Error unless num_groups divides num_channels.
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const int64_t num_groups, num_channels;
  Tensor& weight;  ///< undefined without affine
  Tensor& bias;    ///< undefined without affine

 private:
  double eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;  ///< learn weight and, unless bias is false, bias
  bool bias = true;
};

/// What InstanceNorm1d and InstanceNorm2d share: each channel of each sample by itself, without
/// running statistics. Ulyanov et al., arXiv 1607.08022.
class InstanceNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  const int64_t num_features;
  Tensor& weight;  ///< undefined without affine
  Tensor& bias;    ///< undefined without affine

 protected:
  InstanceNorm(int64_t features, const InstanceNormOptions& options);
  /// Number of dimensions of a batch.
  virtual int batched_ndim() const = 0;

 private:
  double eps_;
};

/// x [N, C, L] or [C, L].
class InstanceNorm1d : public InstanceNorm {
 public:
  using Options = InstanceNormOptions;
  explicit InstanceNorm1d(int64_t features, const InstanceNormOptions& options = {})
      : InstanceNorm(features, options) {}

 protected:
  int batched_ndim() const override { return 3; }
};

/// x [N, C, H, W] or [C, H, W].
class InstanceNorm2d : public InstanceNorm {
 public:
  using Options = InstanceNormOptions;
  explicit InstanceNorm2d(int64_t features, const InstanceNormOptions& options = {})
      : InstanceNorm(features, options) {}

 protected:
  int batched_ndim() const override { return 4; }
};

}  // namespace hero::nn
