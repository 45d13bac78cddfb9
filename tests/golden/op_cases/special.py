"""Special functions, whole quotients, bits and bounds."""

import torch

from op_cases import P, R, case

INF, NAN = float("inf"), float("nan")


def special():
    domains = {
        "asin": torch.rand(3, 4) * 1.8 - 0.9,
        "acos": torch.rand(3, 4) * 1.8 - 0.9,
        "asinh": R(3, 4) * 3,
        "acosh": P(3, 4) + 1,
        "atanh": torch.rand(3, 4) * 1.8 - 0.9,
        "log10": P(3, 4),
        "erfc": R(3, 4) * 2,
        "erfinv": torch.rand(3, 4) * 1.8 - 0.9,
        "lgamma": P(3, 4) * 4,
        "digamma": P(3, 4) * 4,
        "sinc": R(3, 4),
        "logit": torch.rand(3, 4) * 0.8 + 0.1,
        "deg2rad": R(3, 4),
        "rad2deg": R(3, 4),
        "trunc": R(3, 4) * 3,
        "frac": R(3, 4) * 3,
        "signbit": R(3, 4),
        "isposinf": torch.tensor([1.0, INF, -INF, NAN]),
        "isneginf": torch.tensor([1.0, INF, -INF, NAN]),
    }
    for op, x in domains.items():
        for label, value in {"wide": x, "empty": x[:0]}.items():
            case(f"{op}_{label}", op, lambda x, op=op: getattr(torch, op)(x), {"x": value})
    for op, x in {
        "asin": [-1.0, 1.0, 2.0, 0.0, NAN],
        "acos": [-1.0, 1.0, 2.0, 0.0, NAN],
        "asinh": [-INF, INF, 0.0, 1e200, NAN],
        "acosh": [1.0, INF, 0.5, 1e200, NAN],
        "atanh": [-1.0, 1.0, 2.0, 0.0],
        "log10": [0.0, 1000.0, INF, -1.0],
        "erfc": [-INF, INF, 0.0, 27.0, -27.0],
        "erfinv": [-1.0, 1.0, 0.0, 0.999999999, -1e-300, 1.5, 0.9999999999999],
        "lgamma": [1.0, 2.0, 0.5, -0.5, -3.7, 100.0, 1e10, INF, 1e-10],
        "digamma": [1.0, 0.5, -0.5, -3.7, 100.0, 1e10, 1e-10, 0.0, -2.0],
        "sinc": [0.0, 1.0, -2.0],
        "trunc": [-0.5, 0.5, INF, NAN, 2.0**60],
        "signbit": [-0.0, 0.0, -INF, 1.0],
    }.items():
        f = getattr(torch, op)
        x = torch.tensor(x)
        case(f"{op}_special", op, lambda x: f(x), {"x": x}, fixed=("x",))
    for n in [0, 1, 2, 5]:
        case(
            f"polygamma_{n}",
            "polygamma",
            lambda x, n=n: torch.polygamma(n, x),
            {"x": P(4) * 4},
            {"n": n},
            tol=1e-8,  # PyTorch's trigamma has ten digits
        )
    x = torch.tensor([-0.5, -3.7, -0.01])
    case("polygamma_below", "polygamma", lambda x: torch.polygamma(1, x), {"x": x}, {"n": 1}, ("x",))
    case(
        "logit_eps",
        "logit",
        lambda x: torch.logit(x, 0.2),
        {"x": torch.tensor([0.05, 0.1, 0.3, 0.5, 0.95])},
        {"eps": 0.2},
    )
    x = torch.tensor([1.0, NAN, INF, -INF, -2.0])
    case("nan_to_num_0", "nan_to_num", lambda x: torch.nan_to_num(x), {"x": x})
    case(
        "nan_to_num_1",
        "nan_to_num",
        lambda x: torch.nan_to_num(x, 3.0, 7.0, -9.0),
        {"x": x},
        {"nan": 3.0, "posinf": 7.0, "neginf": -9.0},
    )
    for d in [1, 3, -1]:
        case(
            f"round_{d}",
            "round_decimals",
            lambda x, d=d: torch.round(x, decimals=d),
            {"x": R(5) * 20},
            {"decimals": d},
        )


