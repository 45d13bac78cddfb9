#include <ostream>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/graph/engine.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/tensor.h>
#include <hero/autograd/tensor/memory.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/print.h>

namespace hero {

namespace {

core::Ref<detail::TensorImpl> make_impl(Array&& array) {
  check(array.defined(), "tensor: the array is undefined");
  void* memory = core::allocate(sizeof(detail::TensorImpl));
  return core::Ref<detail::TensorImpl>::adopt(new (memory) detail::TensorImpl(std::move(array)));
}

Tensor seed(const Tensor& output, const Tensor& gradient, const char* op) {
  if (gradient.defined()) {
    check(gradient.shape() == output.shape(), op, ": gradient of shape ", gradient.shape(),
          " for an output of shape ", output.shape());
    return gradient.dtype() == output.dtype() ? gradient : gradient.to(output.dtype());
  }
  check(output.numel() == 1, op, ": the output has shape ", output.shape(),
        "; only a one-element output needs no gradient given");
  return Tensor(Array::ones(output.shape(), output.dtype(), output.device()));
}

}  // namespace

BackwardRequest make_backward_request(const char* op, const std::vector<Tensor>& outputs,
                                      const std::vector<Tensor>& gradients) {
  check(gradients.empty() || gradients.size() == outputs.size(), op, ": ", gradients.size(),
        " gradients for ", outputs.size(), " outputs");
  BackwardRequest walk;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].defined(), op, ": output ", i, " is undefined");
    check(detail::Recorder::wants_grad(op, outputs[i]), op, ": output ", i, " of shape ",
          outputs[i].shape(), " does not require grad: no recorded operation leads to it");
    walk.roots.push_back(detail::gradient_edge(outputs[i]));
    walk.gradients.push_back(seed(outputs[i], gradients.empty() ? Tensor() : gradients[i], op));
  }
  return walk;
}

void HookHandle::remove() {
  if (const auto alive = alive_.lock()) *alive = false;
}

Tensor::Tensor(Array array, bool requires_grad) : impl_(make_impl(std::move(array))) {
  if (requires_grad) requires_grad_();
}

Tensor Tensor::from_impl(core::Ref<detail::TensorImpl> impl) {
  Tensor tensor;
  tensor.impl_ = std::move(impl);
  return tensor;
}

const Array& Tensor::array() const {
  check(defined(), "tensor: it", detail::kUndefined);
  return impl_->data;
}

std::byte* Tensor::host_bytes(const char* op, DType dtype, int ndim) const {
  detail::check_host_values(op, *this, dtype);
  const Array& array = impl_->data;
  check(ndim < 0 || array.ndim() == ndim, op, ": the tensor has ", array.ndim(),
        " dimensions, shape ", array.shape(), ", asked for ", ndim);
  check(ndim >= 0 || array.is_contiguous(), op, ": the tensor has gaps or another order, shape ",
        array.shape(), " with strides ", array.strides(), "; take contiguous() first");
  return array.bytes();
}

bool Tensor::requires_grad() const {
  if (!impl_) return false;
  detail::Recorder::renew(*impl_);
  return impl_->requires_grad || impl_->grad_fn;
}

const Tensor& Tensor::requires_grad_(bool value) const {
  check(defined(), "requires_grad_: the tensor is undefined");
  if (value && !is_leaf()) return *this;  // it does already
  if (!is_leaf()) {
    fail("requires_grad_: only leaves can be changed, and this is a result of ", grad_fn()->name(),
         "; use detach()");
  }
  check(!value || is_floating(dtype()), "requires_grad_: tensor is ", dtype(),
        "; only floating dtypes have gradients");
  impl_->requires_grad = value;
  impl_->is_requires_grad_set = true;
  return *this;
}

bool Tensor::is_leaf() const { return grad_fn() == nullptr; }
Tensor Tensor::grad() const {
  if (!impl_) return {};
  const detail::LeafTurn turn(impl_->lock);
  return from_impl(impl_->grad);
}

void Tensor::set_grad(const Tensor& grad) const {
  check(defined(), "set_grad: the tensor is undefined");
  if (grad.defined()) {
    check(grad.shape() == shape() && grad.dtype() == dtype() && grad.device() == device(),
          "set_grad: gradient ", grad.shape(), " ", grad.dtype(), " ", grad.device(),
          " for a tensor ", shape(), " ", dtype(), " ", device());
  }
  core::Ref<detail::TensorImpl> former = grad.impl_;  // freed outside of the lock
  const detail::LeafTurn turn(impl_->lock);
  former.swap(impl_->grad);
}

const Tensor& Tensor::retain_grad() const {
  check(requires_grad(), "retain_grad: the tensor does not require grad");
  if (is_leaf() || impl_->retains_grad) return *this;
  impl_->retains_grad = true;
  // The node is owned by this tensor, so the hook may only point back; ~TensorImpl takes it off.
  detail::TensorImpl* self = impl_.get();
  auto alive = append_hook([self](const Tensor& g) {
    self->grad = (self->grad ? from_impl(self->grad) + g : g).impl_;
    return Tensor();
  });
  impl_->make_hooks().retaining = std::move(alive);
  return *this;
}

void Tensor::backward(const BackwardOptions& options) const {
  hero::backward({*this}, {}, options);
}

void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  hero::backward({*this}, {gradient}, options);
}

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              const BackwardOptions& options) {
  BackwardRequest walk = make_backward_request("backward", outputs, gradients);
  walk.create_graph = options.create_graph;
  walk.retain_graph = options.retain_graph || options.create_graph;
  run_backward(std::move(walk));
}

