"""Order statistics, running functions, reductions without NaN; products and matrices."""

import torch

from op_cases import P, R, case

NAN, INF = float("nan"), float("inf")


def order():
    x, holes = R(3, 5), R(3, 4)
    holes[0, 1] = holes[2, 0] = holes[2, 3] = NAN
    ties = torch.randint(0, 3, (4, 5)).double()
    for name, value in {"wide": x, "even": R(2, 4), "nan": holes}.items():
        fixed = ("x",) if name == "nan" else ()
        for op in ["median", "nanmedian"]:
            f = getattr(torch, op)
            case(f"{op}_{name}", f"{op}_all", lambda x: f(x), {"x": value}, None, fixed)
            for dim, keepdim in [(1, False), (0, True)]:
                attrs = {"dim": dim, "keepdim": keepdim}
                if name == "nan" and op == "median":
                    continue
                case(
                    f"{op}_{name}_{dim}",
                    op,
                    lambda x: tuple(f(x, dim, keepdim)),
                    {"x": value},
                    attrs,
                    fixed,
                )
    case("median_ties", "median_all", lambda x: torch.median(x), {"x": ties})
    for k, dim, keepdim in [(1, 1, False), (3, 0, True), (5, -1, False)]:
        attrs = {"k": k, "dim": dim, "keepdim": keepdim}
        x5 = R(5, 5)
        case(f"kthvalue_{k}", "kthvalue", lambda x: tuple(torch.kthvalue(x, k, dim, keepdim)), {"x": x5}, attrs)
    for dim in [0, 1]:
        case(f"mode_{dim}", "mode", lambda x: torch.mode(x, dim).values, {"x": ties}, {"dim": dim})
    q = torch.tensor([0.0, 0.2, 0.5, 0.77, 1.0])
    for how in ["linear", "lower", "higher", "midpoint", "nearest"]:
        for name, value in {"wide": R(3, 5), "nan": holes}.items():
            for op in ["quantile", "nanquantile"]:
                f = getattr(torch, op)
                fixed = ("x", "q") if name == "nan" or how != "linear" else ("q",)
                case(
                    f"{op}_{how}_{name}",
                    op,
                    lambda x, q: f(x, q, 1, interpolation=how),
                    {"x": value, "q": q},
                    {"dim": 1, "how": how},
                    fixed,
                )
    case("quantile_keep", "quantile", lambda x, q: torch.quantile(x, q, 0, True), {"x": R(3, 4), "q": q}, {"dim": 0, "keepdim": True}, ("q",))
    case("quantile_all", "quantile", lambda x, q: torch.quantile(x, q), {"x": R(3, 4), "q": torch.tensor(0.3)}, {}, ("q",))
    case("quantile_all_keep", "quantile", lambda x, q: torch.quantile(x, q, keepdim=True), {"x": R(3, 4), "q": q}, {"keepdim": True}, ("q",))


def running():
    holes = R(3, 6)
    holes[0, 1] = holes[2, 0] = holes[2, 3] = NAN
    ties = torch.randint(0, 3, (4, 7)).double()
    for op in ["cummax", "cummin"]:
        f = getattr(torch, op)
        for name, value in {"wide": R(3, 6), "ties": ties, "nan": holes, "empty": R(0, 3)}.items():
            for dim in [0, -1]:
                fixed = ("x",) if name == "nan" else ()
                case(f"{op}_{name}_{dim}", op, lambda x: tuple(f(x, dim)), {"x": value}, {"dim": dim}, fixed)
        case(f"{op}_number", op, lambda x: tuple(f(x, 0)), {"x": R()}, {"dim": 0})
    low = R(2, 5)
    low[0, 0] = low[1, 2] = -INF
    for name, value in {"wide": R(3, 6) * 5, "far": R(2, 4) * 400, "empty": R(0, 3)}.items():
        for dim in [0, 1]:
            case(f"logcumsumexp_{name}_{dim}", "logcumsumexp", lambda x: torch.logcumsumexp(x, dim), {"x": value}, {"dim": dim})
    case("logcumsumexp_low", "logcumsumexp", lambda x: torch.logcumsumexp(x, 1), {"x": low}, {"dim": 1}, ("x",))
    for n, dim in [(1, -1), (2, 0), (7, 1), (0, 0)]:
        case(f"diff_{n}_{dim}", "diff", lambda x: torch.diff(x, n, dim), {"x": R(4, 5)}, {"n": n, "dim": dim})


