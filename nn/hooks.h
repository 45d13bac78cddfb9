#pragma once
// What can be registered around a module's forward and backward pass. <hero/nn/module.h> includes
// this file.
#include <functional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn {

class Module;

using Tensors = std::vector<Tensor>;

/// Called before forward() with its inputs. What it returns, unless it is empty, replaces them.
using ForwardPreHook = std::function<Tensors(Module& module, const Tensors& inputs)>;
/// Called after forward(). What it returns, unless it is empty, replaces the outputs.
using ForwardHook =
    std::function<Tensors(Module& module, const Tensors& inputs, const Tensors& outputs)>;
/// The forward pass of a module, as a function.
using Forward = std::function<Tensors(const Tensors& inputs)>;
/// Called in place of forward(), with the inputs and with forward() itself, which it may call any
/// number of times with inputs of its own. It returns the module's outputs.
using ForwardWrapper =
    std::function<Tensors(Module& module, const Tensors& inputs, const Forward& forward)>;
/// Options of hooks.
struct HookOptions {
  /// The hook only prepares parameters, so a parent may fuse the module. A full backward hook gets
  /// an empty list where no input needs a gradient: it runs before the rest of the backward then.
  bool for_parameters = false;
  /// The hook is called before those that are there, and not after them.
  bool prepend = false;
};
/// Options of forward hooks.
struct ForwardHookOptions {
  bool always_call = false;     ///< the hook runs, without outputs, also if forward() throws
  bool for_parameters = false;  ///< as in HookOptions
};
/// Called when the gradients of the outputs are known. What it returns, unless it is empty,
/// replaces them.
using BackwardPreHook = std::function<Tensors(Module& module, const Tensors& grad_outputs)>;
/// Called when the gradients of the inputs are known; they are undefined for inputs that need none.
/// What it returns, unless it is empty, replaces these.
using BackwardHook =
    std::function<Tensors(Module& module, const Tensors& grad_inputs, const Tensors& grad_outputs)>;

/// While it lives, modules called on this thread compute without their hooks; for callers that only
/// ask for the shapes of outputs, for which nothing should be gathered or freed.
class WithoutHooks {
 public:
  WithoutHooks();
  ~WithoutHooks();
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;
  /// True while a WithoutHooks lives on this thread.
  static bool active();
};

}  // namespace hero::nn
