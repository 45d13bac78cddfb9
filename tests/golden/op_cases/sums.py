"""Reductions and products."""

import torch
import torch.nn.functional as F

from op_cases import R, case


def reductions():
    dims = [None, 0, -1, [0, 2], [-1, 0]]
    for keep in [False, True]:
        for i, d in enumerate(dims):
            a = {"dim": d, "keepdim": keep}
            tag = f"{i}{'k' if keep else ''}"
            full = tuple(range(3)) if d is None else (tuple(d) if isinstance(d, list) else d)
            for op in ["sum", "mean", "amax", "amin", "logsumexp", "norm", "var", "std"]:
                x = R(2, 3, 4)
                if op == "norm":
                    for p in [0, 1, 2, 3, 0.5, float("inf")]:
                        case(
                            f"norm_{p}_{tag}",
                            op,
                            lambda x, p=p: torch.linalg.vector_norm(x, p, dim=full, keepdim=keep),
                            {"x": x},
                            {"p": "inf" if p == float("inf") else p, **a},
                        )
                elif op in ("var", "std"):
                    for u in [True, False]:
                        case(
                            f"{op}_{u}_{tag}",
                            op,
                            lambda x: getattr(torch, op)(x, dim=full, unbiased=u, keepdim=keep),
                            {"x": x},
                            {"unbiased": u, **a},
                        )
                else:
                    case(
                        f"{op}_{tag}",
                        op,
                        lambda x: getattr(torch, op)(x, dim=full, keepdim=keep),
                        {"x": x},
                        a,
                    )
            if not isinstance(d, list):
                f = (lambda x: x.prod()) if d is None else (lambda x: x.prod(d, keepdim=keep))
                if not (d is None and keep):
                    case(f"prod_{tag}", "prod", f, {"x": R(2, 3, 4)}, a)
                    x = R(2, 3, 2)
                    x[0, 1, 0] = 0
                    case(f"prod_zero_{tag}", "prod", f, {"x": x}, a)
                    x = x.clone()
                    x[1, 1, 0] = 0
                    x[0, 0, 0] = 0
                    case(f"prod_zeros_{tag}", "prod", f, {"x": x}, a)
                    case(
                        f"argmax_{tag}",
                        "argmax",
                        lambda x: x.argmax() if d is None else x.argmax(d, keepdim=keep),
                        {"x": R(2, 3, 4)},
                        a,
                    )
            if isinstance(d, int):
                for op, f in {"max_dim": torch.max, "min_dim": torch.min}.items():
                    case(
                        f"{op}_{tag}",
                        op,
                        lambda x, f=f: tuple(f(x, d, keepdim=keep)),
                        {"x": R(2, 3, 4)},
                        a,
                    )
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -1.0, 0.0]])
    for op in ["amax", "amin"]:
        for d in [None, 0, 1, [0, 1]]:
            full = (0, 1) if d is None else (tuple(d) if isinstance(d, list) else d)
            case(
                f"{op}_ties_{d}".replace(" ", ""),
                op,
                lambda x: getattr(torch, op)(x, dim=full),
                {"x": ties},
                {"dim": d, "keepdim": False},
            )
    case("max_all_ties", "max_all", lambda x: x.max(), {"x": ties})
    case(
        "norm_zero",
        "norm",
        lambda x: torch.linalg.vector_norm(x, 2),
        {"x": torch.zeros(3)},
        {"p": 2, "dim": None, "keepdim": False},
        second=False,
    )
    z = R(3, 2)
    z[1] = 0
    z[0, 1] = 0
    for p in [1, 2, 3, float("inf")]:
        case(
            f"norm_zero_rows_{p}",
            "norm",
            lambda x: torch.linalg.vector_norm(x, p, dim=1),
            {"x": z},
            {"p": "inf" if p == float("inf") else p, "dim": 1, "keepdim": False},
            second=False,
        )
    t = torch.tensor([[2.0, -2.0, 1.0], [3.0, 3.0, -1.0]])
    case(
        "norm_inf_ties",
        "norm",
        lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1),
        {"x": t},
        {"p": "inf", "dim": 1, "keepdim": False},
    )
    inf = float("inf")
    case(
        "logsumexp_inf",
        "logsumexp",
        lambda x: torch.logsumexp(x, 1),
        {"x": torch.tensor([[-inf, 0.0, 1.0], [1000.0, 999.0, -1000.0]])},
        {"dim": 1, "keepdim": False},
        second=False,
    )
    for op in ["cumsum", "cumprod"]:
        for d in [0, 1, -1]:
            case(f"{op}_{d}", op, lambda x: getattr(torch, op)(x, d), {"x": R(3, 4, 2)}, {"dim": d})
    x = R(3, 4)
    x[0, 1] = 0
    x[1, 0] = 0
    x[1, 2] = 0
    case("cumprod_zeros", "cumprod", lambda x: torch.cumprod(x, 1), {"x": x}, {"dim": 1})
    for d in [0, 1, -1]:
        for desc in [False, True]:
            case(
                f"sort_{d}_{desc}",
                "sort",
                lambda x: tuple(torch.sort(x, dim=d, descending=desc, stable=True)),
                {"x": torch.round(R(4, 5, 2) * 2)},
                {"dim": d, "descending": desc},
            )
            case(
                f"topk_{d}_{desc}",
                "topk",
                lambda x: tuple(torch.topk(x, 2, d, desc)),
                {"x": R(4, 5, 3)},
                {"k": 2, "dim": d, "largest": desc},
            )


