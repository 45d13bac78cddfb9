"""Writes three files with torch.distributions (PyTorch 2.15), in float64:

    python make_distributions.py distributions.json distributions_more.json distributions_further.json

and the derivatives of quantiles with mpmath 1.3, which is with PyTorch. PyTorch's own derivatives, which are good to
a few digits, are beside them.
"""

import json
import sys

import mpmath
import torch
import torch.distributions as D
from torch.distributions import Bernoulli, Categorical, Normal, Uniform, kl_divergence

torch.set_default_dtype(torch.float64)


def number(x):
    return "nan" if x != x else "inf" if x == float("inf") else "-inf" if x == float("-inf") else x


def values(tensor):
    return [number(x) for x in tensor.detach().flatten().tolist()]


def case(make, params, value, others, moments=True):
    """Two of a kind: of the first log_prob, entropy and moments, and both divergences; and the gradients of
    the sum of all finite ones with respect to the first's parameters."""
    p = {k: torch.tensor(v).requires_grad_() for k, v in params.items()}
    q = {k: torch.tensor(v) for k, v in others.items()}
    a, b = make(**p, validate_args=False), make(**q, validate_args=False)
    out = {"log_prob": a.log_prob(torch.tensor(value)), "entropy": a.entropy()}
    if moments:
        out |= {"mean": a.mean, "variance": a.variance}
    out |= {"kl": kl_divergence(a, b), "kl_back": kl_divergence(b, a)}
    total = sum(torch.where(torch.isfinite(t), t, torch.zeros_like(t)).sum() for t in out.values())
    total.backward()
    return {"params": params, "others": others, "value": value, "out": {k: values(v) for k, v in out.items()},
            "grad": {k: values(v.grad) for k, v in p.items()}}


json.dump({
    "normal": case(Normal, {"loc": [0.5, -1.0, 3.0], "scale": [0.3, 2.0, 1.5]}, [0.7, 5.0, 3.0],
                   {"loc": [0.0, 0.0, 1.0], "scale": [1.0, 0.5, 2.0]}),
    "uniform": case(Uniform, {"low": [0.0, -1.0, 2.0], "high": [1.0, 3.0, 2.5]}, [0.25, 4.0, 2.0],
                    {"low": [-1.0, 0.0, 1.0], "high": [2.0, 1.0, 2.25]}),
    "bernoulli_probs": case(Bernoulli, {"probs": [0.2, 0.5, 0.9]}, [1.0, 0.0, 0.0], {"probs": [0.6, 0.25, 0.1]}),
    "bernoulli_logits": case(Bernoulli, {"logits": [-3.0, 0.1, 40.0]}, [1.0, 0.0, 1.0], {"logits": [1.0, -2.0, 30.0]}),
    "categorical_probs": case(Categorical, {"probs": [[0.2, 0.5, 0.1], [3.0, 1.0, 2.0]]}, [2, 0],
                              {"probs": [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]}, moments=False),
    "categorical_logits": case(Categorical, {"logits": [[-3.0, 0.5, 2.0], [0.0, 100.0, 1.0]]}, [1, 2],
                               {"logits": [[0.0, 0.0, 0.0], [1.0, 90.0, 3.0]]}, moments=False),
    "categorical_zero": case(Categorical, {"probs": [[0.5, 0.5, 0.0]]}, [0], {"probs": [[0.2, 0.3, 0.5]]}, moments=False),
}, open(sys.argv[1], "w"), indent=1)


