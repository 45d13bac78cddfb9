#pragma once
// Module: parameters, buffers and child modules under names, and a forward pass with hooks.
//
//   struct MLP : nn::Module {
//     nn::Linear& fc1 = add<nn::Linear>("fc1", 784, 512);
//     nn::Linear& fc2 = add<nn::Linear>("fc2", 512, 10);
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hero/autograd/creation.h>
#include <hero/core/safetensors.h>
#include <hero/nn/init.h>

namespace hero::nn {

class Module;

/// Named arrays, as optimizers have them too; travels through core::save_safetensors.
using StateDict = std::vector<core::NamedArray>;
using Tensors = std::vector<Tensor>;

template <class T>
using Named = std::vector<std::pair<std::string, T>>;

/// Called before forward with its inputs; what it returns replaces them unless empty.
using ForwardPreHook = std::function<Tensors(Module& module, const Tensors& inputs)>;
/// Called after forward; what it returns replaces the outputs unless empty.
using ForwardHook =
    std::function<Tensors(Module& module, const Tensors& inputs, const Tensors& outputs)>;
/// Called in place of forward, with the inputs and with forward itself, which it may call any
/// number of times with inputs of its own; what it returns are the module's outputs.
using Forward = std::function<Tensors(const Tensors& inputs)>;
using ForwardWrapper =
    std::function<Tensors(Module& module, const Tensors& inputs, const Forward& forward)>;
/// for_parameters: the hook has to do with the module's parameters alone, which must be there while
/// it computes, and takes whatever tensors pass; a parent's fused form then has it around.
struct HookOptions {
  bool for_parameters = false;
};
struct ForwardHookOptions {
  bool always_call = false;
  bool for_parameters = false;
};
/// Called when the gradients of the outputs are known; what it returns replaces them unless empty.
using BackwardPreHook = std::function<Tensors(Module& module, const Tensors& grad_outputs)>;
/// Called when the gradients of the inputs are known (undefined where none is wanted); what it
/// returns replaces the latter unless empty.
using BackwardHook =
    std::function<Tensors(Module& module, const Tensors& grad_inputs, const Tensors& grad_outputs)>;

/// Modules made on this thread while it lives have their parameters and buffers on that device. On
/// meta (as after to(kMeta)) they are a plan that no rank's ledger knows, see planned_ledger():
/// what takes memory is what they become, whole by materialize() or shard by shard under
/// dist::fully_shard(). DDP and ZeRO charge a rank with what stays on meta, as simulated ranks have
/// it.
/// \snippet test_examples_networks.cpp DeviceScope
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device previous_;
};

/// Modules called on this thread while it lives compute as in evaluation, whatever their modes:
/// what other threads do with them is not touched.
class EvalScope {
 public:
  EvalScope();
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;
};

/// One registered parameter or buffer: the tensor and how to fill it again.
struct Slot {
  enum class Kind : uint8_t { parameter, buffer, buffer_not_saved };
  std::string name;
  Tensor tensor;  ///< undefined for one that an option left out
  Init init;      ///< no recipe: the values were given
  Stream stream;
  Kind kind = Kind::parameter;
};

struct LoadOptions {
  bool strict = true;  ///< names that are missing or unexpected are an Error
};
/// Names that did not meet; both empty after a strict load.
struct LoadResult {
  std::vector<std::string> missing, unexpected;
  std::string stripped;  ///< a wrapper's prefix that all names had and that was taken off
};

/// A module that is made of these arguments and the options that it names as its `Options`.
template <class M, class... Args>
concept TakesOptions = requires {
  typename M::Options;
}
&&std::constructible_from<M, Args..., const typename M::Options&>;

/// Base of all networks and layers. Names, order and behaviour are those of torch.nn.Module. A
/// module cannot be copied; it can be moved while nobody holds a reference to it.
/// \snippet test_examples_networks.cpp Module
class Module {
 public:
  Module();
  virtual ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  /// What the module computes of one tensor; modules with other signatures have their own
  /// operator() beside this.
  virtual Tensor forward(const Tensor& x);
  /// forward with hooks around it. Errors thrown inside end with the path below the outermost
  /// module: "..., in encoder.fc2".
  Tensor operator()(const Tensor& x);

