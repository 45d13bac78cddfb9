#!/usr/bin/env python3
"""Writes schedules.json and further optimizer trajectories (optim_more.json) with PyTorch and NumPy.

Schedules and LBFGS come from torch.optim. Lion and LAMB, which torch lacks, come from the formulas of
their papers in NumPy, whole arrays at a time and in another order of operations than the library's.
"""
import json
import math
import os

import numpy as np
import torch
from torch.optim import lr_scheduler as S

HERE = os.path.dirname(os.path.abspath(__file__))


def run_schedule(make, steps, lr=0.4, momentum=False):
    """Rates of two groups (the second has a tenth of lr), before the first step and after each."""
    w = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD(
        [{"params": w[:1]}, {"params": w[1:], "lr": lr / 10}], lr=lr, momentum=0.9)
    schedule = make(optimizer)
    rows = []
    for _ in range(steps + 1):
        rows.append([g["momentum" if momentum else "lr"] for g in optimizer.param_groups])
        optimizer.step()
        if len(rows) <= steps:
            schedule.step()
    return rows


def schedules():
    def sequential(o):
        return S.SequentialLR(o, [S.LinearLR(o, 0.01, 1.0, 4), S.CosineAnnealingLR(o, 6, 0.001),
                                  S.ExponentialLR(o, 0.5)], [4, 10])

    def chained(o):
        return S.ChainedScheduler([S.LinearLR(o, 0.1, 1.0, 5), S.ExponentialLR(o, 0.9),
                                   S.StepLR(o, 3, 0.5)])

    one = dict(max_lr=0.3, total_steps=20)
    made = {
        "step": (lambda o: S.StepLR(o, 3, 0.3), 12),
        "multi_step": (lambda o: S.MultiStepLR(o, [2, 5, 5, 9], 0.2), 12),
        "exponential": (lambda o: S.ExponentialLR(o, 0.93), 30),
        "constant": (lambda o: S.ConstantLR(o, 0.25, 4), 8),
        "linear": (lambda o: S.LinearLR(o, 0.05, 0.8, 7), 12),
        "linear_default": (lambda o: S.LinearLR(o), 8),
        "polynomial": (lambda o: S.PolynomialLR(o, 6, 2.0), 9),
        "cosine": (lambda o: S.CosineAnnealingLR(o, 10, 0.003), 10),
        "cosine_up": (lambda o: S.CosineAnnealingLR(o, 8), 15),
        "warm_restarts": (lambda o: S.CosineAnnealingWarmRestarts(o, 4, 1, 0.01), 13),
        "warm_restarts_mult": (lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2), 25),
        "one_cycle": (lambda o: S.OneCycleLR(o, **one), 19),
        "one_cycle_linear": (lambda o: S.OneCycleLR(o, anneal_strategy="linear", pct_start=0.4, **one), 19),
        "one_cycle_three": (lambda o: S.OneCycleLR(o, three_phase=True, div_factor=10.0, **one), 19),
        "sequential": (sequential, 16),
        "chained": (chained, 14),
        "cyclic": (lambda o: S.CyclicLR(o, [0.4, 0.04], [0.9, 0.9], 3, 5), 20),
        "cyclic2": (lambda o: S.CyclicLR(o, [0.4, 0.04], [0.9, 0.9], 4, mode="triangular2"), 20),
        "cyclic_exp": (lambda o: S.CyclicLR(o, [0.4, 0.04], [0.9, 0.9], 4, mode="exp_range", gamma=0.9), 20),
        "multiplicative": (lambda o: S.MultiplicativeLR(o, lambda t: 1 - 0.05 * t), 6),
        "lambda": (lambda o: S.LambdaLR(o, lambda t: 1 / (1 + t)), 6),
    }
    result = {name: run_schedule(make, steps) for name, (make, steps) in made.items()}
    result["cyclic_momentum"] = run_schedule(lambda o: S.CyclicLR(o, [0.4, 0.04], [0.9, 0.9], 3, 5), 20, momentum=True)
    result["one_cycle_momentum"] = run_schedule(lambda o: S.OneCycleLR(o, **one), 19, momentum=True)

    metrics = [1.0, 0.9, 0.95, 0.9, 0.89999, 0.91, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4, 0.5,
               0.5, 0.5, 0.5]
    plateau = {}
    for name, options in {
        "min": dict(mode="min", factor=0.5, patience=2, cooldown=1, min_lr=0.02),
        "max_absolute": dict(mode="max", factor=0.2, patience=1, threshold=0.05, threshold_mode="abs"),
    }.items():
        w = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([w], lr=0.4)
        schedule = S.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for metric in metrics:
            schedule.step(metric)
            rates.append(optimizer.param_groups[0]["lr"])
        plateau[name] = rates
    return {"lr": result, "plateau": {"metrics": metrics, "rates": plateau}}


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


def rosenbrock_gradient(p):
    return np.array([-2 * (1 - p[0]) - 400 * p[0] * (p[1] - p[0] ** 2), 200 * (p[1] - p[0] ** 2)])


START = [-1.5, 2.0]


def lbfgs(steps, **options):
    p = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = torch.optim.LBFGS([p], **options)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    rows, losses, counts = [], [], []
    for _ in range(steps):
        losses.append(optimizer.step(closure).item())
        rows.append(p.tolist())
        counts.append(calls)
    return {"options": options, "params": rows, "losses": losses, "calls": counts}


def lion(steps, lr, betas, weight_decay):
    p, m, rows = np.array(START), np.zeros(2), []
    for _ in range(steps):
        g = rosenbrock_gradient(p)
        p = p - lr * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)
        m = betas[1] * m + (1 - betas[1]) * g
        rows.append(p.tolist())
    return {"options": {"lr": lr, "betas": betas, "weight_decay": weight_decay}, "params": rows}


def lamb(steps, lr, betas, eps, weight_decay):
    p, m, v, rows = np.array(START), np.zeros(2), np.zeros(2), []
    for t in range(1, steps + 1):
        g = rosenbrock_gradient(p)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        r = (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p
        trust = np.linalg.norm(p) / np.linalg.norm(r)
        p = p - lr * trust * r
        rows.append(p.tolist())
    return {"options": {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay},
            "params": rows}


def write(name, value):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(value, file, indent=None, separators=(",", ":"))
        file.write("\n")


write("schedules.json", schedules())
write("optim_more.json", {
    "start": START,
    "lbfgs": {
        "plain": lbfgs(8, lr=0.001, max_iter=5),
        "plain_history": lbfgs(12, lr=0.005, max_iter=4, history_size=3),
        "strong_wolfe": lbfgs(3, lr=1.0, max_iter=10, line_search_fn="strong_wolfe"),
        "strong_wolfe_history": lbfgs(10, lr=0.5, max_iter=3, history_size=2, line_search_fn="strong_wolfe"),
    },
    "lion": {"plain": lion(60, 0.01, [0.9, 0.99], 0.0), "decay": lion(60, 0.02, [0.8, 0.95], 0.1)},
    "lamb": {"plain": lamb(60, 0.01, [0.9, 0.999], 1e-6, 0.0), "decay": lamb(60, 0.02, [0.8, 0.95], 1e-8, 0.1)},
})
