#!/usr/bin/env python3
"""Writes optim_elements.json: parameters after each step of torch.optim.Rprop and torch.optim.ASGD
(PyTorch 2.15), in float64 throughout, and ASGD's averages:

    python make_optim_elements.py optim_elements.json

Three parameters, of four elements each; the third is in a group of its own with other options. Element
i of parameter n is sin(1 + n + 3 i), of its gradient at step t cos(1 + n + 2 i + 5 t) (1 + 0.1 i), but
every third step has no gradient for parameter 1.
"""

import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)


def run(make, options, second, steps=9):
    params = [torch.nn.Parameter(torch.tensor([math.sin(1 + n + 3 * i) for i in range(4)])) for n in range(3)]
    optimizer = make([{"params": params[:2]}, {"params": params[2:], **second}], **options)
    rows, averages = [], []
    for t in range(steps):
        for n, p in enumerate(params):
            p.grad = torch.tensor([math.cos(1 + n + 2 * i + 5 * t) * (1 + 0.1 * i) for i in range(4)])
        if t % 3 == 2:
            params[1].grad = None
        optimizer.step()
        rows.append([p.detach().tolist() for p in params])
        if make is torch.optim.ASGD:
            averages.append([optimizer.state[p]["ax"].tolist() for p in params])
    return {"options": options, "second": second, "params": rows, "averages": averages}


Rprop, ASGD = torch.optim.Rprop, torch.optim.ASGD
result = {
    "rprop": [
        run(Rprop, {}, {"lr": 0.1}),
        run(Rprop, {"lr": 0.2, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.25)}, {"maximize": True}),
    ],
    "asgd": [
        run(ASGD, {}, {"lr": 0.2, "lambd": 0.1}),
        run(ASGD, {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "t0": 2.0, "weight_decay": 0.1},
            {"maximize": True, "t0": 0.0, "weight_decay": 0.3}),
    ],
}
json.dump(result, open(sys.argv[1], "w"), separators=(",", ":"))
