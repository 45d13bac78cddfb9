// Calling a module: its path for error messages, and the hooks around forward and backward.
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/threads/thread_state.h>
#include <hero/nn/hooks.h>
#include <hero/nn/module.h>

namespace hero::nn {

using hero::detail::Hook;

struct Module::Hooks {
  Module* module = nullptr;  // whose hooks they are, also after it was moved
  std::vector<Hook<ForwardPreHook>> forward_pre;
  std::vector<Hook<ForwardHook>> forward;
  std::vector<Hook<ForwardHook>> on_error;  // those of `forward` that are always called
  std::vector<Hook<BackwardPreHook>> backward_pre;
  std::vector<Hook<BackwardHook>> backward;
  std::vector<Hook<ForwardWrapper>> wrapper;  // one, and those that were removed
  // Of each hook whether it is still there, those for values and those for parameters.
  std::vector<std::shared_ptr<std::atomic<bool>>> for_values, for_parameters;
  std::vector<std::shared_ptr<std::atomic<bool>>>& kind(bool parameters) {
    return parameters ? for_parameters : for_values;
  }
};

Module::~Module() = default;
Module::Module(Module&& other) noexcept
    : name_(std::move(other.name_)),
      path_(std::move(other.path_)),
      origin_(std::move(other.origin_)),
      slots_(std::move(other.slots_)),
      children_(std::move(other.children_)),
      members_(std::move(other.members_)),
      referred_(std::move(other.referred_)),
      replacement_(std::move(other.replacement_)),
      hooks_(std::move(other.hooks_)),
      called_alone_(other.called_alone_),
      moved_from_(std::exchange(other.moved_from_, true)),
      training_(other.training_) {
  if (hooks_) hooks_->module = this;
}
Module& Module::operator=(Module&& other) {
  if (this == &other) return *this;
  check(
      !hooks_ || !has_hooks(), "operator=: ", path_.empty() ? type_name() : path_,
      " has hooks, which the module that is moved into it would not; move it there before they are "
      "registered (and before DDP, ZeRO, fully_shard() or tensor_parallel()), or remove them");
  // name_ and path_ stay: they are its place among the modules of its parent
  origin_ = std::move(other.origin_);
  slots_ = std::move(other.slots_);
  children_ = std::move(other.children_);
  members_ = std::move(other.members_);
  referred_ = std::move(other.referred_);
  replacement_ = std::move(other.replacement_);
  hooks_ = std::move(other.hooks_);
  called_alone_ = other.called_alone_;
  moved_from_ = std::exchange(other.moved_from_, true);
  training_ = other.training_;
  if (hooks_) hooks_->module = this;
  set_path(std::string(path_));
  return *this;
}

namespace {

// Those that were removed since, or a program that registers and removes one in each step would
// have ever longer lists. A list may be running: what lies before a living hook keeps its place.
template <class F>
void drop_removed(std::vector<Hook<F>>& list) {
  while (!list.empty() && !list.back().alive->load()) list.pop_back();
}

template <class F>
HookHandle append(std::vector<Hook<F>>& list, F hook,
                  std::vector<std::shared_ptr<std::atomic<bool>>>& kind, bool prepend = false) {
  drop_removed(list);
  std::erase_if(kind, [](const auto& alive) { return !alive->load(); });
  const auto alive = std::make_shared<std::atomic<bool>>(true);
  list.insert(prepend ? list.begin() : list.end(), {std::move(hook), alive});
  kind.push_back(alive);
  return HookHandle(alive);
}

bool any_alive(const std::vector<std::shared_ptr<std::atomic<bool>>>& kind) {
  return std::any_of(kind.begin(), kind.end(), [](const auto& alive) { return alive->load(); });
}

template <class F>
bool any_alive(const std::vector<Hook<F>>& list) {
  for (const auto& hook : list) {
    if (*hook.alive) return true;
  }
  return false;
}

template <class F>
bool any_of_kind(const std::vector<Hook<F>>& list,
                 const std::vector<std::shared_ptr<std::atomic<bool>>>& kind) {
  return std::any_of(list.begin(), list.end(), [&](const auto& hook) {
    return *hook.alive && std::count(kind.begin(), kind.end(), hook.alive) > 0;
  });
}

// What a hook returned takes the place of what it was given; nothing returned leaves it.
void replace_values(Tensors& values, Tensors&& returned, const Module& module, const char* what) {
  if (returned.empty()) return;
  check(returned.size() == values.size(), what, ": a hook of ", module.type_name(), " returned ",
        returned.size(), " tensors in place of ", values.size());
  values = std::move(returned);
}

bool any_defined(const Tensors& list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& x) { return x.defined(); });
}