def products():
    shapes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 2)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((2, 2, 3, 4), (1, 2, 4, 3)),
        ((1, 1), (1, 1)),
    ]
    for i, (a, b) in enumerate(shapes):
        case(
            f"matmul_shape{i}", "matmul", lambda a, b: torch.matmul(a, b), {"a": R(*a), "b": R(*b)}
        )
    for ta in [False, True]:
        for tb in [False, True]:
            case(
                f"matmul_t{ta}{tb}",
                "matmul",
                lambda a, b: (a.mT if ta else a) @ (b.mT if tb else b),
                {"a": R(2, 4, 3) if ta else R(2, 3, 4), "b": R(5, 4) if tb else R(4, 5)},
                {"transpose_a": ta, "transpose_b": tb},
            )
    for shape in [(3,), (2, 3), (2, 4, 3), (0, 3)]:
        for bias in [True, False]:
            i = {"x": R(*shape), "weight": R(5, 3)}
            if bias:
                i["bias"] = R(5)
            case(
                f"linear_{len(shape)}{shape[0]}{bias}",
                "linear",
                lambda x, weight, bias=None: F.linear(x, weight, bias),
                i,
            )
    eqs = [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
        ("i,i->", [(4,), (4,)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij,ij->i", [(3, 4), (3, 4)]),
        ("ba", [(2, 3)]),
        ("...i->...", [(2, 3, 4)]),
        ("ij,kj->ik", [(2, 3), (4, 3)]),
        ("ik,k->i", [(2, 3), (3,)]),
        ("iij->j", [(3, 3, 2)]),
        ("i...,i->...", [(3, 2, 4), (3,)]),
        ("abc->cab", [(2, 3, 4)]),
        ("ij,kl->ijkl", [(2, 2), (3, 2)]),
    ]
    for i, (eq, shapes) in enumerate(eqs):
        names = "abc"[: len(shapes)]
        case(
            f"einsum_{i}",
            "einsum",
            lambda **k: torch.einsum(eq, *k.values()),
            {n: R(*s) for n, s in zip(names, shapes)},
            {"equation": eq, "operands": list(names)},
        )
    case("outer_1", "outer", lambda a, b: torch.outer(a, b), {"a": R(3), "b": R(4)})
    case(
        "pairwise_1",
        "pairwise_sq_dist",
        lambda x: ((x[:, None] - x[None]) ** 2).sum(-1),
        {"x": R(4, 3)},
    )
