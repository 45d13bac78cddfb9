#pragma once
// Draws that take a varying number of random numbers, because they reject some. Each element has a
// Philox counter of its own, so its draw depends only on the seed, on how many random operations
// came before, on its position and on its parameters: not on threads, devices or other elements.
// They are made by the host, in double, for every device.
#include <hero/autograd/tensor.h>

namespace hero::distributions {

/// The logarithms of draws from gamma distributions of these shapes and rate 1, in float64. Their
/// gradient is that of implicit reparametrisation (quantile_slopes.h), which has no derivative.
Tensor log_gamma_draws(const Tensor& concentration);
/// Draws [.., K] from Dirichlet distributions, in float64, with such gradients.
Tensor dirichlet_draws(const Tensor& concentration);
/// Draws from Poisson distributions of these rates, in the rates' dtype; without gradients.
Tensor poisson_draws(const Tensor& rate);
/// Draws from binomial distributions, in the dtype of the probabilities; without gradients.
Tensor binomial_draws(const Tensor& count, const Tensor& probs);
/// Angles from -pi to pi, drawn around 0 with these concentrations, in their dtype; without
/// gradients.
Tensor von_mises_draws(const Tensor& concentration);
/// How often each of K categories came in `count` draws, [.., K]; without gradients.
Tensor multinomial_draws(int64_t count, const Tensor& probs);
/// The probability of a gamma distribution of rate 1 below x, with gradients for both.
Tensor gamma_cdf(const Tensor& concentration, const Tensor& x);

}  // namespace hero::distributions
