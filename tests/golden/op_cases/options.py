"""Options that came later, and gradients at kinks."""

import torch
import torch.nn.functional as F

from op_cases import R, case


def pools():
    x, volume = R(2, 2, 7, 5), R(1, 2, 4, 5, 6)
    for n, (k, s, p, ceil, divisor) in enumerate(
        [(2, 2, 0, False, 3), ((3, 2), (2, 3), (1, 0), True, 4), (3, 3, 1, True, -2)]
    ):
        case(
            f"avg_pool2d_divisor_{n}",
            "avg_pool2d",
            lambda x: F.avg_pool2d(x, k, s, p, ceil, True, divisor),
            {"x": x},
            {"kernel_size": k, "stride": s, "padding": p, "ceil_mode": ceil, "divisor": divisor},
        )
    for n, (k, s, p, ceil) in enumerate([(2, 2, 0, False), ((2, 3, 2), (1, 2, 3), (1, 1, 0), True)]):
        three = lambda v: [v] * 3 if isinstance(v, int) else list(v)
        attrs = {"kernel": three(k), "stride": three(s), "padding": three(p), "ceil": ceil}
        case(
            f"avg_pool3d_divisor_{n}",
            "avg_pool3d",
            lambda x: F.avg_pool3d(x, k, s, p, ceil, True, 3),
            {"x": volume},
            {**attrs, "divisor": 3},
        )
        # Ties: the first of equal elements is named.
        for kind, input in [("", volume), ("_ties", torch.round(volume))]:
            case(
                f"max_pool3d_with_indices_{n}{kind}",
                "max_pool3d_with_indices",
                lambda x: F.max_pool3d(x, k, s, p, 1, ceil, return_indices=True),
                {"x": input},
                attrs,
            )
    for rank, input, sizes in [
        (1, R(2, 3, 7), [3, 7]),
        (2, x, [(2, 3), (7, 5), (None, 2)]),
        (3, volume, [(3, 2, 4), (2, 5, None)]),
    ]:
        f = getattr(F, f"adaptive_max_pool{rank}d")
        for n, size in enumerate(sizes):
            listed = [size] if isinstance(size, int) else [-1 if v is None else v for v in size]
            case(
                f"adaptive_max_pool{rank}d_with_indices_{n}",
                f"adaptive_max_pool{rank}d_with_indices",
                lambda x: f(x, size, return_indices=True),
                {"x": input},
                {"output": listed},
            )
    case(
        "adaptive_avg_pool2d_none",
        "adaptive_avg_pool2d",
        lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
        {"x": x},
        {"output_size": [-1, 3]},
    )
    values, where = F.max_pool3d(volume, 2, return_indices=True)
    case(
        "max_unpool3d",
        "max_unpool3d",
        lambda x, index: F.max_unpool3d(x, index, 2, output_size=(4, 5, 6)),
        {"x": R(*values.shape), "index": where},
        {"output": [4, 5, 6]},
    )


def statistics():
    for own in [True, False]:
        case(
            f"instance_norm_running_{own}",
            "instance_norm_running",
            lambda x, mean, var, weight, bias: running(x, mean, var, weight, bias, own),
            {"x": R(2, 3, 4), "mean": R(3), "var": R(3).abs() + 0.5, "weight": R(3), "bias": R(3)},
            {"own": own},
            ("mean", "var"),
        )


def running(x, mean, var, weight, bias, own):
    mean, var = mean.clone(), var.clone()
    y = F.instance_norm(x, mean, var, weight, bias, own, 0.3)
    return y, mean, var


def bounds():
    """Gradients on bounds, beyond them and of NaN."""
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, -torch.inf, torch.inf])
    for n, (low, high) in enumerate([(0.0, 1.0), (0.0, None), (None, 1.0), (1.0, 0.0)]):
        case(
            f"clamp_bound_{n}",
            "clamp",
            lambda x: torch.clamp(x, low, high),
            {"x": x},
            {"min": low, "max": high},
        )
    edges = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    case("logit_bound", "logit", lambda x: torch.logit(x, 0.25), {"x": edges}, {"eps": 0.25}, second=False)
    for low, high in [([0.0] * 7, [1.0] * 7), ([1.0] * 7, [0.0] * 7)]:
        case(
            f"clamp_tensors_bound_{low[0]}",
            "clamp_tensors",
            lambda x, low, high: torch.clamp(x, low, high),
            {"x": x, "low": torch.tensor(low), "high": torch.tensor(high)},
        )
    ones, zeros = torch.ones(2, 3), torch.zeros(2, 3)
    signs = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])
    case(
        "margin_ranking_bound",
        "margin_ranking_loss",
        lambda a, b, y: F.margin_ranking_loss(a, b, y, margin=1.0, reduction="none"),
        {"a": ones, "b": zeros, "y": signs},
        {"margin": 1.0, "reduction": "none"},
        ("y",),
    )


def matrices():
    definite = R(2, 3, 3)
    definite = definite @ definite.mT + torch.eye(3)
    case(
        "eigh_upper",
        "eigh_upper",
        lambda x: torch.linalg.eigvalsh(x.triu() + 9.0 * x.tril(-1), "U"),
        {"x": definite},
        tol=1e-8,
    )
    case(
        "solve_right",
        "solve_right",
        lambda a, b: torch.linalg.solve(a, b, left=False),
        {"a": definite, "b": R(2, 2, 3)},
        tol=1e-9,
    )
    for shape in [(4, 2), (2, 4)]:
        case(
            f"svd_full_{shape[0]}",
            "svd_full",
            lambda x: projections(*torch.linalg.svd(x, full_matrices=True)),
            {"x": R(*shape)},
            tol=1e-8,
            second=False,
        )
    numbers, order = torch.tensor([4.0, 1.0, 7.0, 2.0]), torch.tensor([1, 3, 0, 2])
    case(
        "searchsorted_sorter",
        "searchsorted",
        lambda a, b, sorter: torch.searchsorted(a, b, sorter=sorter),
        {"a": numbers, "b": torch.tensor([0.0, 2.0, 5.0, 9.0]), "sorter": order},
        {"right": False},
        ("a", "b"),
    )


def projections(u, s, vh):
    """What does not depend on signs or on the choice of a basis."""
    k = s.shape[-1]
    a = u[:, :k] @ torch.diag(torch.sin(s)) @ vh[:k]
    left, right = u[:, k:].detach(), vh[k:].detach()
    return s, a, left @ left.mT, right.mT @ right
