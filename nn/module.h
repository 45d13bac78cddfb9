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
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/core/safetensors.h>
#include <hero/nn/hooks.h>
#include <hero/nn/init.h>

namespace hero::nn {

/// Named arrays, as optimizers have them too. core::save_safetensors() writes them.
using StateDict = std::vector<core::NamedArray>;

template <class T>
using Named = std::vector<std::pair<std::string, T>>;

/// While it lives, modules made on this thread have their parameters and buffers on the given
/// device. On meta (as after to(kMeta)) they are only planned and in no rank's ledger, see
/// planned_ledger(): memory is taken when materialize() makes them, or dist::fully_shard() their
/// shards. For parameters that stay on meta, as on simulated ranks, DDP and ZeRO charge each rank's
/// ledger.
/// \snippet test_examples_networks.cpp DeviceScope
class DeviceScope {
 public:
  /// Begins the scope.
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// The innermost scope's device on this thread; cpu outside of any.
  static Device current();

 private:
  Device previous_;
};

/// While it lives, modules called on this thread compute as in evaluation, whatever their modes
/// are. Other threads that call the same modules are not affected.
class EvalScope {
 public:
  EvalScope();
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;
};

/// A registered parameter or buffer: the tensor, and how it is initialised.
struct Slot {
  enum class Kind : uint8_t { parameter, buffer, buffer_not_saved };
  std::string name;             ///< name in the module
  Tensor tensor;                ///< undefined if an option left it out
  Init init;                    ///< its initialiser; empty if the values were given
  RandomStream stream;          ///< the random stream that its initial values come from
  Kind kind = Kind::parameter;  ///< parameter, saved buffer or buffer that is not saved
};

/// Options of Module::load_state_dict().
struct LoadOptions {
  bool strict = true;  ///< true: names that are missing or unexpected are an Error
};
/// Which names did not match; both lists are empty after a strict load.
struct LoadResult {
  /// Names without an entry, and entries without a name.
  std::vector<std::string> missing, unexpected;
  std::string stripped;  ///< the prefix of a wrapper that all names had and that was removed
};

/// True if M can be made from arguments of types Args followed by its `Options`.
template <class M, class... Args>
concept TakesOptions = requires {
  typename M::Options;
}
&&std::constructible_from<M, Args..., const typename M::Options&>;

/// The base class of all networks and layers. Names, order and behaviour are those of
/// torch.nn.Module. A module cannot be copied; it can be moved as long as nothing refers to it.
/// Using a module that was moved from throws an Error until another one is moved into it. A module
/// into which another one is moved keeps its own name in its parent; one that has hooks refuses.
/// \snippet test_examples_networks.cpp Module
class Module {
 public:
  Module();
  virtual ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&);

  /// Computes the module's output for one tensor. Modules with other signatures have an operator()
  /// of their own beside this function.
  virtual Tensor forward(const Tensor& x);
  /// Calls forward() with the hooks around it. The message of an Error that is thrown inside ends
  /// with the module's path below the outermost module: "..., in encoder.fc2".
  Tensor operator()(const Tensor& x);

  /// \name Members, in the order of registration: the module's own first, then those of its
  /// children
  /// \{
  /// All parameters, each once, also if tied under several names.
  Tensors parameters() const;
  Named<Tensor> named_parameters() const;
  Tensors buffers() const;
  Named<Tensor> named_buffers() const;
  /// The direct children.
  Named<Module*> named_children() const;
  std::vector<Module*> children() const;
  /// This module, under the name "", and all modules below it.
  Named<Module*> named_modules();
  std::vector<Module*> modules();
  /// The module, parameter or buffer at a path such as "layers.0.weight"; throws an Error that
  /// lists the names that exist if there is none. get_submodule("") is this module.
  Module& get_submodule(const std::string& path);
  /// Puts another module in the place of the one at `path`, under the same name: from now on calls,
  /// lists, states and conversions reach the new module, also if a parent calls it by a reference
  /// of its own. Such a reference still refers to the old module, whose members no longer belong to
  /// the model, so use the one returned. Throws an Error if there is no module at the path or it
  /// has hooks; a later call with more than one tensor throws, too.
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
  /// All slots of this module and those below, with full names; tied parameters come under each
  /// name.
  Named<Slot*> slots();
  /// The number of elements of all parameters, or only of those that require gradients.
  int64_t parameter_count(bool trainable_only = false) const;
  /// \}