def more(kind, params, value, others=None, probability=None, make=None):
    """What distributions of a kind have, each where PyTorch has it: log_prob, entropy, mean, variance, cdf at the
    values, icdf at probabilities, both divergences; and the gradients of the sum of the finite ones."""
    make = make or getattr(D, kind)
    p = {k: torch.tensor(v).requires_grad_() if k != "total_count" else v for k, v in params.items()}
    x = torch.tensor(value)
    a = make(**p, validate_args=False)
    out = {"log_prob": a.log_prob(x)}
    for name, get in {"entropy": lambda: a.entropy(), "mean": lambda: a.mean, "variance": lambda: a.variance,
                      "cdf": lambda: a.cdf(x), "icdf": lambda: a.icdf(torch.tensor(probability))}.items():
        if name == "icdf" and probability is None:
            continue
        try:
            out[name] = get()
        except NotImplementedError:
            pass
    if others is not None:
        q = {k: torch.tensor(v) if k != "total_count" else v for k, v in others.items()}
        b = make(**q, validate_args=False)
        out |= {"kl": kl_divergence(a, b), "kl_back": kl_divergence(b, a)}
    counted = {k: v for k, v in out.items() if k != "cdf" or kind not in ("Gamma", "Chi2", "InverseGamma")}
    total = sum(torch.where(torch.isfinite(t), t, torch.zeros_like(t)).sum() for t in counted.values())
    total.backward()
    result = {"kind": kind, "params": params, "value": value, "out": {k: values(v) for k, v in out.items()},
              "shapes": {k: list(v.shape) for k, v in out.items()},
              "grad": {k: values(v.grad) for k, v in p.items() if k != "total_count"}}
    if others is not None:
        result["others"] = others
    if probability is not None:
        result["probability"] = probability
    return result


PROBABILITY = [0.01, 0.5, 0.999]
LOCS = {"loc": [0.5, -1.0, 300.0], "scale": [0.3, 2.0, 15.0]}
OTHER_LOCS = {"loc": [0.0, 0.0, 310.0], "scale": [1.0, 0.5, 20.0]}
MATRIX = [[2.0, 0.3, -0.1], [0.3, 1.0, 0.2], [-0.1, 0.2, 0.5]]
OTHER_MATRIX = [[1.0, 0.1, 0.0], [0.1, 2.0, -0.4], [0.0, -0.4, 3.0]]
FACTOR = [[1.5, 0.0, 0.0], [-0.3, 0.7, 0.0], [0.2, 4.0, 0.1]]
POINTS = [[0.1, -1.0, 2.0], [3.0, 0.0, 0.5]]
ODDS = {"probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]}
OTHER_ODDS = {"probs": [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]}


def mixture(logits, loc, scale, validate_args=None):
    return D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(loc, scale, validate_args=False),
                               validate_args=validate_args)


def mixture_of_vectors(logits, loc, scale, validate_args=None):
    return D.MixtureSameFamily(D.Categorical(logits=logits), D.Independent(D.Normal(loc, scale), 1),
                               validate_args=validate_args)


def independent(loc, scale, validate_args=None):
    return D.Independent(D.Normal(loc, scale), 1, validate_args=validate_args)


def squashed(loc, scale, validate_args=None):
    chain = [D.TanhTransform(), D.AffineTransform(torch.tensor(1.0), torch.tensor(-2.0))]
    return D.TransformedDistribution(D.Independent(D.Normal(loc, scale), 1), chain, validate_args=validate_args)


def transformed(transform):
    return lambda loc, scale, validate_args=None: D.TransformedDistribution(D.Laplace(loc, scale), transform,
                                                                            validate_args=validate_args)


def falling(loc, scale, validate_args=None):
    chain = [D.AffineTransform(torch.tensor(1.0), torch.tensor(-2.0)), D.ExpTransform()]
    return D.TransformedDistribution(D.Gumbel(loc, scale, validate_args=False), chain, validate_args=validate_args)


VECTORS = {"loc": [[0.5, -1.0], [3.0, 0.0]], "scale": [[0.3, 2.0], [1.5, 1.0]]}
OTHER_VECTORS = {"loc": [[0.0, 0.0], [1.0, 2.0]], "scale": [[1.0, 0.5], [2.0, 1.0]]}
SMALL = {"loc": [0.5, -1.0, 0.0], "scale": [0.3, 2.0, 1.0]}



def gamma_slope(a, x):
    """[a, x, d(log x)/da where P(a, x) is held, P(a, x), and PyTorch's derivative], from differences at 90 digits."""
    with mpmath.workdps(90):
        at, point = mpmath.mpf(a), mpmath.mpf(x)
        step = at * mpmath.mpf(10) ** -25
        below = lambda shape: mpmath.gammainc(shape, 0, point, regularized=True)
        change = (below(at + step) - below(at - step)) / (2 * step)
        slope = -change * mpmath.gamma(at) * mpmath.exp(point) / point ** at
        torch_slope = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(x)).item() / x
        return [a, x, float(slope), float(below(at)), torch_slope]


