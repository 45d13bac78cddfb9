#pragma once
// Chain: a network as links that run one after the other, for those who cut it between links.
#include <functional>
#include <utility>
#include <vector>

#include <hero/nn/container.h>

namespace hero::nn {

/// What a module is that can be cut into stages: links 0 ... links() - 1, each of which makes one
/// tensor of the one before it, and a loss behind the last. Running all links one range after the
/// other has the bits of the module's forward, wherever it is cut. Hooks of the root are the
/// caller's to run, as run_fused() does; those of modules below it run.
class Chain {
 public:
  virtual ~Chain() = default;
  /// The module whose links these are.
  virtual Module& root() = 0;
  virtual size_t links() const = 0;
  /// What links begin ... end - 1 make of x; begin < end.
  virtual Tensor run_links(size_t begin, size_t end, const Tensor& x) = 0;
  /// The loss, of shape [], of what links begin ... links() - 1 make of x.
  virtual Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) = 0;
  /// The modules with whose parameters and buffers a link computes.
  virtual std::vector<Module*> modules_of(size_t link) = 0;
};

/// A Sequential, whose children are the links, and a loss of its output and the target.
class SequentialChain : public Chain {
 public:
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;
  /// `net` must outlive it.
  SequentialChain(Sequential& net, Loss loss) : net_(&net), loss_(std::move(loss)) {}
  Module& root() override { return *net_; }
  size_t links() const override { return net_->size(); }
  Tensor run_links(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t link) override { return {&(*net_)[link]}; }

 private:
  Sequential* net_;
  Loss loss_;
};

}  // namespace hero::nn