  /// \name Modes and conversions of the module and everything below it
  /// \{
  /// Sets training or evaluation mode.
  void train(bool on = true);
  void eval() { train(false); }
  /// True in training mode; false in evaluation mode, or while an EvalScope lives on this thread.
  bool training() const;
  /// Converts floating parameters and buffers, and gradients, to a dtype. The tensors stay the same
  /// objects, so an existing optimizer keeps working. It also converts shards: call it on every
  /// rank, between steps. Throws an Error if only some of the parameters gathered together would be
  /// converted.
  void to(DType dtype);
  /// Moves parameters, buffers and gradients to a device.
  void to(Device device);
  /// Makes all parameters train (true), or freezes them (false).
  void requires_grad_(bool value = true);
  /// Removes all gradients, or fills them with zeros if set_to_none is false.
  void zero_grad(bool set_to_none = true);
  /// Calls fn with each module below this one, children before parents, then with this one.
  void apply(const std::function<void(Module&)>& fn);
  /// Initialises all parameters and buffers anew. Tied tensors use their first initialiser; tensors
  /// whose values were given keep them.
  void reset_parameters();
  /// Allocates everything that is on meta on `device`, with the values that the module would have
  /// had if made there. On meta nothing is allocated, but the tensors are in the ledger from now
  /// on, as a simulated rank's own.
  void materialize(Device device = kCpu);
  /// \}

  /// \name State
  /// \{
  /// Parameters and persistent buffers by full name. The arrays are the module's own, not copies.
  /// For shards these four functions throw an Error: use dist::save_full() and load_full().
  StateDict state_dict() const;
  /// Copies values into the module, converting dtypes; tensors on meta are allocated on the cpu.
  /// Throws one Error that lists all missing, unexpected and mis-shaped names, and then has changed
  /// nothing. A tied parameter may come under any of its names. If all names begin with "module."
  /// or "_orig_mod.", the prefix is removed.
  LoadResult load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// Writes or reads a .safetensors file, which Python can open, too.
  /// \snippet test_examples_networks.cpp save
  void save(const std::string& path) const;
  LoadResult load(const std::string& path, const LoadOptions& options = {});
  /// \}

  /// \name Hooks, which run in the order of registration. A lambda may return nothing.
  /// \{
  /// Registers a hook that runs before forward().
  template <class F>
  HookHandle register_forward_pre_hook(F hook, const HookOptions& options = {}) {
    return add_forward_pre(ForwardPreHook(returning_tensors(std::move(hook))), options);
  }
  /// Registers a hook that runs after forward(). With always_call it runs, without outputs, also if
  /// forward() throws; what it returns is then ignored.
  template <class F>
  HookHandle register_forward_hook(F hook, const ForwardHookOptions& options = {}) {
    return add_forward(ForwardHook(returning_tensors(std::move(hook))), options);
  }
  /// Registers a wrapper of forward(), which runs inside the other hooks. Parameters may still be
  /// shards when it begins. A parent that fuses the module computes without a wrapper that is
  /// for_parameters. A second wrapper is an Error.
  HookHandle register_forward_wrapper(ForwardWrapper wrapper, const HookOptions& options = {});
  /// Registers a hook of the gradients of the outputs.
  template <class F>
  HookHandle register_full_backward_pre_hook(F hook, const HookOptions& options = {}) {
    return add_backward_pre(BackwardPreHook(returning_tensors(std::move(hook))), options);
  }
  /// Registers a hook of the gradients of the inputs.
  template <class F>
  HookHandle register_full_backward_hook(F hook, const HookOptions& options = {}) {
    return add_backward(BackwardHook(returning_tensors(std::move(hook))), options);
  }
  /// \}

  /// \name For parents that compute a child's work themselves, fused with more
  /// \{
  /// True if there are hooks, of either kind.
  bool has_hooks() const;
  /// True if a parent has to call the module instead of computing its work: it has hooks for values
  /// or gradients, it was replaced, or it computes more than its class, see set_called_alone().
  bool has_hooks_for_values() const;
  /// Runs body(x), which computes with this module's parameters, in place of a call, with the hooks
  /// for parameters around it. Throws an Error if there are hooks for values.
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

  /// Its name in the parent; "" at the root.
  const std::string& name() const { return name_; }
  /// The name of the class, such as "Linear".
  virtual std::string type_name() const;
  /// The options as PyTorch prints them, such as "in_features=784, out_features=512, bias=True".
  virtual std::string extra_repr() const { return ""; }