def beta_slope(a, b, x):
    """[a, b, x, d(logit x)/da where I_x(a, b) is held, and PyTorch's derivative]."""
    with mpmath.workdps(90):
        at, other, point = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        step = at * mpmath.mpf(10) ** -25
        below = lambda shape: mpmath.betainc(shape, other, 0, point, regularized=True)
        change = (below(at + step) - below(at - step)) / (2 * step)
        slope = -change * mpmath.beta(at, other) / (point ** at * (1 - point) ** other)
        torch_slope = torch._dirichlet_grad(torch.tensor(x), torch.tensor(a), torch.tensor(a + b)).item() / x
        return [a, b, x, float(slope), torch_slope]


GAMMA_POINTS = [(a, a * part) for a in [1e-3, 0.3, 1.0, 2.5, 20.0] for part in [0.01, 0.3, 0.9, 1.0, 1.7, 8.0]] + [
    (a, a + z * a ** 0.5) for a in [99.0, 101.0, 1000.0] for z in [-5.0, -1.0, 0.0, 0.1, 1.0, 5.0]]
BETA_POINTS = [(a, b, x) for a in [0.01, 0.7, 1.0, 3.0, 300.0] for b in [0.05, 1.0, 2.0, 50.0]
               for x in [0.01, 0.3, 0.9]]