def pairs():
    wide = {"a": R(3, 4), "b": R(4)}
    below = {"a": R(3, 4), "b": P(3, 1)}
    for op, inputs in {
        "hypot": wide,
        "copysign": wide,
        "fmax": wide,
        "fmin": wide,
        "fmod": {"a": R(3, 4) * 5, "b": P(4)},
        "floor_divide": {"a": R(3, 4) * 5, "b": P(4)},
        "xlogy": below,
        "float_power": {"a": P(3, 4), "b": R(4)},
        "heaviside": {"a": torch.tensor([-1.0, 0.0, 2.0, NAN]), "b": R(4)},
        "clamp_min": wide,
        "clamp_max": wide,
    }.items():
        fixed = ("a", "b") if op in ("heaviside", "floor_divide") else ()
        case(f"{op}_wide", op, lambda a, b, op=op: getattr(torch, op)(a, b), inputs, None, fixed)
    specials = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN])
    a = specials.repeat_interleave(7)
    b = specials.repeat(7)
    for op in ["hypot", "copysign", "fmax", "fmin", "fmod", "xlogy", "floor_divide", "clamp_min"]:
        case(
            f"{op}_special",
            op,
            lambda a, b, op=op: getattr(torch, op)(a, b),
            {"a": a, "b": b},
            None,
            ("a", "b"),
        )
    x = torch.tensor([0.0, 0.0, 1.0, 2.0])
    y = torch.tensor([0.0, 2.0, 3.0, 0.5])
    case("xlogy_zero", "xlogy", lambda a, b: torch.xlogy(a, b), {"a": x, "b": y})
    case("hypot_zero", "hypot", lambda a, b: torch.hypot(a, b), {"a": x, "b": x * 0})
    case("copysign_zero", "copysign", lambda a, b: torch.copysign(a, b), {"a": x, "b": -y}, second=False)
    for mode in ["trunc", "floor"]:
        case(
            f"div_{mode}",
            "div_rounding",
            lambda a, b, mode=mode: torch.div(a, b, rounding_mode=mode),
            {"a": R(3, 4) * 9, "b": R(4)},
            {"mode": mode},
        )
        case(
            f"div_{mode}_special",
            "div_rounding",
            lambda a, b, mode=mode: torch.div(a, b, rounding_mode=mode),
            {"a": a, "b": b},
            {"mode": mode},
            ("a", "b"),
        )
    low = torch.tensor([-1.0, 0.0, 0.5, 1.0, 0.0])
    high = torch.tensor([1.0, 0.0, 1.0, -1.0, 2.0])
    x = torch.tensor([[-2.0, -1.0, 0.7, 0.0, 2.0], [1.0, 0.0, 3.0, 2.0, -1.0]])
    case(
        "clamp_tensors",
        "clamp_tensors",
        lambda x, low, high: torch.clamp(x, low, high),
        {"x": x, "low": low, "high": high},
    )
    for alpha in [2.0, -0.5]:
        case(
            f"add_alpha_{alpha}",
            "add_alpha",
            lambda a, b, alpha=alpha: torch.add(a, b, alpha=alpha),
            wide,
            {"alpha": alpha},
        )
        case(
            f"sub_alpha_{alpha}",
            "sub_alpha",
            lambda a, b, alpha=alpha: torch.sub(a, b, alpha=alpha),
            wide,
            {"alpha": alpha},
        )


def bits():
    a = torch.randint(-100, 100, (3, 4))
    b = torch.randint(-100, 100, (4,))
    extremes = torch.tensor([2**63 - 1, -(2**63), -1, 0])
    for op in ["bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "fmod"]:
        for label, (x, y) in {"wide": (a, b), "extreme": (a[:, :4], extremes)}.items():
            if op in ("floor_divide", "fmod"):
                y = torch.where(y == 0, 7, y)
            case(f"{op}_int_{label}", op, lambda a, b: getattr(torch, op)(a, b), {"a": x, "b": y})
    for op in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        inputs = {"a": a > 0, "b": b > 0}
        case(f"{op}_bool", op, lambda a, b, op=op: getattr(torch, op)(a, b), inputs)
    case("bitwise_not", "bitwise_not", lambda x: torch.bitwise_not(x), {"x": a})
    case("bitwise_not_bool", "bitwise_not", lambda x: torch.bitwise_not(x), {"x": a > 0})
    places = torch.tensor([0, 1, 5, 63])
    for op in ["bitwise_left_shift", "bitwise_right_shift"]:
        case(op, op, lambda a, b, op=op: getattr(torch, op)(a, b), {"a": a, "b": places})
    for mode in ["trunc", "floor"]:
        case(
            f"div_{mode}_int",
            "div_rounding",
            lambda a, b, mode=mode: torch.div(a, b, rounding_mode=mode),
            {"a": a, "b": torch.where(b == 0, 7, b)},
            {"mode": mode},
        )