 protected:
  /// Makes a child and registers it. The initial values of its parameters depend on the root's seed
  /// and on their full names.
  template <class M, class... Args>
  M& add(const std::string& name, Args&&... args) {
    return make<M>(name, std::forward<Args>(args)...);
  }
  /// Does the same with options in braces: add<nn::Linear>("q", 3, 4, {.bias = false}). A layer of
  /// your own takes them like that if it declares `using Options = MyOptions;`.
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
  /// The number of direct children, and the one at a position below it, in the order of
  /// registration.
  size_t child_count() const {
    check_not_moved();
    return children_.size();
  }
  Module& child_at(size_t i) const { return children_[i]->current(); }
  /// The slot or the direct child of this name; null if there is none.
  Slot* own_slot(const std::string& name) const { return member(name).slot; }
  Module* own_child(const std::string& name) const {
    Module* const child = member(name).child;
    return child != nullptr ? &child->current() : nullptr;
  }
  /// Makes slots() and named_modules() include a module that belongs to another one and must live
  /// as long as this one is used; a second call with the same name replaces it.
  void refer_to(const std::string& name, Module& module);
  /// Registers a parameter, which `init` initialises. The reference remains valid; assigning
  /// another module's parameter to it ties the two.
  Tensor& parameter(const std::string& name, const Shape& shape, const Init& init,
                    DType dtype = kFloat32);
  /// Registers a leaf that has its values already.
  Tensor& parameter(const std::string& name, const Tensor& leaf);
  /// Registers the name of a parameter that an option left out: it is undefined and in no list.
  Tensor& no_parameter(const std::string& name);
  /// Removes a parameter, buffer or child of its own; references to it become invalid.
  void remove_parameter(const std::string& name);
  void remove_buffer(const std::string& name);
  void remove_child(const std::string& name);
  /// Registers a tensor that is no parameter but moves and, unless not_saved, is saved with them.
  Tensor& buffer(const std::string& name, const Shape& shape, const Init& init,
                 DType dtype = kFloat32, Slot::Kind kind = Slot::Kind::buffer);
  Tensor& buffer(const std::string& name, const Tensor& values,
                 Slot::Kind kind = Slot::Kind::buffer);
  /// True if the module needs only this rank's boxes of parameters that are cut into boxes
  /// (Partition::boxes); other modules need whole parameters.
  virtual bool computes_with_boxes() const { return false; }
  /// Throws an Error if the module was moved from.
  void check_not_moved() const {
    if (moved_from_) [[unlikely]]
      fail_moved();
  }
  /// Makes has_hooks_for_values() true from now on, so that no parent computes this module's work.
  void set_called_alone(bool value) { called_alone_ = value; }
  /// Runs a forward pass of several tensors with the hooks around it.
  Tensors run_hooked(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& body);

 private:
  struct Hooks;
  // Tells the module that is made next on this thread its path and origin; see module/module.cpp.
  class Building {
   public:
    Building(Module& parent, const std::string& name);
    ~Building();
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;
  };
  struct Member {  // what has a name: one of the two
    Slot* slot = nullptr;
    Module* child = nullptr;
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
  // The module that is called in this one's place: its replacement, or itself.
  Module& current() { return replacement_ ? replacement_->current() : *this; }
  const Module& current() const { return replacement_ ? replacement_->current() : *this; }
  // Throws an Error if a parameter of its own is a shard, with which it cannot compute, or if the
  // module was moved from.
  void check_whole() const;
  [[noreturn]] void fail_moved() const;
  Tensors run_around(const Tensors& inputs, const Forward& body, bool fused);
  RandomStream stream_of(const std::string& name);
  Tensor& add_slot(Slot slot);
  void check_name(const char* what, const std::string& name) const;
  void remove_slot(const std::string& name, bool parameter);
  template <class Visit>
  void visit(const std::string& prefix, Visit&& visit_module);
  void set_path(const std::string& path);
  Member member(const std::string& name) const {
    check_not_moved();
    const auto found = members_.find(name);
    return found != members_.end() ? found->second : Member();
  }
  Module* find_module(std::string_view path);
  Slot* find_slot(const std::string& path, bool parameter);

  std::string name_;
  std::string path_;  // path below the outermost known module, for messages
  Origin origin_;     // what initial values depend on; see [note: first values]
  std::vector<std::unique_ptr<Slot>> slots_;  // pointers: references to the tensors stay good
  std::vector<std::unique_ptr<Module>> children_;
  std::unordered_map<std::string, Member> members_;  // slots and children by name; looked up only
  std::vector<std::pair<std::string, Module*>> referred_;  // see refer_to()
  std::unique_ptr<Module> replacement_;                    // see replace()
  std::shared_ptr<Hooks> hooks_;  // a shared_ptr only because it needs no complete type
  bool called_alone_ = false;
  bool moved_from_ = false;
  mutable bool training_ = true;  // read and written as an atomic: see training()

  friend class ModuleWriter;
};

/// The tree of modules, as PyTorch prints it.
std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace hero::nn
