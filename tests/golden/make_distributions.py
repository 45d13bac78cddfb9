"""Writes distributions.json with torch.distributions (PyTorch 2.15), in float64:

    python make_distributions.py distributions.json
"""

import json
import sys

import torch
from torch.distributions import Bernoulli, Categorical, Normal, Uniform, kl_divergence

torch.set_default_dtype(torch.float64)


def number(x):
    return "inf" if x == float("inf") else "-inf" if x == float("-inf") else x


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
