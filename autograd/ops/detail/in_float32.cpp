#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/array/promotion.h>

namespace hero::detail {

namespace {

// The dtype that all promote to, of which one is a half.
DType promoted(std::span<const Array> inputs) {
  Promotion promotion;
  for (const Array& x : inputs) promotion.add(x.dtype(), x.ndim());
  return promotion.dtype();
}

// see [note: rounded once]
struct RoundedOnce : MultiOp {
  static constexpr unsigned kSaveInputs = ~0u;
  const char* op;
  AutocastRule kAutocast;   // that of the function
  std::vector<bool> given;  // by position in the definition: whether there is an input
  Definitions definition;
  RoundedOnce(const char* n, AutocastRule c, std::vector<bool> g, Definitions d)
      : op(n), kAutocast(c), given(std::move(g)), definition(std::move(d)) {}
  const char* name() const override { return op; }

  // The definition of the inputs that there are, in float32.
  std::vector<Tensor> compute(const std::vector<Tensor>& inputs) const {
    const Autocast off({.enabled = false});
    std::vector<Tensor> all;
    size_t next = 0;
    for (const bool has : given) all.push_back(has ? widened(inputs[next++]) : Tensor());
    return definition(all);
  }

  std::vector<Array> forward(std::span<const Array> arrays) {
    const NoGrad no_grad;
    std::vector<Tensor> inputs;
    for (const Array& array : arrays) inputs.emplace_back(array);
    std::vector<Array> outputs;
    for (const Tensor& output : compute(inputs)) outputs.push_back(output.array());
    outputs[0] = outputs[0].to(promoted(arrays));
    return outputs;
  }

  Grads backward(const Grads& grads) override {
    const Tensor& g = grads[0];
    if (!g.defined()) return {};
    std::vector<Tensor> inputs;
    for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
    if (grad_enabled()) {
      return composed_backward(*this, inputs, {g}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{compute(in)[0].to(g.dtype())};
      });
    }
    return in_one_graph(inputs, g);
  }

  // Gradients of the inputs as float32, which the engine rounds.
  Grads in_one_graph(std::vector<Tensor> inputs, const Tensor& g) const {
    const EnableGrad enable_grad;
    std::vector<Tensor> leaves;
    for (int i = 0; i < input_count(); ++i) {
      Tensor& x = inputs[static_cast<size_t>(i)];
      x = widened(x.detach()).detach();
      if (needs(i)) leaves.push_back(x.requires_grad_());
    }
    Grads result;
    result.resize(input_count());
    const Tensor y = compute(inputs)[0];
    if (!y.requires_grad()) return result;
    const std::vector<Tensor> found =
        grad({y}, leaves, {.grad_outputs = {g.to(y.dtype())}, .allow_unused = true});
    size_t next = 0;
    for (int i = 0; i < input_count(); ++i) {
      if (needs(i)) result[i] = found[next++];
    }
    return result;
  }
};

}  // namespace

Tensor widened(const Tensor& x) { return is_half(x) ? x.to(kFloat32) : x; }

Tensor in_float32(const char* op, AutocastRule cast, const std::vector<Tensor>& inputs,
                  Definition definition) {
  return in_float32_multi(op, cast, inputs,
                          [definition = std::move(definition)](const std::vector<Tensor>& in) {
                            return std::vector<Tensor>{definition(in)};
                          })[0];
}

std::vector<Tensor> in_float32_multi(const char* op, AutocastRule cast,
                                     const std::vector<Tensor>& inputs, Definitions definitions) {
  std::vector<bool> given;
  std::vector<Tensor> present;
  for (const Tensor& x : inputs) {
    given.push_back(x.defined());
    if (x.defined()) present.push_back(x);
  }
  return record_multi_list(RoundedOnce(op, cast, std::move(given), std::move(definitions)),
                           present);
}

}  // namespace hero::detail
