#pragma once
// Mixed precision by a fixed policy: each operation says where it is defined whether it runs in
// half precision or in float32.
#include <span>

#include <hero/autograd/graph/autocast_rule.h>
#include <hero/autograd/tensor.h>

namespace hero {

/// Options of Autocast.
struct AutocastOptions {
  DType dtype = kBFloat16;  ///< kBFloat16 or kFloat16
  bool enabled = true;      ///< false: no casts while it lives, also inside another scope
  bool cache = true;        ///< true: cast a parameter once, and not at every use
};

/// While it lives, operations on this thread cast their floating inputs, each by its AutocastRule:
/// matrix products take them in `dtype` (they accumulate in float32 and round once); softmax, norms
/// of rows and groups, losses and reductions take them in float32; operations that write one tensor
/// into another (scatter_add, index_put ..) take both in the wider dtype; all other operations take
/// them as they are, and promote dtypes. Batch norm is one of these: its statistics are float32,
/// and its result has the dtype of x. float64 is never cast. Casts are recorded, so gradients
/// arrive in the dtype of the leaf. Casts are off inside backward, whose operations follow the
/// dtypes of forward. Where the CPU has no products of bfloat16 (docs/guides/numbers.md), the first
/// cast on it says on stderr that this saves no time. Micikevicius et al., arXiv 1710.03740.
///
///   { Autocast autocast({.dtype = kBFloat16}); loss = cross_entropy(model(x), y); }
///   loss.backward();
///
/// A cached cast is used until the leaf is written to, backward has freed the cast's graph, or the
/// outermost scope ends.
/// \snippet test_examples_gradients.cpp Autocast
class Autocast {
 public:
  /// Begins the scope.
  explicit Autocast(const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastOptions previous_;
};

/// True if operations on this thread are cast now.
bool autocast_enabled();
/// The options of the innermost scope; enabled is false outside of all scopes.
const AutocastOptions& autocast_options();

/// Casts the inputs of an operation that is composed of others, as its first line:
///
///   if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, bias); in.changed()) {
///     return linear(in[0], in[1], in[2]);
///   }
class AutocastInputs {
 public:
  template <std::same_as<Tensor>... In>
  explicit AutocastInputs(AutocastRule rule, const In&... inputs) {
    if (!autocast_enabled()) return;
    const Tensor* const list[] = {&inputs...};
    open(rule, list);
  }
  bool changed() const { return !cast_.empty(); }
  const Tensor& operator[](size_t i) const { return cast_[i]; }

 private:
  void open(AutocastRule rule, std::span<const Tensor* const> inputs);
  std::vector<Tensor> cast_;
};

}  // namespace hero
