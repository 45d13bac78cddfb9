#pragma once
// Weights that are computed from parameters before each call: spectral norm and weight norm. Names
// in states are those of torch.nn.utils.parametrizations.
//
//   nn::Sequential critic{nn::spectral_norm(nn::Linear(64, 64)), nn::LeakyReLU(0.2),
//                         nn::spectral_norm(nn::Linear(64, 1))};
//   nn::Conv1d& conv = add<nn::Conv1d>("conv", 32, 64, 3);  // and in the constructor:
//   nn::weight_norm(conv);
#include <concepts>
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

namespace detail {
void add_spectral_norm(Module& module, const SpectralNormOptions& options);
void add_weight_norm(Module& module, const WeightNormOptions& options);
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

}  // namespace hero::nn
