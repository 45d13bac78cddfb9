"""Elementwise operators."""

import torch
import torch.nn.functional as F

from op_cases import P, R, case


def unary():
    ops = {
        "neg": torch.neg,
        "abs": torch.abs,
        "exp": torch.exp,
        "expm1": torch.expm1,
        "exp2": torch.exp2,
        "square": torch.square,
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "atan": torch.atan,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "logsigmoid": F.logsigmoid,
        "erf": torch.erf,
        "relu": F.relu,
        "relu6": F.relu6,
        "silu": F.silu,
        "mish": F.mish,
        "softsign": F.softsign,
        "hardswish": F.hardswish,
        "floor": torch.floor,
        "sign": torch.sign,
    }
    for op, f in ops.items():
        for label, x in {"wide": R(3, 5) * 4, "scalar": R(), "empty": R(0, 3)}.items():
            case(f"{op}_{label}", op, lambda x, f=f: f(x), {"x": x})
    for op in ["log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"]:
        case(
            f"{op}_wide", op, lambda x, op=op: getattr(torch, op)(x), {"x": torch.exp(R(4, 3) * 2)}
        )
    case("reciprocal_negative", "reciprocal", lambda x: x.reciprocal(), {"x": -P(4)})
    for op, x in {
        "logsigmoid": [-800.0, -40.0, -1.0, 0.0, 30.0, 800.0],
        "silu": [-100.0, 0.0, 100.0],
        "mish": [-100.0, -25.0, 0.0, 25.0, 100.0],
        "tanh": [-30.0, 0.0, 30.0],
        "sigmoid": [-700.0, -30.0, 0.0, 30.0, 700.0],
        "erf": [-7.0, 0.0, 7.0],
        "softsign": [-1e8, 0.0, 1e8],
        "sqrt": [0.0, 1.0, 4.0],
        "log": [0.0, 1.0],
        "relu6": [0.0, 6.0, -1.0, 7.0, 3.0],
        "hardswish": [-3.0, 3.0, 0.0, -4.0, 4.0],
        "expm1": [-50.0, 1e-12, 0.0],
        "log1p": [1e-12, 0.0, -0.5],
        "sign": [0.0, -2.0, 3.0],
    }.items():
        f = ops.get(op) or getattr(torch, op)
        case(
            f"{op}_edges",
            op,
            lambda x, f=f: f(x),
            {"x": torch.tensor(x)},
            second=op not in ("sqrt", "log"),
        )
    x = torch.cat([R(6) * 3, torch.tensor([0.0])])
    for s in [0.2, 0.0, -0.5]:
        case(
            f"leaky_relu_{s}",
            "leaky_relu",
            lambda x: F.leaky_relu(x, s),
            {"x": x},
            {"negative_slope": s},
        )
    for a in [0.5, 2.0]:
        case(f"elu_{a}", "elu", lambda x: F.elu(x, a), {"x": R(7) * 3}, {"alpha": a})
    for mode in ["none", "tanh"]:
        case(
            f"gelu_wide_{mode}",
            "gelu",
            lambda x: F.gelu(x, approximate=mode),
            {"x": torch.cat([R(8) * 3, torch.tensor([-12.0, 0.0, 12.0])])},
            {"approximate": mode},
        )
    for beta, threshold in [(2.0, 20.0), (0.5, 1.0), (3.0, 5.0)]:
        case(
            f"softplus_{beta}_{threshold}",
            "softplus",
            lambda x: F.softplus(x, beta, threshold),
            {"x": R(9) * 4},
            {"beta": beta, "threshold": threshold},
        )
    case("clamp_low", "clamp", lambda x: torch.clamp(x, min=0.1), {"x": R(7)}, {"min": 0.1})
    case("clamp_high", "clamp", lambda x: torch.clamp(x, max=0.1), {"x": R(7)}, {"max": 0.1})
    case(
        "clamp_crossed",
        "clamp",
        lambda x: torch.clamp(x, min=0.5, max=-0.5),
        {"x": R(7)},
        {"min": 0.5, "max": -0.5},
        second=False,
    )
    for e in [0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, 2.5, -0.5]:
        case(f"pow_scalar_{e}", "pow_scalar", lambda x: x**e, {"x": P(5)}, {"exponent": e})
    for e in [0, 1, 2, 3, 4]:
        case(
            f"pow_scalar_zero_{e}",
            "pow_scalar",
            lambda x: x**e,
            {"x": torch.tensor([0.0, -1.5, 2.0])},
            {"exponent": e},
        )
    for b in [3.0, 0.5, 1]:
        case(f"rpow_{b}", "rpow_scalar", lambda x: b**x, {"x": R(5)}, {"base": b})
    case("scale_int", "add_scalar_mul", lambda x: x * 3 + 2, {"x": R(5)}, {"mul": 3, "add": 2})


def binary():
    shapes = [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((2, 1, 3), (4, 1)),
        ((), (3,)),
        ((3,), ()),
        ((), ()),
        ((0, 3), (3,)),
        ((1, 5), (5, 1)),
        ((2, 3, 4), (1, 1, 1)),
    ]
    fs = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "atan2": torch.atan2,
        "pow": torch.pow,
    }
    for op, f in fs.items():
        for i, (a, b) in enumerate(shapes):
            base = P(*a) if op == "pow" else R(*a)
            case(f"{op}_shape{i}", op, lambda a, b, f=f: f(a, b), {"a": base, "b": R(*b) + 0.1})
    t = torch.tensor([1.0, 2.0, 3.0, 0.0])
    for op in ["maximum", "minimum"]:
        case(
            f"{op}_tied",
            op,
            lambda a, b, f=fs[op]: f(a, b),
            {"a": t, "b": torch.tensor([1.0, 3.0, 2.0, 0.0])},
        )
    case(
        "pow_zero_base",
        "pow",
        lambda a, b: torch.pow(a, b),
        {"a": torch.tensor([0.0, 0.0, 2.0]), "b": torch.tensor([2.0, 1.0, 0.0])},
        second=False,
    )
    case(
        "pow_negative_base",
        "pow",
        lambda a, b: torch.pow(a, b),
        {"a": torch.tensor([-2.0, -1.5]), "b": torch.tensor([2.0, 3.0])},
        fixed=("b",),
    )
    case("mul_self_2d", "mul_self", lambda x: x * x, {"x": R(3, 2)})
    for w in [0.0, 1.0, 0.7, -0.4, 1.6]:
        case(
            f"lerp_{w}",
            "lerp",
            lambda a, b: torch.lerp(a, b, w),
            {"a": R(2, 3), "b": R(2, 3)},
            {"weight": w},
        )
    case(
        "addcmul_bcast",
        "addcmul",
        lambda x, a, b: torch.addcmul(x, a, b, value=-2.0),
        {"x": R(3, 1), "a": R(4), "b": R(2, 1, 1)},
        {"value": -2.0},
    )
    case(
        "where_bcast",
        "where",
        lambda cond, a, b: torch.where(cond, a, b),
        {"cond": R(3, 1) > 0, "a": R(4), "b": R(2, 1, 4)},
    )
    case(
        "masked_fill_bcast",
        "masked_fill",
        lambda x, mask: x.masked_fill(mask, 2.5),
        {"x": R(2, 3, 4), "mask": R(3, 1) > 0},
        {"value": 2.5},
    )
    case(
        "masked_fill_inf",
        "masked_fill",
        lambda x, mask: x.masked_fill(mask, -7),
        {"x": R(3, 4), "mask": R(3, 4) > 0},
        {"value": -7},
    )