namespace {

// What ranks share among them is averaged by backward() alone. Of a whole weight that is there for
// a while, a recorded gradient can still go into this rank's loss; any other would be taken for the
// mean, and has not the shape of what an optimizer holds.
void check_gradient_is_ours(const Tensor& input, size_t i) {
  const auto kept = parameter_owner(input);
  if (!kept) return;
  fail("grad: input ", i,
       " is a shard, or the whole parameter that is gathered from shards: ", kept->describe(input),
       "; grad() averages nothing over the ranks: call backward(), which leaves each rank its part "
       "of the mean");
}

}  // namespace

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  BackwardRequest walk = make_backward_request("grad", outputs, options.grad_outputs);
  walk.create_graph = options.create_graph;
  walk.retain_graph = options.retain_graph || options.create_graph;
  for (size_t i = 0; i < inputs.size(); ++i) {
    walk.captures.push_back(detail::gradient_edge(inputs[i]));
    check(static_cast<bool>(walk.captures.back().node), "grad: input ", i,
          " does not require grad");
    if (!options.create_graph) check_gradient_is_ours(inputs[i], i);
  }
  if (inputs.empty()) return {};
  std::vector<Tensor> result = run_backward(std::move(walk));
  for (size_t i = 0; i < result.size(); ++i) {
    check(result[i].defined() || options.allow_unused || partition(inputs[i]) == nullptr,
          "grad: input ", i, " is a shard, ", describe_part(inputs[i]),
          ", and outputs depend on the whole; call backward(), which leaves each rank its part of "
          "the gradient");
    check(result[i].defined() || options.allow_unused, "grad: the outputs do not depend on input ",
          i, "; pass allow_unused = true to get an undefined gradient");
    if (!options.create_graph && result[i].defined()) result[i] = result[i].detach();
  }
  return result;
}

Tensor Tensor::detach() const {
  Tensor result(array());
  result.impl_->detached = true;
  return result;
}

const Tensor& Tensor::set_data(const Array& array) const {
  check(defined() && array.defined(), "set_data: the ", defined() ? "array" : "tensor",
        " is undefined");
  check(is_leaf(), "set_data: the tensor of shape ", shape(), " was computed by ",
        is_leaf() ? "" : impl_->grad_fn->name(), "; only a leaf's values can be replaced");
  if (const auto kept = parameter_owner(*this)) {
    fail("set_data: ", kept->describe(*this),
         ", whose ranks would go on with the memory that it has; write values with copy_() while "
         "NoGrad lives, convert with Module::to(), read files with dist::load_full()");
  }
  check(array.shape() == shape(), "set_data: values of shape ", array.shape(),
        " for a tensor of shape ", shape());
  check(!impl_->requires_grad || is_floating(array.dtype()), "set_data: values are ", array.dtype(),
        " but the tensor requires grad; only floating dtypes have gradients");
  if (impl_->grad && (array.dtype() != dtype() || array.device() != device())) {
    const NoGrad no_grad;
    const MemoryScope scope(MemoryTag::gradient);
    impl_->grad = grad().to(array.dtype()).to(array.device()).detach().impl_;
  }
  impl_->data = array;
  impl_->base = {};
  impl_->history = array.storage().history();
  AccumulateGrad::leave(*impl_);  // older graphs keep the node, which knows that it was left behind
  return *this;
}

namespace {

// Of those that were removed the last ones go: each_hook() may be running, and those that live keep
// their places.
template <class F>
void drop_removed(std::vector<detail::Hook<F>>& list) {
  while (!list.empty() && !list.back().alive->load()) list.pop_back();
}

}  // namespace

std::shared_ptr<std::atomic<bool>> Tensor::append_hook(TensorHook hook) const {
  auto alive = std::make_shared<std::atomic<bool>>(true);
  if (impl_->grad_fn) {
    auto& hooks = impl_->grad_fn->hooks_;
    if (!hooks) hooks = std::make_unique<std::vector<std::pair<int, detail::Hook<TensorHook>>>>();
    hooks->push_back({impl_->output_index, {std::move(hook), alive}});
  } else {
    detail::Hooks& hooks = impl_->make_hooks();
    const detail::LeafTurn turn(impl_->lock);
    drop_removed(hooks.tensor);
    hooks.tensor.push_back({std::move(hook), alive});
  }
  return alive;
}

HookHandle Tensor::register_hook(TensorHook hook) const {
  check(requires_grad(), "register_hook: the tensor does not require grad");
  return HookHandle(append_hook(std::move(hook)));
}

HookHandle Tensor::register_leaf_hook(LeafHook hook) const {
  check(requires_grad() && is_leaf(),
        "register_leaf_hook: the tensor is not a leaf that requires "
        "grad");
  auto alive = std::make_shared<std::atomic<bool>>(true);
  detail::Hooks& hooks = impl_->make_hooks();
  const detail::LeafTurn turn(impl_->lock);
  drop_removed(hooks.leaf);
  hooks.leaf.push_back({std::move(hook), alive});
  return HookHandle(alive);
}

const detail::Node* Tensor::grad_fn() const {
  if (!impl_) return nullptr;
  detail::Recorder::renew(*impl_);
  return impl_->grad_fn.get();
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "Tensor (undefined)";
  std::string trailer = "Tensor" + to_string(tensor.shape()) + " " + name(tensor.dtype()) + " " +
                        to_string(tensor.device());
  if (tensor.requires_grad()) trailer += " requires_grad";
  return core::to_string(tensor.array(), trailer);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

}  // namespace hero