def without_nan():
    holes = R(3, 4)
    holes[0, 1] = holes[1, 2:] = NAN
    for op in ["nansum", "nanmean"]:
        f = getattr(torch, op)
        case(f"{op}_all", op, lambda x: f(x), {"x": holes})
        for dim, keepdim in [(1, False), (0, True)]:
            case(f"{op}_{dim}", op, lambda x: f(x, dim, keepdim), {"x": holes}, {"dim": dim, "keepdim": keepdim})
    x = torch.tensor([[0.0, 1.0, NAN], [0.0, 0.0, -0.0]])
    case("count_nonzero_all", "count_nonzero", lambda x: torch.count_nonzero(x), {"x": x}, {}, ("x",))
    case("count_nonzero_1", "count_nonzero", lambda x: torch.count_nonzero(x, 1), {"x": x}, {"dim": 1}, ("x",))
    case("aminmax", "aminmax", lambda x: tuple(torch.aminmax(x, dim=1)), {"x": R(3, 4)}, {"dim": 1})
    case("aminmax_all", "aminmax", lambda x: tuple(torch.aminmax(x)), {"x": R(3, 4)}, {})
    case("var_mean", "var_mean", lambda x: torch.var_mean(x, 1), {"x": R(3, 4)}, {"dim": 1})
    for p in [0.5, 1.0, 2.0, 3.0]:
        case(f"dist_{p}", "dist", lambda x, y: torch.dist(x, y, p), {"x": R(3, 4), "y": R(3, 4)}, {"p": p})


def sums():
    for beta, alpha in [(1.0, 1.0), (0.5, -2.0), (0.0, 3.0)]:
        attrs = {"beta": beta, "alpha": alpha}
        for op, shapes in {
            "addmm": [(4,), (2, 3), (3, 4)],
            "addmv": [(2,), (2, 3), (3,)],
            "addr": [(2, 4), (2,), (4,)],
            "baddbmm": [(2, 1, 4), (2, 3, 2), (2, 2, 4)],
            "addbmm": [(3, 4), (2, 3, 2), (2, 2, 4)],
        }.items():
            case(
                f"{op}_{beta}",
                op,
                lambda i, a, b: getattr(torch, op)(i, a, b, beta=beta, alpha=alpha),
                {"i": R(*shapes[0]), "a": R(*shapes[1]), "b": R(*shapes[2])},
                attrs,
            )
    i = torch.full((4,), NAN)
    case("addmm_ignored", "addmm", lambda i, a, b: torch.addmm(i, a, b, beta=0), {"i": i, "a": R(2, 3), "b": R(3, 4)}, {"beta": 0.0, "alpha": 1.0}, ("i",))
    case("mv", "mv", lambda a, b: torch.mv(a, b), {"a": R(2, 3), "b": R(3)})
    for n, (s, t) in enumerate([((2, 3), (4, 3)), ((3,), (3,)), ((2, 2, 3), (3,)), ((), (2, 3))]):
        case(f"inner_{n}", "inner", lambda a, b: torch.inner(a, b), {"a": R(*s), "b": R(*t)})
    for n, (s, t, dims) in enumerate(
        [((2, 3, 4), (3, 4, 5), 2), ((2, 3), (4, 5), 0), ((2, 3, 4), (4, 5, 2), [[2, 0], [0, 2]]), ((3, 4), (4, 3), [[-1], [0]])]
    ):
        case(f"tensordot_{n}", "tensordot", lambda a, b: torch.tensordot(a, b, dims), {"a": R(*s), "b": R(*t)}, {"dims": dims})
    for n, (s, t) in enumerate([((2, 3), (4, 2)), ((3,), (2, 2)), ((), (2,)), ((2, 1, 2), (3, 2, 1))]):
        case(f"kron_{n}", "kron", lambda a, b: torch.kron(a, b), {"a": R(*s), "b": R(*t)})
    for n, (s, t, dim) in enumerate([((2, 3), (2, 3), -1), ((3, 4), (3, 1), 0), ((1, 3), (5, 3), 1)]):
        case(f"cross_{n}", "cross", lambda a, b: torch.linalg.cross(a, b, dim=dim), {"a": R(*s), "b": R(*t)}, {"dim": dim})
    inputs = {"t0": R(2, 5), "t1": R(5, 3), "t2": R(3, 7), "t3": R(7)}
    case("multi_dot", "multi_dot", lambda **t: torch.linalg.multi_dot(list(t.values())), inputs, {"operands": list(inputs)})


def matrices():
    for p in [0.5, 1.0, 2.0, 3.0, INF]:
        attrs = {"p": "inf" if p == INF else p}
        case(f"cdist_{p}", "cdist", lambda a, b: torch.cdist(a, b, p), {"a": R(2, 3, 4), "b": R(2, 5, 4)}, attrs)
    case("cdist_broadcast", "cdist", lambda a, b: torch.cdist(a, b), {"a": R(3, 4), "b": R(2, 5, 4)}, {"p": 2.0})
    case("cdist_many", "cdist", lambda a, b: torch.cdist(a, b), {"a": R(30, 4), "b": R(5, 4)}, {"p": 2.0})
    for n in [0, 1, 2, 3, 5, -1, -2]:
        a = R(2, 3, 3) + 3 * torch.eye(3)
        case(f"matrix_power_{n}", "matrix_power", lambda x: torch.linalg.matrix_power(x, n), {"x": a}, {"n": n}, ("x",) if n == 0 else ())
    for scale in [0.01, 1.0, 6.0]:
        case(f"matrix_exp_{scale}", "matrix_exp", lambda x: torch.matrix_exp(x), {"x": R(2, 3, 3) * scale}, {})