// What the two ends of a module's backward share.
struct BackwardPass {
  std::weak_ptr<Module*> hooked;  // the module, as long as it is there
  std::vector<Hook<BackwardPreHook>> pre;
  std::vector<Hook<BackwardHook>> hooks;
  Tensors grad_outputs;
  bool for_values = false;  // a hook looks at gradients
  // Those of `hooks` that are for parameters, if no input wants a gradient.
  std::vector<std::shared_ptr<std::atomic<bool>>> for_parameters;

  Module& module() const {
    const auto found = hooked.lock();
    check(
        found != nullptr,
        "backward: a module whose full backward hooks would run, as those of ZeRO and FSDP do, is "
        "not there any more; keep it until backward has ended");
    return **found;
  }
  void leave(Tensors& grad_inputs) const {
    for (const auto& hook : hooks) {
      if (!*hook.alive) continue;
      Module& of = module();
      replace_values(grad_inputs, hook.call(of, grad_inputs, grad_outputs), of,
                     "full backward hook");
    }
  }
  // Where no input wants a gradient, with the gradients of the outputs: to hooks for parameters the
  // empty list says that the rest of the module's backward is still to come.
  void leave_at_outputs(size_t inputs) const {
    for (const auto& hook : hooks) {
      if (!*hook.alive) continue;
      const bool prepares =
          std::count(for_parameters.begin(), for_parameters.end(), hook.alive) > 0;
      Tensors none(prepares ? 0 : inputs);
      replace_values(none, hook.call(module(), none, grad_outputs), module(), "full backward hook");
      check(!any_defined(none), "full backward hook: a hook of ", module().type_name(),
            " returned a gradient for an input that needs none; return nothing there");
    }
  }
};

Tensors as_tensors(const Grads& grads) { return {grads.begin(), grads.end()}; }

Grads as_grads(const Tensors& list) {
  Grads grads;
  for (const Tensor& tensor : list) grads.push_back(tensor);
  return grads;
}

Grads no_grads(int count) {
  Grads grads;
  grads.resize(count);
  return grads;
}

std::vector<Array> same_arrays(std::span<const Array> inputs) {
  return {inputs.begin(), inputs.end()};
}

// The module's outputs, unchanged; its backward runs first.
struct OutputEnd : IdentityOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  std::shared_ptr<BackwardPass> pass;
  std::optional<size_t> inputs_without_grad;  // how many there are, if none wants a gradient
  OutputEnd(std::shared_ptr<BackwardPass> p, std::optional<size_t> n)
      : IdentityOp(!p->for_values), pass(std::move(p)), inputs_without_grad(n) {}
  const char* name() const override { return "module_output"; }
  int viewed_input(int output) const override { return output; }
  std::vector<Array> forward(std::span<const Array> inputs) { return same_arrays(inputs); }
  Grads backward(const Grads& grads) override {
    Tensors list = as_tensors(grads);
    for (const auto& hook : pass->pre) {
      if (!*hook.alive) continue;
      Module& of = pass->module();
      replace_values(list, hook.call(of, list), of, "full backward pre-hook");
    }
    pass->grad_outputs = list;
    if (inputs_without_grad)
      pass->leave_at_outputs(*inputs_without_grad);  // no other end will be reached
    return as_grads(list);
  }
  void bypassed() override { backward(no_grads(output_count())); }
};