  /// \name Members, in the order of registration: own first, then those of the children
  /// \{
  /// Each parameter once, also when tied under several names.
  Tensors parameters() const;
  Named<Tensor> named_parameters() const;
  Tensors buffers() const;
  Named<Tensor> named_buffers() const;
  /// Direct children.
  Named<Module*> named_children() const;
  std::vector<Module*> children() const;
  /// This module under the name "" and all below it.
  Named<Module*> named_modules();
  std::vector<Module*> modules();
  /// The module, parameter or buffer at a path such as "layers.0.weight"; an Error that names what
  /// there is when it is missing. get_submodule("") is this module.
  Module& get_submodule(const std::string& path);
  /// Another module in the place of the one at `path`, under its name: from now on calls, lists,
  /// states and conversions go to it, also where a parent calls by a reference of its own. Such a
  /// reference goes on to lead to the module that was there, whose members are no longer the
  /// model's: use the one returned. An Error where there is none at the path or it has hooks, and,
  /// when it is called, where the parent calls it with more than one tensor.
  /// \snippet test_examples_models.cpp replace
  Module& replace(const std::string& path, std::unique_ptr<Module> module);
  template <class M>
  M& replace(const std::string& path, M&& module) {
    static_assert(!std::is_lvalue_reference_v<M>, "a module can be moved, not copied");
    return static_cast<M&>(
        replace(path, std::unique_ptr<Module>(std::make_unique<M>(std::forward<M>(module)))));
  }
  Tensor get_parameter(const std::string& path);
  Tensor get_buffer(const std::string& path);
  /// All slots below this module with their full names; tied parameters under each name.
  Named<Slot*> slots();
  /// Number of elements of all parameters.
  int64_t parameter_count(bool trainable_only = false) const;
  /// \}

  /// \name Modes and conversions of the module and everything below it
  /// \{
  void train(bool on = true);
  void eval() { train(false); }
  /// True in training; false while an EvalScope lives on this thread.
  bool training() const;
  /// Floating parameters and buffers (and gradients) change dtype; tensors keep their identity, so
  /// an optimizer made before goes on with them. Shards too, on every rank and between two steps: a
  /// part of what is gathered together cannot be converted alone, an Error says so.
  void to(DType dtype);
  void to(Device device);
  /// Freezes (false) or thaws all parameters.
  void requires_grad_(bool value = true);
  void zero_grad(bool set_to_none = true);
  /// Calls fn with each module below, children first, then with this one.
  void apply(const std::function<void(Module&)>& fn);
  /// Draws new first values for all parameters and buffers that have a recipe; Tensors tied or
  /// given keep the first recipe they have, or their values.
  void reset_parameters();
  /// Gives everything that lies on meta bytes on `device` and the first values that building the
  /// module there would have given. On meta nothing gets bytes: what was a plan is from now on in
  /// the ledger, as a rehearsed rank's own.
  void materialize(Device device = kCpu);
  /// \}

  /// \name State
  /// \{
  /// Parameters and persistent buffers by full name. The arrays are the module's own, not copies.
  /// All four below are an Error on a module whose parameters are shards: dist::save_full() and
  /// dist::load_full() know the whole.
  StateDict state_dict() const;
  /// Copies values in, converting dtypes; what lies on meta gets bytes on the cpu. One Error lists
  /// all missing, unexpected and mis-shaped names, and then nothing has changed. A tied parameter
  /// may come under any of its names. The prefixes "module." and "_orig_mod." are taken off where
  /// all names have them.
  LoadResult load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// The same through a .safetensors file, which Python opens too.
  /// \snippet test_examples_networks.cpp save
  void save(const std::string& path) const;
  LoadResult load(const std::string& path, const LoadOptions& options = {});
  /// \}

