#pragma once
// PipelineModel: a network as a sequence of layers, which pipelines cut between two layers. Stack:
// a model that becomes one by describing its parts in its ParallelForm.
#include <functional>
#include <utility>
#include <vector>

#include <hero/nn/container.h>
#include <hero/nn/parallel_form.h>

namespace hero::nn {

/// A target that cross_entropy() leaves out of its mean unless told otherwise.
inline constexpr int64_t kIgnoredTarget = -100;
/// How many targets, int64, are not kIgnoredTarget; on meta, which has no values, all of them.
/// Throws an Error if they are undefined.
double valid_targets(const Tensor& targets);

/// A network that can be cut into stages: layers 0 to layers() - 1, each of which maps one tensor
/// to one tensor, and a loss after the last. Running all layers, range by range, gives the bits of
/// the module's forward wherever the ranges are cut. Hooks of the root do not run; the caller can
/// run them by run_fused(). Hooks of the modules below it do run.
class PipelineModel {
 public:
  virtual ~PipelineModel() = default;
  /// The module that has these layers.
  virtual Module& root() = 0;
  virtual size_t layers() const = 0;  ///< the number of layers
  /// The output of layers begin to end - 1 for the input x; begin < end.
  virtual Tensor run_layers(size_t begin, size_t end, const Tensor& x) = 0;
  /// The loss, of shape [], of the output of layers begin to layers() - 1 for the input x.
  virtual Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) = 0;
  /// The modules whose parameters and buffers a layer uses.
  virtual std::vector<Module*> modules_of(size_t layer) = 0;
  /// The number of terms of which loss_from() takes the mean for this target: for GPT and Llama the
  /// number of targets other than -100; unless overridden, the number of rows. dist::Pipeline and
  /// dist::Trainer weigh the losses of micro-batches by it. Throws an Error if the target is
  /// undefined.
  virtual double target_count(const Tensor& target) const;
};

/// A Sequential as a pipeline model: its children are the layers, and a function gives the loss.
class PipelineSequential : public PipelineModel {
 public:
  /// Maps the output and the target to a loss of shape [].
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;
  /// Maps a target to the number of terms of which the loss is the mean.
  using Count = std::function<double(const Tensor& target)>;
  /// Makes one of `net`, which must outlive it. Without `count`, target_count() is the number
  /// of rows; give one if the loss leaves targets out, as cross_entropy() does with ignore_index.
  PipelineSequential(Sequential& net, Loss loss, Count count = {})
      : net_(&net), loss_(std::move(loss)), count_(std::move(count)) {}
  Module& root() override { return *net_; }
  size_t layers() const override { return net_->size(); }
  Tensor run_layers(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t layer) override { return {&(*net_)[layer]}; }
  double target_count(const Tensor& target) const override;

 private:
  Sequential* net_;
  Loss loss_;
  Count count_;
};

/// A model that can be cut into stages by its parallel form: the modules of StackForm::embedding,
/// called one after the other, are the first layer, each block is one, and norm and head are the
/// last. A model derives from Module and from it, and defines parallel_form() and loss_of(); its
/// forward may be run_layers(0, layers(), x). The blocks take and return one tensor.
class Stack : public PipelineModel, public Parallelizable {
 public:
  /// The loss, of shape [], of the model's output.
  virtual Tensor loss_of(const Tensor& output, const Tensor& target) = 0;

  /// \name As a PipelineModel
  /// \{
  Module& root() override;
  size_t layers() const override;
  Tensor run_layers(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t layer) override;
  /// For an int64 target the number of elements other than -100, which cross_entropy() leaves out
  /// of its mean; for others the number of rows. Override it if loss_of() is a mean over other
  /// terms.
  double target_count(const Tensor& target) const override;
  /// \}

 protected:
  /// The first layer. Override it if the modules before the blocks are not called one after the
  /// other, such as embeddings of tokens and of positions, which are added.
  virtual Tensor embed(const Tensor& x);

 private:
  StackForm stack() const;
};

}  // namespace hero::nn