// The module's inputs, unchanged; its backward runs last.
struct InputEnd : IdentityOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  std::shared_ptr<BackwardPass> pass;
  explicit InputEnd(std::shared_ptr<BackwardPass> p)
      : IdentityOp(!p->for_values), pass(std::move(p)) {}
  const char* name() const override { return "module_input"; }
  int viewed_input(int output) const override { return output; }
  std::vector<Array> forward(std::span<const Array> inputs) { return same_arrays(inputs); }
  Grads backward(const Grads& grads) override {
    Tensors list = as_tensors(grads);
    pass->leave(list);
    pass->grad_outputs.clear();
    return as_grads(list);
  }
  void bypassed() override { backward(no_grads(output_count())); }
};

bool any_wants_grad(const Tensors& list) {
  for (const Tensor& tensor : list) {
    if (tensor.defined() && tensor.requires_grad()) return true;
  }
  return false;
}

// Runs an identity over the defined tensors of a list. Where nobody looks at their gradients one
// that is there several times stays one: attention to itself, for one, is computed otherwise than
// attention of three.
template <class End>
void put_end(Tensors& list, End end, bool looked_at) {
  Tensors given;
  std::vector<size_t> places;
  for (const Tensor& tensor : list) {
    const auto known = std::find_if(given.begin(), given.end(), [&](const Tensor& other) {
      return !looked_at && is_same(other, tensor);
    });
    places.push_back(static_cast<size_t>(known - given.begin()));
    if (tensor.defined() && known == given.end()) given.push_back(tensor);
  }
  const Tensors through = record_multi_list(std::move(end), given);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].defined()) list[i] = through[places[i]];
  }
}

}  // namespace

void Module::fail_moved() const {
  fail(type_name(), ": it was moved from; use the module that it was moved into");
}

Module::Hooks& Module::hooks() {
  check_not_moved();
  if (replacement_) return replacement_->hooks();
  if (!hooks_) {
    hooks_ = std::make_shared<Hooks>();
    hooks_->module = this;
  }
  return *hooks_;
}
bool Module::has_hooks_for_values() const {
  return called_alone_ || (hooks_ && any_alive(hooks_->for_values));
}
bool Module::has_hooks() const {
  return has_hooks_for_values() || (hooks_ && any_alive(hooks_->for_parameters));
}
HookHandle Module::add_forward_pre(ForwardPreHook hook, const HookOptions& options) {
  return append(hooks().forward_pre, std::move(hook), hooks().kind(options.for_parameters),
                options.prepend);
}
HookHandle Module::add_forward(ForwardHook hook, const ForwardHookOptions& options) {
  HookHandle handle =
      append(hooks().forward, std::move(hook), hooks().kind(options.for_parameters));
  if (options.always_call) {
    drop_removed(hooks().on_error);
    hooks().on_error.push_back(hooks().forward.back());
  }
  return handle;
}
HookHandle Module::register_forward_wrapper(ForwardWrapper wrapper, const HookOptions& options) {
  check(!any_alive(hooks().wrapper), type_name(),
        ": has a forward wrapper already; remove it first");
  return append(hooks().wrapper, std::move(wrapper), hooks().kind(options.for_parameters),
                options.prepend);
}
HookHandle Module::add_backward_pre(BackwardPreHook hook, const HookOptions& options) {
  return append(hooks().backward_pre, std::move(hook), hooks().kind(options.for_parameters),
                options.prepend);
}
HookHandle Module::add_backward(BackwardHook hook, const HookOptions& options) {
  return append(hooks().backward, std::move(hook), hooks().kind(options.for_parameters),
                options.prepend);
}

Tensor Module::operator()(const Tensor& x) {
  if (replacement_) [[unlikely]]
    return (*replacement_)(x);
  if (hooks_) {
    return run_hooked({x}, [this](const Tensors& in) { return Tensors{forward(in[0])}; })[0];
  }
  const PlaceScope place(path_);
  check_whole();
  return forward(x);
}

