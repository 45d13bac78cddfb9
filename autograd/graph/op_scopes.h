#pragma once
// What open scopes (DetectAnomaly, Autocast, Profiler) do around every operation; for op.h, the
// engine, and the scopes themselves.
#include <span>
#include <string>

#include <hero/autograd/graph/autocast_rule.h>
#include <hero/autograd/graph/node.h>
#include <hero/core/error.h>
#include <hero/core/profile/places.h>

namespace hero::detail {

/// The kinds of scopes that are open on this thread, one bit each. It is nearly always 0, and then
/// an operation pays one comparison.
inline constexpr unsigned kAnomalyScope = 1, kAutocastScope = 2, kProfileScope = 4;
extern constinit thread_local unsigned open_scopes;

/// Lives around the run of one operation: may replace its inputs by cast ones, and inspects its
/// outputs.
class OpInterceptor {
 public:
  OpInterceptor(const char* op, AutocastRule cast, std::span<const Tensor*> inputs) {
    if (open_scopes != 0) [[unlikely]]
      open(op, cast, inputs);
  }
  OpInterceptor(const OpInterceptor&) = delete;
  OpInterceptor& operator=(const OpInterceptor&) = delete;
  ~OpInterceptor() {
    if (state_) [[unlikely]]
      close();
  }
  /// Inspects the output, and returns it.
  Tensor look(Tensor output) const {
    if (state_) [[unlikely]]
      inspect(output);
    return output;
  }
  std::vector<Tensor> look(std::vector<Tensor> outputs) const {
    if (state_) [[unlikely]] {
      for (const Tensor& output : outputs) inspect(output);
    }
    return outputs;
  }

 private:
  struct State;
  void open(const char* op, AutocastRule cast, std::span<const Tensor*> inputs);
  void inspect(const Tensor& output) const;
  void close();

  State* state_ = nullptr;
};

/// \name DetectAnomaly: these throw when a value holds a NaN (or an infinity, if asked for)
/// \{
void look_at_output(const char* op, std::span<const Tensor* const> inputs, const Tensor& output);
/// `after` are the gradients that the node's backward computed from `before`; `place` is the module
/// in which the node was recorded.
void look_at_gradients(const detail::Node& node, const std::string& place, const Grads& before,
                       const Grads& after);
/// \}

/// \name Profiler: an interval of this thread; 0 where none is recorded
/// \{
int64_t begin_profiled(const char* op);
void end_profiled(int64_t operation) noexcept;
/// \}

/// Lives around the backward of an operation that was recorded in the module `place`, which may be
/// null.
class WatchDerivative {
 public:
  WatchDerivative(const detail::Node& node, const std::string* place) {
    if ((open_scopes & kProfileScope) || core::keeps_places.load(std::memory_order_relaxed))
        [[unlikely]]
      open(node, place);
  }
  ~WatchDerivative() {
    if (state_ != nullptr) [[unlikely]]
      close();
  }
  WatchDerivative(const WatchDerivative&) = delete;
  WatchDerivative& operator=(const WatchDerivative&) = delete;

 private:
  struct State;
  void open(const detail::Node& node, const std::string* place);
  void close();

  State* state_ = nullptr;
};

/// Autocast: the inputs cast as the rule says; empty if the rule changes none of them.
std::vector<Tensor> autocast_inputs(AutocastRule rule, std::span<const Tensor* const> inputs);

}  // namespace hero::detail
