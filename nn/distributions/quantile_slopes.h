#pragma once
// How quantiles of the gamma and the beta distribution move with their parameters, in double: what
// rsample() needs for implicit reparametrisation (Figurnov, Mohamed and Mnih, "Implicit
// reparameterization gradients", 2018). For a draw x whose probability F(x; a) is held constant,
//
//   dx/da = -(dF/da) / (dF/dx).

namespace hero::distributions {

/// x times the gamma density of shape a and rate 1 at x = exp(log_x).
double gamma_weight(double a, double log_x);
/// The regularised incomplete gamma function P(a, x) at x = exp(log_x): the probability below x.
double gamma_below(double a, double log_x);
/// d(log x)/da with P(a, x) held constant.
double gamma_slope(double a, double log_x);
/// d(log(x / (1 - x)))/da with the regularised incomplete beta function I_x(a, b) held constant; y
/// is 1 - x.
double beta_slope(double a, double b, double x, double y);

}  // namespace hero::distributions