Tensors Module::run_hooked(const Tensors& inputs,
                           const std::function<Tensors(const Tensors&)>& body) {
  const PlaceScope place(path_);
  if (replacement_) {
    fail(type_name(), ": it was replaced by a ", current().type_name(),
         ", which is called with one tensor, and its parent calls it with more");
  }
  if (hooks_) return run_around(inputs, body, false);
  check_whole();
  return body(inputs);
}

namespace {

// The leaf is whole boxes, in their shape, and no interval of them.
bool has_all_boxes(const Tensor& leaf, const Partition& part) {
  return !part.boxes.empty() && leaf.ndim() == part.whole.size() &&
         leaf.numel() == layout::numel(part.whole, part.boxes);
}

}  // namespace

void Module::check_whole() const {
  check_not_moved();
  for (const auto& slot : slots_) {
    const Partition* part = partition(slot->tensor);
    if (part == nullptr) [[likely]]
      continue;
    // all of it, where other ranks hold other parameters of the model
    if (!part->boxes.empty() && slot->tensor.shape() == part->whole) continue;
    if (computes_with_boxes() && has_all_boxes(slot->tensor, *part)) continue;
    fail(
        type_name(), ": its ", slot->name, " is a shard, ", describe_part(slot->tensor),
        "; parameters are whole inside the forward of the module that was sharded: call that "
        "module itself, and where it has its own operator() or loss(), compute inside run_hooked() "
        "there");
  }
}

namespace {
thread_local int without_hooks = 0;  // WithoutHooks that live on this thread
[[maybe_unused]] const core::ThreadSlot<int> kWithoutHooksSlot([] { return without_hooks; },
                                                               [](int n) { without_hooks = n; });
}  // namespace

WithoutHooks::WithoutHooks() { ++without_hooks; }
WithoutHooks::~WithoutHooks() { --without_hooks; }
bool WithoutHooks::active() { return without_hooks > 0; }

Tensors Module::run_around(const Tensors& inputs, const Forward& body, bool fused) {
  if (without_hooks > 0) {
    check_whole();
    return body(inputs);
  }
  Tensors in = inputs;
  // By index: a hook may add hooks or remove itself.
  for (size_t i = 0; i < hooks_->forward_pre.size(); ++i) {
    const auto hook = hooks_->forward_pre[i];
    if (*hook.alive) replace_values(in, hook.call(*this, in), *this, "forward pre-hook");
  }
  const auto wrapper = std::find_if(hooks_->wrapper.begin(), hooks_->wrapper.end(),
                                    [](const auto& hook) { return hook.alive->load(); });
  const bool wrapped = wrapper != hooks_->wrapper.end();
  if (!wrapped) check_whole();  // whoever gathers parameters has done so by now
  std::shared_ptr<BackwardPass> pass;
  if (grad_enabled() && (any_alive(hooks_->backward_pre) || any_alive(hooks_->backward))) {
    const auto& values = hooks_->for_values;
    pass = std::make_shared<BackwardPass>(BackwardPass{
        std::shared_ptr<Module*>(hooks_, &hooks_->module),
        hooks_->backward_pre,
        hooks_->backward,
        {},
        any_of_kind(hooks_->backward_pre, values) || any_of_kind(hooks_->backward, values),
        {}});
  }
  std::optional<size_t> without_grad;
  if (pass && any_wants_grad(in)) {
    put_end(in, InputEnd(pass), pass->for_values);
  } else if (pass) {
    without_grad = in.size();
    pass->for_parameters = hooks_->for_parameters;
  }
  Tensors out;
  try {
    out = wrapped && !fused ? Hook<ForwardWrapper>(*wrapper).call(*this, in, body) : body(in);
  } catch (...) {
    for (const auto& hook : std::vector(hooks_->on_error)) {
      if (*hook.alive) hook.call(*this, in, {});
    }
    throw;
  }
  for (size_t i = 0; i < hooks_->forward.size(); ++i) {
    const auto hook = hooks_->forward[i];
    if (*hook.alive) replace_values(out, hook.call(*this, in, out), *this, "forward hook");
  }
  if (pass && any_wants_grad(out)) {
    put_end(out, OutputEnd(pass, without_grad), pass->for_values);
  }
  return out;
}

}  // namespace hero::nn
