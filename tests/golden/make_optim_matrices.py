"""Writes optim_matrices.json: parameters after each step of torch.optim.Muon and torch.optim.Adafactor
(PyTorch 2.15), in float64 throughout:

    python make_optim_matrices.py optim_matrices.json

Parameters and gradients are given by a formula, which tests/optim/test_matrices.cpp has too: element i of
parameter number n is sin(1 + n + 3 i), of its gradient at step t cos(1 + n + 2 i + 5 t) (1 + 0.1 i).
"""

import json
import sys

import torch
from torch.optim import Adafactor, Muon

torch.set_default_dtype(torch.float64)
# Muon's products are of bfloat16 in PyTorch; here they are of float64, as is all else
to = torch.Tensor.to
torch.Tensor.to = lambda self, *args, **kwargs: (
    self.clone() if kwargs.get("dtype") == torch.bfloat16 else to(self, *args, **kwargs))


def values(n, shape, f):
    count = torch.Size(shape).numel()
    return torch.tensor([f(n, i) for i in range(count)]).reshape(shape)


def start(n, i):
    return torch.sin(torch.tensor(1.0 + n + 3 * i)).item()


def gradient(t):
    return lambda n, i: torch.cos(torch.tensor(1.0 + n + 2 * i + 5 * t)).item() * (1 + 0.1 * i)


def run(make, options, shapes, steps=6):
    params = [torch.nn.Parameter(values(n, s, start)) for n, s in enumerate(shapes)]
    optimizer = make(params, **options)
    rows = []
    for t in range(steps):
        for n, p in enumerate(params):
            p.grad = values(n, p.shape, gradient(t))
        optimizer.step()
        rows.append([p.detach().flatten().tolist() for p in params])
    return {"shapes": shapes, "options": {k: v for k, v in options.items() if k not in ("foreach",)}, "params": rows}


matrices = [[4, 3], [3, 5], [6, 6], [1, 4]]
anything = [[4, 3], [5], [2, 3, 4], [1, 6]]
result = {
    "muon": [
        run(Muon, {}, matrices),
        run(Muon, {"lr": 0.1, "momentum": 0.8, "nesterov": False, "weight_decay": 0.0, "ns_steps": 3}, matrices),
        run(Muon, {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw"}, matrices),
        run(Muon, {"lr": 0.02, "adjust_lr_fn": "spectral_unclamped"}, matrices),
    ],
    "adafactor": [
        run(Adafactor, {"foreach": False}, anything),
        run(Adafactor, {"lr": 0.3, "beta2_decay": -0.5, "d": 2.0, "weight_decay": 0.1, "maximize": True, "foreach": False}, anything),
        run(Adafactor, {"lr": 0.05, "eps": (0.5, 0.9), "foreach": False}, anything),
    ],
}
json.dump(result, open(sys.argv[1], "w"), separators=(",", ":"))
