"""Makes reference cases of operators that are made of others in ops_composed/ with PyTorch 2.15.

    python make_ops_composed.py ops_composed

The form of the files is that of ops/README.md.
"""

import sys

import op_cases
import torch
from op_cases import P, R, case

INF, NAN = float("inf"), float("nan")
T = torch.tensor


def special():
    for op, f, wide in [
        ("entr", lambda x: torch.special.entr(x), P(3, 4)),
        ("ndtr", lambda x: torch.special.ndtr(x), R(3, 4) * 3),
    ]:
        case(f"{op}_wide", op, f, {"x": wide})
        case(f"{op}_empty", op, f, {"x": wide[:0]})
    case("entr_ends", "entr", lambda x: torch.special.entr(x), {"x": T([0.0, -1.0, INF, NAN, 1.0])}, fixed=("x",))
    case("ndtr_ends", "ndtr", lambda x: torch.special.ndtr(x), {"x": T([-INF, -37.0, -8.0, 0.0, 8.0, INF])})
    for op, f in [
        ("xlog1py", torch.special.xlog1py),
        ("logaddexp2", torch.logaddexp2),
        ("ldexp", torch.ldexp),
    ]:
        pair = lambda a, b, f=f: f(a, b)
        case(f"{op}_wide", op, pair, {"a": P(3, 4), "b": P(4)})
        case(f"{op}_outer", op, pair, {"a": P(3, 1) * 9, "b": P(1, 4) * 9})
    ends = {"a": T([0.0, 0.0, 0.0, 0.0, 2.0, 2.0]), "b": T([-1.0, -2.0, INF, NAN, -1.0, -3.0])}
    case("xlog1py_ends", "xlog1py", lambda a, b: torch.special.xlog1py(a, b), ends, fixed=("a", "b"))
    ends = {"a": T([INF, -INF, -INF, 3.0, 1e300]), "b": T([INF, -INF, 2.0, 3.0, -1e300])}
    case("logaddexp2_ends", "logaddexp2", lambda a, b: torch.logaddexp2(a, b), ends, fixed=("a", "b"))


def integrals():
    y, x = R(3, 5, 2), torch.sort(R(5))[0]
    for op, f in [
        ("trapezoid", torch.trapezoid),
        ("cumulative_trapezoid", torch.cumulative_trapezoid),
    ]:
        for dim in (0, 1, -1):
            case(f"{op}_{dim}", op, lambda y, d=dim: f(y, dim=d), {"y": y}, {"dim": dim})
        case(f"{op}_dx", op, lambda y: f(y, dx=0.3), {"y": y}, {"dx": 0.3})
        case(f"{op}_line", op, lambda y, x: f(y, x, dim=1), {"y": y, "x": x}, {"dim": 1})
        each = {"y": y, "x": R(3, 5, 2)}
        case(f"{op}_each", op, lambda y, x: f(y, x, dim=1), each, {"dim": 1})
        some = {"y": y, "x": R(5, 1)}
        case(f"{op}_some", op, lambda y, x: f(y, x, dim=-2), some, {"dim": -2})
        case(f"{op}_none", op, lambda y: f(y), {"y": R(3, 0)})
        case(f"{op}_one", op, lambda y: f(y), {"y": R(3, 1)})


def relations():
    x = R(3, 6)
    f, a = torch.randint(1, 4, (6,)), P(6)
    case("cov", "cov", lambda x: torch.cov(x), {"x": x})
    case("cov_line", "cov", lambda x: torch.cov(x), {"x": x[0]})
    case("cov_0", "cov", lambda x: torch.cov(x, correction=0), {"x": x}, {"correction": 0.0})
    case("cov_f", "cov", lambda x, f: torch.cov(x, fweights=f), {"x": x, "f": f})
    case("cov_a", "cov", lambda x, a: torch.cov(x, aweights=a), {"x": x, "a": a}, fixed=("a",))
    both = {"x": x, "f": f, "a": a}
    case("cov_fa", "cov", lambda x, f, a: torch.cov(x, fweights=f, aweights=a), both, fixed=("a",))
    case("corrcoef", "corrcoef", lambda x: torch.corrcoef(x), {"x": x})
    case("corrcoef_line", "corrcoef", lambda x: torch.corrcoef(x), {"x": x[0]}, fixed=("x",))


def products():
    case("vecdot", "vecdot", lambda a, b: torch.linalg.vecdot(a, b), {"a": R(3, 4), "b": R(4)})
    case("vecdot_0", "vecdot", lambda a, b: torch.linalg.vecdot(a, b, dim=0), {"a": R(3, 4), "b": R(3, 1)}, {"dim": 0})
    for p in (0.0, 1.0, 2.0, 3.5, INF):
        case(f"pdist_{p}", "pdist", lambda x, p=p: torch.pdist(x, p), {"x": R(5, 3)}, {"p": str(p)}, second=False)
    case("pdist_one", "pdist", lambda x: torch.pdist(x), {"x": R(1, 3)}, {"p": "2"}, second=False)
    for p, dim in [(2.0, 0), (1.0, -1), (3.0, 1), (INF, 0)]:
        attrs = {"p": str(p), "dim": dim, "maxnorm": 1.1}
        case(f"renorm_{p}_{dim}", "renorm", lambda x, p=p, dim=dim: torch.renorm(x, p, dim, 1.1), {"x": R(3, 4, 2)}, attrs)
    for p, dims, keepdim in [(2.0, [], False), (1.0, [1], True), (INF, [0, 1], False)]:
        attrs = {"p": str(p), "dims": dims, "keepdim": keepdim}
        norm = lambda x, p=p, d=dims, k=keepdim: torch.linalg.vector_norm(x, p, d or None, k)
        case(f"vector_norm_{p}", "vector_norm", norm, {"x": R(3, 4, 2)}, attrs)
    a = R(2, 3, 6)
    case("tensorinv", "tensorinv", lambda a: torch.linalg.tensorinv(a), {"a": a})
    case("tensorinv_1", "tensorinv", lambda a: torch.linalg.tensorinv(a, 1), {"a": R(6, 2, 3)}, {"ind": 1})
    case("tensorsolve", "tensorsolve", lambda a, b: torch.linalg.tensorsolve(a, b), {"a": a, "b": R(2, 3)})
    moved = {"a": R(2, 6, 3), "b": R(2, 3)}
    case("tensorsolve_dims", "tensorsolve", lambda a, b: torch.linalg.tensorsolve(a, b, (1,)), moved, {"dims": [1]})
    index = torch.randint(0, 24, (3, 2))
    case("unravel_index", "unravel_index", lambda x: torch.unravel_index(x, (2, 3, 4)), {"x": index}, {"shape": [2, 3, 4]})


def losses():
    rows = {"a": R(4, 3), "b": R(4, 3), "c": R(4, 3)}
    far = lambda a, b: (a - b).abs().sum(1)
    loss = torch.nn.functional.triplet_margin_with_distance_loss
    for swap in (False, True):
        f = lambda a, b, c, s=swap: loss(a, b, c, distance_function=far, margin=0.5, swap=s, reduction="sum")
        case(f"triplet_distance_{swap}", "triplet_distance", f, rows, {"swap": swap, "margin": 0.5, "reduction": "sum"})


for part in (special, integrals, relations, products, losses):
    part()
op_cases.write(sys.argv[1])
print(len(op_cases.cases), "cases")
