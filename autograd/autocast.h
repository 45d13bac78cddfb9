#pragma once
// Mixed precision by a fixed, readable policy: which operations run in a half, which in float32.
#include <span>
#include <string>
#include <string_view>

#include <hero/autograd/tensor.h>

namespace hero {

struct AutocastOptions {
  DType dtype = kBFloat16;  ///< kBFloat16 or kFloat16
  bool enabled = true;      ///< false: no casts while it lives, inside another scope too
  bool cache = true;        ///< a parameter is cast once, not at every use
};

/// While it lives, operations on this thread take their floating inputs as autocast_policy() says:
/// products in `dtype` (float32 accumulators, rounded once), softmax, normalisation, losses and
/// reductions in float32, all others as they come, by promotion. float64 is never cast. Casts are
/// recorded, so gradients arrive in the dtype of the leaf. Off inside backward, whose operations
/// follow the dtypes of forward. Micikevicius et al., arXiv 1710.03740.
///
///   { Autocast autocast({.dtype = kBFloat16}); loss = cross_entropy(model(x), y); }
///   loss.backward();
///
/// A cached cast is used until the leaf is written to, its graph was freed by backward, or the
/// outermost scope ends.
/// \snippet test_examples_gradients.cpp Autocast
class Autocast {
 public:
  explicit Autocast(const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastOptions previous_;
};

/// True where operations are cast now.
bool autocast_enabled();
/// The innermost scope's options; enabled = false outside of all.
const AutocastOptions& autocast_options();

/// How an operation's inputs are treated: cast to the scope's dtype, cast up to float32, or left
/// to promotion.
enum class CastRule { low, float32, promote };
struct CastEntry {
  std::string_view op;
  CastRule rule;
};
/// Every operation that is cast; those not listed are CastRule::promote.
std::span<const CastEntry> cast_entries();
CastRule cast_rule(std::string_view op);
/// The policy as text: a line a rule with its operations.
std::string autocast_policy();

/// The first line of an operation that is made of others:
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
