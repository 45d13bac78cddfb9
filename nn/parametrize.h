#pragma once
// Weights that are computed from parameters before each call: spectral norm and weight norm, and
// weights of which a part is pruned. Names in states are those of torch.nn.utils.parametrizations
// and torch.nn.utils.prune.
//
//   nn::Sequential critic{nn::spectral_norm(nn::Linear(64, 64)), nn::LeakyReLU(0.2),
//                         nn::spectral_norm(nn::Linear(64, 1))};
//   nn::Conv1d& conv = add<nn::Conv1d>("conv", 32, 64, 3);  // and in the constructor:
//   nn::weight_norm(conv);
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <hero/nn/module.h>

namespace hero::nn {

/// Options of spectral_norm().
struct SpectralNormOptions {
  std::string name = "weight";     ///< the parameter that is divided
  int64_t n_power_iterations = 1;  ///< steps of the power iteration before each call in training
  double eps = 1e-12;              ///< lower limit of the lengths by which vectors are divided
  /// The dimension of outputs; when absent 1 for transposed convolutions, else 0.
  std::optional<int64_t> dim = {};
};

/// Options of weight_norm().
struct WeightNormOptions {
  std::string name = "weight";  ///< the parameter that is divided
  /// The dimension along which each slice has a length of its own; {} for one length of all.
  std::optional<int64_t> dim = 0;
};

/// How orthogonal() maps any matrix to an orthogonal one: exp(A) or (I + A / 2) (I - A / 2)^-1,
/// with the skew-symmetric A = X - X^T of a lower triangular X; or a product of Householder
/// reflections.
enum class OrthogonalMap { matrix_exp, cayley, householder };
/// Options of orthogonal().
struct OrthogonalOptions {
  std::string name = "weight";  ///< the parameter that is made orthogonal
  /// When absent matrix_exp for square matrices, else householder.
  std::optional<OrthogonalMap> orthogonal_map = {};
};

namespace detail {
void add_orthogonal(Module& module, const OrthogonalOptions& options);
void add_spectral_norm(Module& module, const SpectralNormOptions& options);
void add_weight_norm(Module& module, const WeightNormOptions& options);
void add_parametrization(Module& module, const std::string& name, std::unique_ptr<Module> function);
template <class M>
concept ModuleClass = std::derived_from<std::remove_cvref_t<M>, Module>;
}  // namespace detail

/// Divides a layer's weight by its largest singular value before each call; the weight is read as a
/// matrix with a row for each output. The value is u^T W v, with vectors u and v from a power
/// iteration that has 15 steps at first and goes on in each call in training. Miyato et al.,
/// arXiv 1802.05957. The layer's parameter is from now on `parametrizations.weight.original`, with
/// the buffers `parametrizations.weight.0._u` and `_v`. The layer's own `weight` is that of the
/// last call; it is neither saved nor trained, and the layer must not be called on several threads
/// at once.
///
/// Returns the module: given a temporary, by value, for a Sequential. Call it before an optimizer
/// is made and before fully_shard() or ZeRO, whose units must be modules above this one. Throws an
/// Error if there is no such parameter, it is on meta, or it has a parametrization already.
/// \snippet test_examples_networks.cpp spectral_norm
template <detail::ModuleClass M>
std::conditional_t<std::is_lvalue_reference_v<M>, M, std::remove_cvref_t<M>> spectral_norm(
    M&& module, const SpectralNormOptions& options = {}) {
  detail::add_spectral_norm(module, options);
  return std::forward<M>(module);
}

/// Computes a layer's weight as g v / |v| before each call: a length g for each output, and a
/// direction. Salimans and Kingma, arXiv 1602.07868. The layer's parameters are from now on
/// `parametrizations.weight.original0`, g, and `original1`, v. All else is as for spectral_norm().
template <detail::ModuleClass M>
std::conditional_t<std::is_lvalue_reference_v<M>, M, std::remove_cvref_t<M>> weight_norm(
    M&& module, const WeightNormOptions& options = {}) {
  detail::add_weight_norm(module, options);
  return std::forward<M>(module);
}

/// Computes a layer's weight before each call as a matrix with orthonormal rows or columns,
/// whichever are fewer. It begins with the weight made orthogonal, which is the buffer
/// `parametrizations.weight.0.base`; the parameter `parametrizations.weight.original` begins as -I.
/// Lezcano-Casado, arXiv 1909.09501. All else is as for spectral_norm().
template <detail::ModuleClass M>
std::conditional_t<std::is_lvalue_reference_v<M>, M, std::remove_cvref_t<M>> orthogonal(
    M&& module, const OrthogonalOptions& options = {}) {
  detail::add_orthogonal(module, options);
  return std::forward<M>(module);
}

/// Computes a parameter before each call by a module of yours, which is given the parameter as it
/// was, from now on `parametrizations.weight.original`, and is itself `parametrizations.weight.0`.
/// A second one takes what the first gave. All else is as for spectral_norm(). Throws an Error if
/// the module changes the shape.
template <class F>
requires(std::derived_from<F, Module>) void register_parametrization(Module& module,
                                                                     const std::string& name,
                                                                     F&& function) {
  static_assert(!std::is_lvalue_reference_v<F>, "a module can be moved, not copied");
  detail::add_parametrization(module, name, std::make_unique<F>(std::forward<F>(function)));
}
/// Makes a weight that is computed by these functions a parameter again, with its present values;
/// PyTorch's remove_weight_norm, and remove_parametrizations with leave_parametrized. Make the
/// optimizer afterwards: the parameter is a new one. Throws an Error if there is nothing to remove.
void remove_parametrizations(Module& module, const std::string& name = "weight");
/// True if the parameter of this name (without a name: any of the module's own) is computed by a
/// parametrization.
bool is_parametrized(Module& module, const std::string& name = "");

/// Pruning: a parameter is multiplied by a mask of zeros and ones before each call. The layer's
/// parameter is from now on `weight_orig`, beside the buffer `weight_mask`; its own `weight` is
/// that of the last call. A float `amount` is a share of the elements, or slices, and an integer
/// their number. Elements that are pruned already stay pruned, and `amount` then refers to the
/// rest. Call these functions before an optimizer is made, and before fully_shard() or ZeRO. Throws
/// an Error if there is no such parameter, or the amount is out of range.
namespace prune {
/// Prunes nothing: a mask of ones.
void identity(Module& module, const std::string& name);
/// Prunes elements that are drawn at random.
void random_unstructured(Module& module, const std::string& name, Scalar amount);
/// Prunes the elements of smallest magnitude.
void l1_unstructured(Module& module, const std::string& name, Scalar amount);
/// Prunes slices along `dim` that are drawn at random.
void random_structured(Module& module, const std::string& name, Scalar amount, int64_t dim = -1);
/// Prunes the slices along `dim` of smallest n-norm.
void ln_structured(Module& module, const std::string& name, Scalar amount, double n, int64_t dim);
/// Prunes where a mask of the parameter's shape is 0.
void custom_from_mask(Module& module, const std::string& name, const Tensor& mask);
/// l1_unstructured() of several parameters as if they were one. Throws an Error if one is given
/// twice, or is tied to another.
void global_unstructured(const std::vector<std::pair<Module*, std::string>>& parameters,
                         Scalar amount);
/// Makes the pruned values a parameter again, the one that was `weight_orig`, without a mask. It is
/// written in place, so that optimizers keep it: another layer that shares it (a tied weight), and
/// had all of its elements until now, is pruned from then on, too.
void remove(Module& module, const std::string& name);
/// True if a parameter of the module or one below is pruned.
bool is_pruned(Module& module);
}  // namespace prune

}  // namespace hero::nn
