"""Makes reference cases of rare functions and of LU factors in ops_rare/ with PyTorch 2.15, and with mpmath
those of Bessel functions, of which PyTorch's have eight digits.

    python make_ops_rare.py ops_rare

The form of the files is that of ops/README.md.
"""

import sys

import mpmath
import op_cases
import torch
from op_cases import P, R, case

INF, NAN = float("inf"), float("nan")
T = torch.tensor
S, L = torch.special, torch.linalg


def bessel(op):
    of = mpmath.besselj if op[7] == "j" else mpmath.bessely

    def value(x):
        if x != x or (op[7] == "y" and x < 0):
            return NAN
        return -INF if op[7] == "y" and x == 0 else float(of(int(op[8]), x))

    return lambda x: T([value(v) for v in x.flatten().tolist()]).reshape(x.shape)


def functions():
    wide = torch.cat([R(8) * 3, R(4) * 20, R(4) * 0.1]).reshape(4, 4)
    above = torch.cat([P(8) * 4, P(4) * 20, P(4) * 0.1]).reshape(4, 4)
    for op, x in {
        "i0": wide,
        "i0e": wide,
        "i1": wide,
        "i1e": wide,
        "log_ndtr": wide,
        "erfcx": above - 3.0,
        "ndtri": torch.rand(4, 4) * 0.98 + 0.01,
    }.items():
        tol = 1e-7 if op in ("i0", "i1") else None  # derivatives of the order of e^40
        for label, value in {"wide": x, "empty": x[:0]}.items():
            case(f"{op}_{label}", op, lambda x, op=op: getattr(S, op)(x), {"x": value}, tol=tol)
    for op, x in {"bessel_j0": wide, "bessel_j1": wide, "bessel_y0": above, "bessel_y1": above}.items():
        for label, value in {"wide": x, "empty": x[:0]}.items():
            case(f"{op}_{label}", op, bessel(op), {"x": value}, fixed=("x",))
    for op, x in {
        "i0": [0.0, -0.0, NAN, 50.0, -709.0],
        "i0e": [0.0, INF, -INF, NAN, 1e5],
        "i1": [0.0, -0.0, NAN, 50.0, -709.0],
        "i1e": [0.0, INF, -INF, NAN, -1e5],
        "bessel_j0": [0.0, NAN, 1e4, 8.0, -2.404825557695773],
        "bessel_j1": [0.0, -0.0, NAN, 1e4, -8.0],
        "bessel_y0": [0.0, -1.0, NAN, 1e-10, 1e4],
        "bessel_y1": [0.0, -1.0, NAN, 1e-10, 1e4],
        "log_ndtr": [INF, -INF, NAN, -1e3, -40.0, 10.0, -1.0],
        "erfcx": [INF, -INF, NAN, 1e9, 30.0, 26.0, -26.0, 0.0],
        "ndtri": [0.0, 1.0, -0.5, 2.0, NAN, 1e-300, 0.5, 0.25, 0.9999999999],
    }.items():
        f = bessel(op) if op.startswith("bessel") else lambda x, op=op: getattr(S, op)(x)
        case(f"{op}_special", op, f, {"x": T(x)}, fixed=("x",))
    case("i0_zero", "i0", lambda x: S.i0(x), {"x": T([0.0, 1e-6])})
    case("i1_zero", "i1", lambda x: S.i1(x), {"x": T([0.0, 1e-6])}, second=False)
    case("i1e_zero", "i1e", lambda x: S.i1e(x), {"x": T([0.0, 1e-6])}, second=False)