cases = [
    more("Normal", LOCS, [0.7, 5.0, 240.0], OTHER_LOCS, PROBABILITY),
    more("Uniform", {"low": [0.0, -1.0, 2.0], "high": [1.0, 3.0, 2.5]}, [0.25, 2.0, 2.0],
         {"low": [-1.0, 0.0, 1.0], "high": [2.0, 1.0, 2.25]}, PROBABILITY),
    more("Exponential", {"rate": [0.5, 2.0, 1e-3]}, [0.7, 5.0, 1500.0], {"rate": [1.0, 3.0, 2e-3]}, PROBABILITY),
    more("Laplace", LOCS, [0.7, 5.0, 240.0], OTHER_LOCS, PROBABILITY),
    more("Gumbel", LOCS, [0.7, 5.0, 290.0], OTHER_LOCS, PROBABILITY),
    more("Cauchy", LOCS, [0.7, 5.0, 240.0], OTHER_LOCS, PROBABILITY),
    more("LogNormal", SMALL, [0.7, 5.0, 0.02], {"loc": [0.0, 0.0, 0.1], "scale": [1.0, 0.5, 1.5]}, PROBABILITY),
    more("HalfNormal", {"scale": [0.3, 2.0, 15.0]}, [0.7, 5.0, 24.0], {"scale": [1.0, 0.5, 20.0]}, PROBABILITY),
    more("Gamma", {"concentration": [0.3, 2.0, 15.0], "rate": [1.0, 0.25, 3.0]}, [0.7, 5.0, 4.0],
         {"concentration": [1.0, 0.5, 20.0], "rate": [2.0, 1.0, 3.0]}),
    more("Gamma", {"concentration": [1e-4, 1e4, 700.0], "rate": [1e-3, 10.0, 1.0]}, [1e-30, 1010.0, 600.0],
         {"concentration": [1e-3, 1.01e4, 650.0], "rate": [2e-3, 10.0, 1.1]}),
    more("Chi2", {"df": [0.5, 3.0, 40.0]}, [0.7, 5.0, 30.0], {"df": [1.0, 4.0, 50.0]}),
    more("StudentT", {"df": [0.5, 1.5, 30.0], "loc": [0.0, 1.0, -1.0], "scale": [1.0, 2.0, 0.1]}, [3.0, -5.0, -1.2]),
    more("Beta", {"concentration1": [0.3, 2.0, 150.0], "concentration0": [0.5, 5.0, 30.0]}, [0.01, 0.4, 0.8],
         {"concentration1": [1.0, 1.0, 100.0], "concentration0": [2.0, 2.0, 30.0]}),
    more("Dirichlet", {"concentration": [[0.3, 2.0, 15.0], [1.0, 1.0, 0.05]]}, [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]],
         {"concentration": [[1.0, 1.0, 1.0], [3.0, 0.2, 0.5]]}),
    more("MultivariateNormal", {"loc": POINTS, "covariance_matrix": MATRIX}, [[0.0, 1.0, 2.0], [3.0, 3.0, 0.0]],
         {"loc": [[0.0, 0.0, 1.0]], "covariance_matrix": OTHER_MATRIX}),
    more("MultivariateNormal", {"loc": POINTS, "precision_matrix": MATRIX}, [[0.0, 1.0, 2.0], [3.0, 3.0, 0.0]],
         {"loc": [[0.0, 0.0, 1.0]], "precision_matrix": OTHER_MATRIX}),
    more("MultivariateNormal", {"loc": POINTS, "scale_tril": FACTOR}, [[0.0, 1.0, 2.0], [3.0, 3.0, 0.0]],
         {"loc": [[0.0, 0.0, 1.0]], "scale_tril": FACTOR}),
    more("Poisson", {"rate": [0.3, 7.0, 1e4]}, [0.0, 5.0, 9900.0], {"rate": [1.0, 5.0, 1.01e4]}),
    more("Geometric", {"probs": [0.2, 0.5, 0.99]}, [1.0, 0.0, 3.0], {"probs": [0.6, 0.25, 0.1]}),
    more("Geometric", {"logits": [-3.0, 0.1, 4.0]}, [1.0, 0.0, 3.0], {"logits": [1.0, -2.0, 3.0]}),
    more("Binomial", {"total_count": 12, "probs": [0.2, 0.5, 0.9]}, [1.0, 12.0, 0.0],
         {"total_count": 12, "probs": [0.6, 0.25, 0.1]}),
    more("Binomial", {"total_count": 12, "logits": [-3.0, 0.1, 4.0]}, [1.0, 12.0, 0.0],
         {"total_count": 12, "logits": [1.0, -2.0, 3.0]}),
    more("Multinomial", {"total_count": 5, **ODDS}, [[1.0, 4.0, 0.0], [2.0, 0.0, 3.0]]),
    more("Multinomial", {"total_count": 5, "logits": [[-3.0, 0.5, 2.0], [0.0, 1.0, 1.0]]},
         [[1.0, 4.0, 0.0], [2.0, 0.0, 3.0]]),
    more("OneHotCategorical", ODDS, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], OTHER_ODDS),
    more("independent", VECTORS, [[0.1, 0.2], [2.0, 3.0]], OTHER_VECTORS, make=independent),
    more("mixture", {"logits": [0.3, -1.0, 2.0], **SMALL}, [0.5, -3.0], make=mixture),
    more("mixture_of_vectors", {"logits": [0.3, -1.0], **VECTORS}, [[0.5, -3.0], [1.0, 1.0], [4.0, 0.0]],
         make=mixture_of_vectors),
    more("squashed", VECTORS, [[0.1, 0.2], [2.0, 2.9]], OTHER_VECTORS, make=squashed),
    more("sigmoid", SMALL, [0.1, 0.2, 0.999], OTHER_LOCS, PROBABILITY, make=transformed(D.SigmoidTransform())),
    more("falling", SMALL, [0.1, 0.2, 3.0], OTHER_LOCS, PROBABILITY, make=falling),
]
json.dump({"cases": cases, "gamma_slopes": [gamma_slope(*point) for point in GAMMA_POINTS],
           "beta_slopes": [beta_slope(*point) for point in BETA_POINTS]}, open(sys.argv[2], "w"), indent=1)


def correlations(concentration, validate_args=None):
    return D.LKJCholesky(3, concentration, validate_args=validate_args)