  /// \name Hooks, run in the order of registration. A lambda that returns nothing will do.
  /// \{
  template <class F>
  HookHandle register_forward_pre_hook(F hook, const HookOptions& options = {}) {
    return add_forward_pre(ForwardPreHook(returning_tensors(std::move(hook))), options);
  }
  /// always_call: also when forward throws, with no outputs; what it returns does not count then.
  template <class F>
  HookHandle register_forward_hook(F hook, const ForwardHookOptions& options = {}) {
    return add_forward(ForwardHook(returning_tensors(std::move(hook))), options);
  }
  /// Runs inside the other hooks and sees to the parameters, which may be parts while it begins.
  /// Where it is for_parameters, a parent's fused form computes without it. One a module; an Error
  /// for a second.
  HookHandle register_forward_wrapper(ForwardWrapper wrapper, const HookOptions& options = {});
  template <class F>
  HookHandle register_full_backward_pre_hook(F hook, const HookOptions& options = {}) {
    return add_backward_pre(BackwardPreHook(returning_tensors(std::move(hook))), options);
  }
  template <class F>
  HookHandle register_full_backward_hook(F hook, const HookOptions& options = {}) {
    return add_backward(BackwardHook(returning_tensors(std::move(hook))), options);
  }
  /// \}

  /// \name What a parent asks that may compute a child's work itself, fused with more
  /// \{
  /// Hooks are there, of either kind.
  bool has_hooks() const;
  /// Hooks are there that see inputs, outputs or their gradients, or the module was replaced or
  /// does more than its class says: it must be called.
  bool has_hooks_for_values() const;
  /// body(x), which computes with this module's parameters, in place of a call, with the hooks that
  /// are for parameters around it. An Error where there are hooks for values.
  template <class F>
  Tensor run_fused(const Tensor& x, const F& body) {
    if (!hooks_ && !called_alone_) {
      check_whole();
      return body(x);
    }
    if (has_hooks_for_values()) fail(type_name(), ": its hooks see its values; call it instead");
    return run_around(
        {x}, [&body](const Tensors& in) { return Tensors{body(in[0])}; }, true)[0];
  }
  /// \}

  /// The name under which the parent holds it; "" at the root.
  const std::string& name() const { return name_; }
  /// The class's name, "Linear".
  virtual std::string type_name() const;
  /// Its options as PyTorch prints them, "in_features=784, out_features=512, bias=True".
  virtual std::string extra_repr() const { return ""; }