def gammas():
    a = torch.cat([P(6) * 3, P(3) * 30, P(3) * 300, P(3) * 0.1, T([5000.0])]).reshape(4, 4)
    near = a * (torch.rand(4, 4) * 1.2 + 0.4)
    for op in ("gammainc", "gammaincc"):
        f = lambda a, x, op=op: getattr(S, op)(a, x)
        case(f"{op}_near", op, f, {"a": a, "x": near}, fixed=("a",), tol=1e-9)
        case(f"{op}_outer", op, f, {"a": P(3, 1) * 4, "x": P(1, 4) * 6}, fixed=("a",))
        case(f"{op}_empty", op, f, {"a": P(3, 1), "x": P(1, 0)}, fixed=("a",))
        ends = {
            "a": T([0.0, 0.0, 1.0, INF, INF, 1.0, -1.0, 1.0, NAN, 1e-10, 1e-5]),
            "x": T([0.0, 1.0, 0.0, INF, 1.0, INF, 1.0, -1.0, 1.0, 0.5, 1e-3]),
        }
        case(f"{op}_ends", op, f, ends, fixed=("a", "x"))
    zeta = lambda s, q: S.zeta(s, q)
    case("zeta_outer", "zeta", zeta, {"s": P(3, 1) * 3 + 1, "q": P(1, 4) * 5}, fixed=("s",), second=False)
    ends = {"s": T([1.0, 0.5, 2.0, 2.5, NAN]), "q": T([1.0, 2.0, -3.0, -0.5, 1.0])}
    case("zeta_ends", "zeta", zeta, ends, fixed=("s", "q"))
    for p in (1, 2, 5):
        f = lambda x, p=p: S.multigammaln(x, p)
        case(f"multigammaln_{p}", "multigammaln", f, {"x": P(3, 4) * 3 + 2}, {"p": p}, tol=1e-8)
    case("multigammaln_empty", "multigammaln", lambda x: S.multigammaln(x, 2), {"x": P(0, 4)}, {"p": 2})


def numbers():
    x = T([1.0, -3.0, 0.0, -0.0, 5e-324, 1.7e308, 0.3, -1024.0])
    case("frexp", "frexp", lambda x: [v if v.is_floating_point() else v.long() for v in torch.frexp(x)], {"x": x[:2]})
    for label, value in {"all": x, "ends": T([INF, -INF, NAN]), "empty": x[:0]}.items():
        f = lambda x: [v if v.is_floating_point() else v.long() for v in torch.frexp(x)]
        case(f"frexp_{label}", "frexp", f, {"x": value}, fixed=("x",))
    specials = T([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN])
    pairs = {"a": specials.repeat_interleave(7), "b": specials.repeat(7)}
    case("nextafter", "nextafter", lambda a, b: torch.nextafter(a, b), pairs, fixed=("a", "b"), tol=1e-300)
    a = T([12, -18, 0, 7, 2**62, -(2**40), 35, 1])
    b = T([18, 12, 5, 0, 2**40, 6, -21, 1])
    for op in ("gcd", "lcm"):
        f = lambda a, b, op=op: getattr(torch, op)(a, b)
        case(f"{op}_pairs", op, f, {"a": a, "b": b} if op == "gcd" else {"a": a[:4], "b": b[:4]})
        case(f"{op}_outer", op, f, {"a": torch.randint(-99, 99, (6, 1)), "b": torch.randint(-99, 99, (1, 7))})
        case(f"{op}_empty", op, f, {"a": a[:0], "b": b[:0]})


