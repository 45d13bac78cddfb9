"""Convolution and pooling."""

import torch
import torch.nn.functional as F

from op_cases import R, case


def windows():
    n = 0
    for L, k, s, p, d, g, bias in [
        (9, 3, 1, 0, 1, 1, True),
        (9, 3, 2, 1, 1, 1, False),
        (9, 3, 1, 2, 2, 1, True),
        (8, 2, 3, 0, 1, 2, True),
        (6, 1, 1, 0, 1, 1, True),
        (7, 3, 2, 3, 2, 4, True),
    ]:
        i = {"x": R(2, 4, L), "weight": R(4, 4 // g, k)}
        if bias:
            i["bias"] = R(4)
        case(
            f"conv1d_{n}",
            "conv1d",
            lambda x, weight, bias=None: F.conv1d(x, weight, bias, s, p, d, g),
            i,
            {"stride": [s], "padding": [p], "dilation": [d], "groups": g},
        )
        n += 1
    confs = [
        ((6, 5), (3, 2), (1, 1), (0, 0), (1, 1), 1, True),
        ((6, 5), (3, 3), (2, 1), (1, 2), (1, 1), 1, False),
        ((7, 8), (2, 3), (1, 2), (1, 0), (2, 3), 1, True),
        ((5, 5), (3, 3), (1, 1), (1, 1), (1, 1), 4, True),
        ((5, 6), (1, 1), (1, 1), (0, 0), (1, 1), 2, True),
        ((5, 6), (1, 1), (2, 2), (0, 0), (1, 1), 1, True),
        ((4, 4), (4, 4), (1, 1), (0, 0), (1, 1), 1, True),
        ((5, 5), (3, 3), (3, 3), (2, 2), (1, 1), 2, False),
        ((6, 6), (1, 1), (1, 1), (1, 1), (1, 1), 1, True),
        ((3, 3), (3, 3), (1, 1), (4, 4), (2, 2), 1, True),
    ]
    for n, (hw, k, s, p, d, g, bias) in enumerate(confs):
        for N in [1, 3]:
            i = {"x": R(N, 4, *hw), "weight": R(8, 4 // g, *k)}
            if bias:
                i["bias"] = R(8)
            case(
                f"conv2d_{n}_{N}",
                "conv2d",
                lambda x, weight, bias=None: F.conv2d(x, weight, bias, s, p, d, g),
                i,
                {"stride": list(s), "padding": list(p), "dilation": list(d), "groups": g},
            )
    confs = [
        ((3, 4), (3, 2), (1, 1), (0, 0), (0, 0), (1, 1), 1, True),
        ((3, 4), (3, 3), (2, 3), (1, 0), (1, 2), (1, 1), 1, False),
        ((3, 3), (2, 3), (2, 2), (1, 1), (0, 1), (2, 2), 2, True),
        ((4, 4), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1, True),
        ((3, 4), (3, 3), (1, 2), (2, 1), (0, 0), (1, 1), 4, True),
        ((2, 2), (2, 2), (3, 3), (0, 0), (2, 2), (1, 1), 1, True),
    ]
    for n, (hw, k, s, p, o, d, g, bias) in enumerate(confs):
        i = {"x": R(2, 4, *hw), "weight": R(4, 6 // g if g < 4 else 1, *k)}
        if bias:
            i["bias"] = R(i["weight"].shape[1] * g)
        case(
            f"convT_{n}",
            "conv_transpose2d",
            lambda x, weight, bias=None: F.conv_transpose2d(x, weight, bias, s, p, o, g, d),
            i,
            {
                "stride": list(s),
                "padding": list(p),
                "output_padding": list(o),
                "dilation": list(d),
                "groups": g,
            },
        )
    n = 0
    for hw in [(6, 7), (5, 5), (4, 9)]:
        for k, s, p, d in [
            ((2, 2), (2, 2), (0, 0), (1, 1)),
            ((3, 3), (2, 2), (1, 1), (1, 1)),
            ((3, 2), (1, 2), (1, 0), (1, 1)),
            ((2, 2), (1, 1), (0, 0), (2, 2)),
            ((2, 3), (3, 3), (1, 1), (1, 1)),
            ((3, 3), (1, 1), (1, 1), (2, 1)),
            ((2, 2), (3, 3), (1, 1), (1, 1)),
        ]:
            for ceil in [False, True]:
                try:
                    F.max_pool2d(R(1, 1, *hw), k, s, p, d, ceil)
                except RuntimeError:
                    continue
                case(
                    f"maxpool_{n}",
                    "max_pool2d",
                    lambda x: F.max_pool2d(x, k, s, p, d, ceil),
                    {"x": R(2, 3, *hw)},
                    {
                        "kernel_size": list(k),
                        "stride": list(s),
                        "padding": list(p),
                        "dilation": list(d),
                        "ceil_mode": ceil,
                    },
                )
                if d == (1, 1):
                    for inc in [False, True]:
                        case(
                            f"avgpool_{n}_{inc}",
                            "avg_pool2d",
                            lambda x: F.avg_pool2d(x, k, s, p, ceil, inc),
                            {"x": R(2, 3, *hw)},
                            {
                                "kernel_size": list(k),
                                "stride": list(s),
                                "padding": list(p),
                                "ceil_mode": ceil,
                                "count_include_pad": inc,
                            },
                        )
                n += 1
    case(
        "maxpool_ties",
        "max_pool2d",
        lambda x: F.max_pool2d(x, 2, 1, 1),
        {"x": torch.round(R(2, 2, 4, 4))},
        {
            "kernel_size": [2, 2],
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "ceil_mode": False,
        },
    )
    for hw, o in [
        ((6, 6), (2, 3)),
        ((7, 5), (3, 2)),
        ((5, 4), (7, 4)),
        ((3, 3), (3, 3)),
        ((9, 10), (1, 4)),
        ((5, 7), (1, 1)),
    ]:
        case(
            f"adaptive_{hw[0]}{hw[1]}_{o[0]}{o[1]}",
            "adaptive_avg_pool2d",
            lambda x: F.adaptive_avg_pool2d(x, o),
            {"x": R(2, 3, *hw)},
            {"output_size": list(o)},
        )