UNIT = {"concentration1": [0.3, 2.0, 5.0], "concentration0": [0.5, 5.0, 2.0]}
TEMPERATURE = {"temperature": 0.7}
further = [
    more("Weibull", {"scale": [0.3, 2.0, 15.0], "concentration": [0.7, 1.5, 4.0]}, [0.2, 3.0, 12.0],
         probability=PROBABILITY),
    more("Pareto", {"scale": [0.3, 2.0, 15.0], "alpha": [2.2, 2.5, 4.0]}, [0.5, 3.0, 20.0],
         {"scale": [0.2, 2.5, 10.0], "alpha": [1.0, 2.0, 3.0]}, PROBABILITY),
    more("GeneralizedPareto", {"loc": [0.0, 1.0, -1.0], "scale": [1.0, 2.0, 0.5], "concentration": [0.3, -0.4, 0.1]},
         [0.7, 3.0, 4.0], probability=PROBABILITY),
    more("HalfCauchy", {"scale": [0.3, 2.0, 15.0]}, [0.7, 5.0, 24.0], probability=PROBABILITY),
    more("Kumaraswamy", UNIT, [0.01, 0.4, 0.8], probability=PROBABILITY),
    more("InverseGamma", {"concentration": [0.5, 1.5, 8.0], "rate": [1.0, 0.25, 3.0]}, [0.7, 5.0, 0.4],
         {"concentration": [1.0, 0.5, 10.0], "rate": [2.0, 1.0, 3.0]}),
    more("FisherSnedecor", {"df1": [0.5, 3.0, 40.0], "df2": [4.5, 6.0, 50.0]}, [0.7, 5.0, 1.2]),
    more("NegativeBinomial", {"total_count": 2.5, "probs": [0.2, 0.5, 0.9]}, [1.0, 12.0, 0.0]),
    more("NegativeBinomial", {"total_count": 7, "logits": [-3.0, 0.1, 2.0]}, [1.0, 0.0, 30.0]),
    more("ContinuousBernoulli", {"probs": [0.2, 0.9, 0.03]}, [0.3, 0.7, 0.1], {"probs": [0.6, 0.25, 0.1]}, PROBABILITY),
    more("ContinuousBernoulli", {"logits": [-3.0, 5.0, 0.7]}, [0.3, 0.7, 0.1], {"logits": [1.0, -2.0, 3.0]},
         PROBABILITY),
    more("RelaxedBernoulli", {**TEMPERATURE, "probs": [0.2, 0.5, 0.9]}, [0.01, 0.4, 0.9]),
    more("RelaxedBernoulli", {**TEMPERATURE, "logits": [-3.0, 0.1, 4.0]}, [0.01, 0.4, 0.9]),
    more("LogisticNormal", VECTORS, [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]),
    more("Wishart", {"df": [3.5, 7.0], "covariance_matrix": MATRIX}, [MATRIX, OTHER_MATRIX]),
    more("Wishart", {"df": [2.5], "precision_matrix": MATRIX}, [OTHER_MATRIX]),
    more("correlations", {"concentration": [0.7, 2.0]},
         [[[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.28, 0.96]], [[1.0, 0.0, 0.0], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]]],
         make=correlations),
    more("RelaxedOneHotCategorical", {**TEMPERATURE, **ODDS}, [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]),
]

THREE = {
    "Normal": {"loc": [0.5, -1.0, 3.0], "scale": [0.3, 2.0, 1.5]},
    "Laplace": {"loc": [0.0, 1.0, 2.0], "scale": [1.0, 0.5, 2.0]},
    "Gumbel": {"loc": [0.5, 0.0, -1.0], "scale": [1.0, 2.0, 0.7]},
    "Exponential": {"rate": [0.5, 2.0, 3.0]},
    "Gamma": {"concentration": [0.3, 2.0, 5.0], "rate": [1.0, 0.25, 3.0]},
    "Beta": {"concentration1": [0.3, 2.0, 5.0], "concentration0": [0.5, 5.0, 2.0]},
    "Pareto": {"scale": [0.3, 0.1, 0.05], "alpha": [0.8, 1.5, 4.0]},
    "ContinuousBernoulli": {"probs": [0.2, 0.9, 0.03]},
    "Poisson": {"rate": [0.3, 7.0, 2.0]},
    "Bernoulli": {"probs": [0.2, 0.5, 0.9]},
    "Uniform": {"low": [0.0, 0.25, 0.5], "high": [1.0, 0.75, 2.5]},
}


def pair(p, q):
    """The divergence of two kinds, where PyTorch has it."""
    a, b = (getattr(D, kind)(**{k: torch.tensor(v) for k, v in THREE[kind].items()}) for kind in (p, q))
    try:
        return {"p": p, "q": q, "kl": values(kl_divergence(a, b))}
    except NotImplementedError:
        return None


# PyTorch's condition for ContinuousBernoulli and Uniform is wrong where both have the support [0, 1].
pairs = [found for p in THREE for q in THREE
         if p != q and {p, q} != {"ContinuousBernoulli", "Uniform"} and (found := pair(p, q))]
json.dump({"cases": further, "three": THREE, "pairs": pairs}, open(sys.argv[3], "w"), indent=1)