def factors():
    shapes = {"square": (4, 4), "tall": (5, 3), "wide": (3, 5), "batch": (2, 3, 3), "one": (1, 1)}
    for label, shape in shapes.items():
        x = R(*shape)
        # The sum of the matrix P is not differentiated.
        case(f"lu_{label}", "lu", lambda x: L.lu(x), {"x": x}, tol=1e-8)
        case(f"lu_factor_{label}", "lu_factor", lambda x: [v if v.is_floating_point() else v.long() for v in L.lu_factor(x)], {"x": x}, tol=1e-8)
    case("lu_singular", "lu", lambda x: L.lu(x), {"x": T([[1.0, 2.0], [2.0, 4.0]])}, fixed=("x",))
    case("lu_empty", "lu", lambda x: L.lu(x), {"x": R(2, 0, 3)}, second=False)
    for left in (True, False):
        for adjoint in (False, True):
            b = R(2, 3, 4) if left else R(2, 4, 3)

            def f(x, b, left=left, adjoint=adjoint):
                lu, pivots = L.lu_factor(x)
                return L.lu_solve(lu, pivots, b, left=left, adjoint=adjoint)

            attrs = {"left": left, "adjoint": adjoint}
            case(f"lu_solve_{left}_{adjoint}", "lu_solve", f, {"x": R(3, 3), "b": b}, attrs, tol=1e-8)
            each = {"x": R(2, 3, 3), "b": b[0]}
            case(f"lu_solve_{left}_{adjoint}_each", "lu_solve", f, each, attrs, tol=1e-8)
    for label, shape, count in [("square", (3, 3), 3), ("tall", (5, 3), 3), ("few", (2, 4, 3), 2), ("none", (3, 2), 0)]:
        x, tau = R(*shape), P(*shape[:-2], count)
        case(f"householder_{label}", "householder", lambda x, tau: L.householder_product(x, tau), {"x": x, "tau": tau})
    for left in (True, False):
        for transpose in (True, False):
            x, tau, other = R(4, 3), P(3), R(4, 2) if left else R(2, 4)
            f = lambda x, tau, b, l=left, t=transpose: torch.ormqr(x, tau, b, l, t)
            attrs = {"left": left, "transpose": transpose}
            inputs = {"x": x, "tau": tau, "b": other}
            case(f"ormqr_{left}_{transpose}", "ormqr", f, inputs, attrs, fixed=("x", "tau", "b"))
    norms = {"fro": "fro", "nuc": "nuc", "inf": INF, "one": 1, "two": 2}
    norms |= {"minus_inf": -INF, "minus_one": -1, "minus_two": -2}
    for name, p in norms.items():
        # PyTorch's cond() cannot be differentiated for all norms.
        f = lambda x, p=p: L.matrix_norm(x, p) * L.matrix_norm(L.inv(x), p)
        if p in (2, -2):
            f = lambda x, p=p: L.cond(x, p)
        case(f"cond_{name}", "cond", f, {"x": R(2, 3, 3)}, {"which": name}, tol=1e-8)
        case(f"norm_{name}", "matrix_norm_all", lambda x, p=p: L.matrix_norm(x, p), {"x": R(2, 3, 4)}, {"which": name})
        f = lambda x, p=p: L.matrix_norm(x, p, (2, 0), True)
        case(f"norm_{name}_dims", "matrix_norm_all", f, {"x": R(3, 2, 4)}, {"which": name, "dims": [2, 0]})
    case("cond_tall", "cond", lambda x: L.cond(x), {"x": R(4, 2)}, {"which": "two"}, tol=1e-8)
    case("cond_singular", "cond", lambda x: L.cond(x, 1), {"x": T([[1.0, 2.0], [2.0, 4.0]])}, {"which": "one"}, fixed=("x",))
    case("cond_empty", "cond", lambda x: L.cond(x, 2), {"x": R(2, 0, 0)}, {"which": "two"}, fixed=("x",))


def slices():
    for reduce in ("prod", "mean", "amax", "amin"):
        for self in (True, False):
            f = lambda x, index, src, r=reduce, s=self: x.index_reduce(1, index, src, r, include_self=s)
            inputs = {"x": P(3, 4), "index": T([0, 2, 0, 3, 0]), "src": P(3, 5)}
            attrs = {"reduce": reduce, "include_self": self}
            case(f"index_reduce_{reduce}_{self}", "index_reduce", f, inputs, attrs)


for part in (functions, gammas, numbers, factors, slices):
    part()
op_cases.write(sys.argv[1])
print(len(op_cases.cases), "cases")
