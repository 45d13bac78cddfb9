#include <hero/autograd/graph/anomaly.h>
#include <hero/autograd/graph/engine.h>
#include <hero/autograd/graph/op_scopes.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

thread_local bool infinities = false;

void switch_anomaly(bool on) {
  const unsigned others = detail::open_scopes & ~detail::kAnomalyScope;
  detail::open_scopes = others | (on ? detail::kAnomalyScope : 0u);
}

struct AnomalyMode {
  bool on, infinities;
};
[[maybe_unused]] const core::ThreadSlot<AnomalyMode> kAnomalySlot(
    [] {
      return AnomalyMode{anomaly_enabled(), infinities};
    },
    [](AnomalyMode mode) {
      switch_anomaly(mode.on);
      infinities = mode.infinities;
    });

// "nan", "infinity", or nothing when all numbers are as they should be.
const char* oddity(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || x.numel() == 0) return nullptr;
  if (!core::has_values(x.device())) return nullptr;
  namespace k = core::kernels;
  using core::ReduceKind;
  if (core::reduce(ReduceKind::any, core::map<k::IsNan>(x.array())).item<bool>()) return "nan";
  if (!infinities) return nullptr;
  const bool finite = core::reduce(ReduceKind::all, core::map<k::IsFinite>(x.array())).item<bool>();
  return finite ? nullptr : "infinity";
}

}  // namespace

DetectAnomaly::DetectAnomaly(const AnomalyOptions& options)
    : open_scopes_(detail::open_scopes), infinities_(infinities) {
  detail::open_scopes |= detail::kAnomalyScope;
  infinities = options.infinities;
}

DetectAnomaly::~DetectAnomaly() {
  switch_anomaly((open_scopes_ & detail::kAnomalyScope) != 0);
  infinities = infinities_;
}

bool anomaly_enabled() { return (detail::open_scopes & detail::kAnomalyScope) != 0; }

namespace detail {

void look_at_output(const char* op, std::span<const Tensor* const> inputs, const Tensor& output) {
  // Inside a backward pass the engine looks, and can name the operation that was recorded.
  if (backward_running()) return;
  const char* odd = oddity(output);
  if (!odd) return;
  std::string shapes, line = op;
  for (const Tensor* input : inputs) {
    shapes += (shapes.empty() ? "" : ", ") + to_string(input->shape());
  }
  line += ": the result of shape " + to_string(output.shape()) + " holds " + odd;
  bool in_place = false;  // then what that input held before is gone
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_same(*inputs[i], output)) {
      in_place = true;
      continue;
    }
    const char* came = oddity(*inputs[i]);
    if (!came) continue;
    fail(line + " because input " + std::to_string(i) + " of inputs " + shapes + " holds " + came +
         ", which no operation made; look at the data and the parameters");
  }
  fail(line + (in_place ? ", written in place, with inputs of shapes " + shapes +
                              " of which the others hold none"
                        : ", made from inputs of shapes " + shapes + " that hold none"));
}

void look_at_gradients(const detail::Node& node, const std::string& place, const Grads& before,
                       const Grads& after) {
  const PlaceScope recorded(place);
  const std::string op = node.name();
  const bool leaf = node.input_count() == 0;
  for (const Tensor& g : before) {
    const char* odd = oddity(g);
    if (!odd) continue;
    fail(op + ": the gradient of shape " + to_string(g.shape()) + " that reached " +
         (leaf ? "this leaf" : "its output") + " holds " + odd +
         ", which no operation's backward made; look at the gradient given to "
         "backward, at hooks, and at sums of infinities");
  }
  for (int i = 0; i < after.size(); ++i) {
    const char* odd = oddity(after[i]);
    if (!odd) continue;
    fail(op + ": backward made " + odd + " in the gradient of input " + std::to_string(i) +
         " of shape " + to_string(node.input_spec(i).shape) + ", from a gradient that holds none");
  }
}

}  // namespace detail

}  // namespace hero
