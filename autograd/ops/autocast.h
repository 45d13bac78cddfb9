#pragma once
// Mixed precision by a fixed, readable policy: which operations run in half precision, and which in
// float32.
#include <span>
#include <string>
#include <string_view>

#include <hero/autograd/tensor.h>

namespace hero {

/// Options of Autocast.
struct AutocastOptions {
  DType dtype = kBFloat16;  ///< kBFloat16 or kFloat16
  bool enabled = true;      ///< false: no casts while it lives, also inside another scope
  bool cache = true;        ///< true: cast a parameter once, and not at every use
};

/// While it lives, operations on this thread cast their floating inputs as autocast_policy() says:
/// matrix products take them in `dtype` (they accumulate in float32 and round once); softmax, norms
/// of rows and groups, losses and reductions take them in float32; operations that write one tensor
/// into another (scatter_add, index_put ..) take both in the wider dtype; all other operations take
/// them as they are, and promote dtypes. Batch norm is one of these: its statistics are float32,
/// and its result has the dtype of x. float64 is never cast. Casts are recorded, so gradients
/// arrive in the dtype of the leaf. Casts are off inside backward, whose operations follow the
/// dtypes of forward. Micikevicius et al., arXiv 1710.03740.
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

/// How an operation's inputs are treated: cast to the scope's dtype, cast up to float32, cast to
/// the widest dtype among them where they would have to be of one, or left to promotion.
enum class CastRule { low, float32, widest, promote };
/// An operation and how its inputs are treated.
struct CastEntry {
  std::string_view op;
  CastRule rule;
};
/// All operations that are cast; for operations not listed the rule is CastRule::promote.
std::span<const CastEntry> cast_entries();
/// The rule of an operation.
CastRule cast_rule(std::string_view op);
/// The policy as text: a line for each rule, with its operations.
std::string autocast_policy();

/// Casts the inputs of an operation that is composed of others, as its first line:
///
///   if (const AutocastInputs in("linear", x, weight, bias); in.changed()) {
///     return linear(in[0], in[1], in[2]);
///   }
class AutocastInputs {
 public:
  template <std::same_as<Tensor>... In>
  explicit AutocastInputs(const char* op, const In&... inputs) {
    if (!autocast_enabled()) return;
    const Tensor* const list[] = {&inputs...};
    open(op, list);
  }
  bool changed() const { return !cast_.empty(); }
  const Tensor& operator[](size_t i) const { return cast_[i]; }

 private:
  void open(const char* op, std::span<const Tensor* const> inputs);
  std::vector<Tensor> cast_;
};

}  // namespace hero