 protected:
  /// Makes and registers a child; its parameters' first values depend on the root's seed and their
  /// full name.
  template <class M, class... Args>
  M& add(const std::string& name, Args&&... args) {
    return make<M>(name, std::forward<Args>(args)...);
  }
  /// With the options in braces: add<nn::Linear>("q", 3, 4, {.bias = false}). A layer of your own
  /// takes them so if it names them: `using Options = MyOptions;`.
  template <class M>
  requires TakesOptions<M> M& add(const std::string& name, const typename M::Options& options) {
    return make<M>(name, options);
  }
  template <class M, class A>
  requires TakesOptions<M, A> M& add(const std::string& name, A&& a,
                                     const typename M::Options& options) {
    return make<M>(name, std::forward<A>(a), options);
  }
  template <class M, class A, class B>
  requires TakesOptions<M, A, B> M& add(const std::string& name, A&& a, B&& b,
                                        const typename M::Options& options) {
    return make<M>(name, std::forward<A>(a), std::forward<B>(b), options);
  }
  template <class M, class A, class B, class C>
  requires TakesOptions<M, A, B, C> M& add(const std::string& name, A&& a, B&& b, C&& c,
                                           const typename M::Options& options) {
    return make<M>(name, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), options);
  }
  /// Registers a child made elsewhere.
  Module& adopt(const std::string& name, std::unique_ptr<Module> child);
  /// Registers a parameter with first values by a recipe. The reference stays good; assigning
  /// another module's parameter to it ties the two.
  Tensor& parameter(const std::string& name, const Shape& shape, const Init& init,
                    DType dtype = kFloat32);
  /// Registers a leaf with values of its own.
  Tensor& parameter(const std::string& name, const Tensor& leaf);
  /// A name whose parameter an option left out: undefined, in no list.
  Tensor& no_parameter(const std::string& name);
  /// Takes a parameter of its own out again; references to it end.
  void remove_parameter(const std::string& name);
  /// Registers a tensor that is no parameter but moves and, unless not_saved, is saved with them.
  Tensor& buffer(const std::string& name, const Shape& shape, const Init& init,
                 DType dtype = kFloat32, Slot::Kind kind = Slot::Kind::buffer);
  Tensor& buffer(const std::string& name, const Tensor& values,
                 Slot::Kind kind = Slot::Kind::buffer);
  /// True of a module that computes with the boxes of its parameters that this rank holds, where
  /// they are cut into boxes (Partition::boxes); others need them whole.
  virtual bool computes_with_boxes() const { return false; }
  /// From now on has_hooks_for_values(): nobody else computes what this module computes.
  void set_called_alone(bool value) { called_alone_ = value; }
  /// Runs a forward of several tensors with the hooks around it.
  Tensors run_hooked(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& body);

 private:
  struct Hooks;
  // Tells the module made next on this thread where it stands; see module/module.cpp.
  class Building {
   public:
    Building(Module& parent, const std::string& name);
    ~Building();
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;
  };
  struct Origin {
    uint64_t seed = 0;
    std::string path;  // with a dot at the end; "" at the root
    bool seeded = false;
  };

  template <class M, class... Args>
  M& make(const std::string& name, Args&&... args) {
    const Building building(*this, name);
    auto child = std::make_unique<M>(std::forward<Args>(args)...);
    M& made = *child;
    adopt(name, std::move(child));
    return made;
  }
  template <class F>
  static auto returning_tensors(F hook) {
    return [hook = std::move(hook)](Module& module, const auto&... lists) mutable -> Tensors {
      if constexpr (std::is_void_v<decltype(hook(module, lists...))>) {
        hook(module, lists...);
        return {};
      } else {
        return hook(module, lists...);
      }
    };
  }
  HookHandle add_forward_pre(ForwardPreHook hook, const HookOptions& options);
  HookHandle add_forward(ForwardHook hook, const ForwardHookOptions& options);
  HookHandle add_backward_pre(BackwardPreHook hook, const HookOptions& options);
  HookHandle add_backward(BackwardHook hook, const HookOptions& options);
  Hooks& hooks();
  // What stands in this module's place: its replacement, or itself.
  Module& current() { return replacement_ ? replacement_->current() : *this; }
  const Module& current() const { return replacement_ ? replacement_->current() : *this; }
  // An Error where a parameter of its own is a shard, with which nothing can be computed.
  void check_whole() const;
  Tensors run_around(const Tensors& inputs, const Forward& body, bool fused);
  Stream stream_of(const std::string& name);
  Tensor& add_slot(Slot slot);
  void check_name(const char* what, const std::string& name) const;
  template <class Visit>
  void visit(const std::string& prefix, Visit&& visit_module);
  void set_path(const std::string& path);
  Slot* find_slot(const std::string& path, bool parameter);

  std::string name_;
  std::string path_;                          // from the outermost module known; for messages
  Origin origin_;                             // what first values hang on; see [note: first values]
  std::vector<std::unique_ptr<Slot>> slots_;  // pointers: references to the tensors stay good
  std::vector<std::unique_ptr<Module>> children_;
  std::unique_ptr<Module> replacement_;  // see replace()
  std::shared_ptr<Hooks> hooks_;         // shared only as that needs no complete type
  bool called_alone_ = false;
  mutable bool training_ = true;  // read and written as an atomic: see training()

  friend class ModuleWriter;
};

/// The tree of modules as PyTorch prints it.
std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace hero::nn
