"""Images and volumes: resampling, sampling at points, windows, convolutions; other functions."""

import torch
import torch.nn.functional as F

from op_cases import P, R, case


def resampling():
    inputs = {1: (2, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 3, 4, 2)}
    named = {
        "nearest": [1, 2, 3],
        "nearest-exact": [1, 2, 3],
        "area": [1, 2, 3],
        "linear": [1],
        "bilinear": [2],
        "bicubic": [2],
        "trilinear": [3],
    }
    sizes = {1: [[8], [3]], 2: [[7, 9], [2, 8], [1, 1]], 3: [[5, 3, 4], [2, 2, 5]]}
    factors = {1: [2.0, 0.7], 2: [2.0, 1.7, 0.6], 3: [1.6]}
    for mode, ranks in named.items():
        corners = [False, True] if mode in ("linear", "bilinear", "bicubic", "trilinear") else [False]
        for rank in ranks:
            for align in corners:
                extra = {"align_corners": align} if len(corners) > 1 else {}
                for n, size in enumerate(sizes[rank]):
                    case(
                        f"interpolate_{mode}_{rank}_{align}_{n}",
                        "interpolate",
                        lambda x: F.interpolate(x, size=size, mode=mode, **extra),
                        {"x": R(*inputs[rank])},
                        {"size": size, "mode": mode, **extra},
                    )
                for n, factor in enumerate(factors[rank]):
                    for again in [False, True]:
                        case(
                            f"interpolate_{mode}_{rank}_{align}_f{n}{again}",
                            "interpolate",
                            lambda x: F.interpolate(
                                x, scale_factor=factor, mode=mode, recompute_scale_factor=again, **extra
                            ),
                            {"x": R(*inputs[rank])},
                            {"scale": [factor], "mode": mode, "recompute": again, **extra},
                        )
    for mode in ["bilinear", "bicubic"]:
        for size in [[2, 3], [9, 3]]:
            case(
                f"interpolate_smooth_{mode}_{size[0]}",
                "interpolate",
                lambda x: F.interpolate(x, size=size, mode=mode, antialias=True),
                {"x": R(1, 2, 7, 8)},
                {"size": size, "mode": mode, "antialias": True},
            )


def sampling():
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [False, True]:
                case(
                    f"grid_sample_{mode}_{padding}_{align}",
                    "grid_sample",
                    lambda x, grid: F.grid_sample(x, grid, mode, padding, align),
                    {"x": R(2, 2, 3, 4), "grid": R(2, 3, 2, 2) * 1.3},
                    {"mode": mode, "padding": padding, "align_corners": align},
                )
                if mode != "bicubic":
                    case(
                        f"grid_sample3_{mode}_{padding}_{align}",
                        "grid_sample",
                        lambda x, grid: F.grid_sample(x, grid, mode, padding, align),
                        {"x": R(1, 2, 3, 4, 2), "grid": R(1, 2, 3, 2, 3) * 1.3},
                        {"mode": mode, "padding": padding, "align_corners": align},
                    )
    for align in [False, True]:
        for size in [[2, 1, 3, 4], [2, 1, 1, 3], [2, 1, 2, 3, 4]]:
            dims = len(size) - 2
            case(
                f"affine_grid_{align}_{dims}{size[2]}",
                "affine_grid",
                lambda x: F.affine_grid(x, size, align),
                {"x": R(2, dims, dims + 1)},
                {"size": size, "align_corners": align},
            )


def folds():
    for n, (k, d, p, s) in enumerate([((2, 3), (1, 1), (0, 0), (1, 1)), ((2, 2), (2, 1), (1, 2), (2, 3))]):
        attrs = {"kernel": list(k), "dilation": list(d), "padding": list(p), "stride": list(s)}
        x = R(2, 2, 5, 6)
        case(f"unfold2d_{n}", "unfold2d", lambda x: F.unfold(x, k, d, p, s), {"x": x}, attrs)
        columns = R(*F.unfold(x, k, d, p, s).shape)
        case(
            f"fold_{n}",
            "fold",
            lambda x: F.fold(x, (5, 6), k, d, p, s),
            {"x": columns},
            {**attrs, "output": [5, 6]},
        )
    x = R(2, 2, 5, 6)
    for n, (k, s, p, d) in enumerate([(2, 2, 0, 1), (3, 2, 1, 1), (2, 1, 0, 2)]):
        case(
            f"max_pool2d_with_indices_{n}",
            "max_pool2d_with_indices",
            lambda x: F.max_pool2d(x, k, s, p, d, return_indices=True),
            {"x": x},
            {"kernel": k, "stride": s, "padding": p, "dilation": d},
        )
    values, where = F.max_pool2d(x, 2, return_indices=True)
    case(
        "max_unpool2d",
        "max_unpool2d",
        lambda x, index: F.max_unpool2d(x, index, 2, output_size=(5, 6)),
        {"x": R(*values.shape), "index": where},
        {"output": [5, 6]},
    )


def volumes():
    for n, (stride, padding, dilation, groups) in enumerate(
        [((1, 1, 1), (0, 0, 0), (1, 1, 1), 1), ((2, 1, 2), (1, 2, 0), (1, 2, 1), 2), ((1, 2, 1), (2, 0, 1), (2, 1, 1), 1)]
    ):
        attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        case(
            f"conv3d_{n}",
            "conv3d",
            lambda x, weight, bias: F.conv3d(x, weight, bias, stride, padding, dilation, groups),
            {"x": R(2, 2, 4, 5, 4), "weight": R(4, 2 // groups, 2, 3, 2), "bias": R(4)},
            attrs,
        )
        extra = tuple(1 if max(s, d) > 1 else 0 for s, d in zip(stride, dilation))
        case(
            f"conv_transpose3d_{n}",
            "conv_transpose3d",
            lambda x, weight, bias: F.conv_transpose3d(
                x, weight, bias, stride, padding, extra, groups, dilation
            ),
            {"x": R(2, 2, 3, 3, 3), "weight": R(2, 3, 3, 3, 2), "bias": R(3 * groups)},
            {**attrs, "extra": extra},
        )
    for n, (k, s, p, ceil, count) in enumerate(
        [(2, 2, 0, False, True), ((2, 3, 2), (1, 2, 2), (1, 1, 0), False, True), (3, 2, 1, True, False)]
    ):
        three = lambda v: [v] * 3 if isinstance(v, int) else list(v)
        attrs = {"kernel": three(k), "stride": three(s), "padding": three(p), "ceil": ceil, "count": count}
        x = {"x": R(2, 2, 4, 5, 6)}
        case(f"max_pool3d_{n}", "max_pool3d", lambda x: F.max_pool3d(x, k, s, p, 1, ceil), x, attrs)
        case(f"avg_pool3d_{n}", "avg_pool3d", lambda x: F.avg_pool3d(x, k, s, p, ceil, count), x, attrs)
    for size in [(2, 2, 3), (3, 2, 4)]:
        x = {"x": R(1, 2, 4, 5, 6)}
        attrs = {"output": list(size)}
        case(f"adaptive_avg_pool3d_{size[0]}", "adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, size), x, attrs)
        case(f"adaptive_max_pool3d_{size[0]}", "adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, size), x, attrs)
    same = {"weight": R(3, 2, 4), "bias": R(3)}
    case("conv1d_same", "conv1d_same", lambda x, weight, bias: F.conv1d(x, weight, bias, padding="same", dilation=2), {"x": R(2, 2, 7), **same}, {"dilation": [2]})
    same = {"weight": R(3, 2, 3, 2), "bias": R(3)}
    case("conv2d_same", "conv2d_same", lambda x, weight, bias: F.conv2d(x, weight, bias, padding="same", dilation=(1, 2)), {"x": R(2, 2, 5, 6), **same}, {"dilation": [1, 2]})
    same = {"weight": R(3, 2, 3, 2, 1), "bias": R(3)}
    case("conv3d_same", "conv3d_same", lambda x, weight, bias: F.conv3d(x, weight, bias, padding="same"), {"x": R(1, 2, 4, 3, 3), **same}, {"dilation": [1, 1, 1]})


def functions():
    for p, dim in [(2.0, 1), (1.0, 0), (3.0, -1)]:
        case(f"normalize_{p}", "normalize", lambda x: F.normalize(x, p, dim), {"x": R(3, 4)}, {"p": p, "dim": dim})
    for size in [2, 3, 5]:
        case(f"local_response_norm_{size}", "local_response_norm", lambda x: F.local_response_norm(x, size, 0.3, 0.75, 2.0), {"x": R(2, 4, 3)}, {"size": size})
    case("instance_norm", "instance_norm", lambda x, weight, bias: F.instance_norm(x, weight=weight, bias=bias), {"x": R(2, 3, 4), "weight": R(3), "bias": R(3)})
    y = torch.tensor([[3, 0, -1, 1], [1, -1, 2, 3], [-1, 0, 0, 0]])
    for reduction in ["none", "mean", "sum"]:
        case(f"multilabel_margin_{reduction}", "multilabel_margin_loss", lambda x, y: F.multilabel_margin_loss(x, y, reduction=reduction), {"x": R(3, 4), "y": y}, {"reduction": reduction})
    targets = torch.tensor([[1, 2, 2], [3, 1, 0], [2, 2, 2]])
    inputs, lengths = torch.tensor([6, 5, 4]), torch.tensor([3, 2, 3])
    flat = torch.cat([t[:n] for t, n in zip(targets, lengths)])
    for reduction in ["none", "mean", "sum"]:
        for name, t in {"padded": targets, "flat": flat}.items():
            case(
                f"ctc_loss_{reduction}_{name}",
                "ctc_loss",
                lambda x, targets, inputs, lengths: F.ctc_loss(
                    F.log_softmax(x, -1), targets, inputs, lengths, reduction=reduction, zero_infinity=True
                ),
                {"x": R(6, 3, 4), "targets": t, "inputs": inputs, "lengths": lengths},
                {"reduction": reduction, "meta": False},
                second=False,
            )


def places():
    index = torch.tensor([[0, 1, 0], [2, 2, 1], [0, 0, 1], [2, 1, 1]])
    for reduce in ["sum", "mean", "prod", "amax", "amin"]:
        for own in [True, False]:
            case(
                f"scatter_reduce_{reduce}_{own}",
                "scatter_reduce",
                lambda x, index, src: torch.scatter_reduce(x, 0, index, src, reduce, include_self=own),
                {"x": R(4, 3), "index": index, "src": R(4, 3)},
                {"dim": 0, "reduce": reduce, "own": own},
            )
            integers = torch.randint(-9, 9, (4, 3)), torch.randint(-9, 9, (4, 3))
            case(
                f"scatter_reduce_int_{reduce}_{own}",
                "scatter_reduce",
                lambda x, index, src: torch.scatter_reduce(x, 0, index, src, reduce, include_self=own),
                {"x": integers[0], "index": index, "src": integers[1]},
                {"dim": 0, "reduce": reduce, "own": own},
            )
    x, src = R(4, 3), R(4, 3)
    x[0, 0] = src[0, 0] = src[1, 2] = x[2, 2] = 0.0
    case("scatter_reduce_zeros", "scatter_reduce", lambda x, index, src: torch.scatter_reduce(x, 0, index, src, "prod"), {"x": x, "index": index, "src": src}, {"dim": 0, "reduce": "prod", "own": True}, second=False)
    bags = torch.tensor([[0, 3, 1], [4, 4, 2]])
    offsets = torch.tensor([0, 2, 2, 5])
    for mode in ["sum", "mean", "max"]:
        for padding in [None, 4]:
            attrs = {"mode": mode} if padding is None else {"mode": mode, "padding": padding}
            case(
                f"embedding_bag_{mode}_{padding}",
                "embedding_bag",
                lambda weight, index: F.embedding_bag(index, weight, mode=mode, padding_idx=padding),
                {"weight": R(5, 3), "index": bags},
                attrs,
                second=False,
            )
            case(
                f"embedding_bag_{mode}_{padding}_offsets",
                "embedding_bag",
                lambda weight, index, offsets: F.embedding_bag(index, weight, offsets, mode=mode, padding_idx=padding),
                {"weight": R(5, 3), "index": bags.view(-1), "offsets": offsets},
                attrs,
                second=False,
            )
    case(
        "embedding_bag_weights",
        "embedding_bag",
        lambda weight, index, factors: F.embedding_bag(index, weight, mode="sum", per_sample_weights=factors),
        {"weight": R(5, 3), "index": bags, "factors": R(2, 3)},
        {"mode": "sum"},
        second=False,
    )


def decompositions():
    for shape in [(3, 3), (2, 4, 3), (3, 5)]:
        name = "x".join(map(str, shape))
        case(
            f"svd_{name}",
            "svd_parts",
            lambda x: (lambda u, s, vh: (s, u @ torch.diag_embed(torch.sin(s)) @ vh))(*torch.linalg.svd(x, full_matrices=False)),
            {"x": R(*shape)},
            tol=1e-8,
        )
        case(f"pinv_{name}", "pinv", lambda x: torch.linalg.pinv(x), {"x": R(*shape)}, tol=1e-8)
    symmetric = lambda x: (x + x.mT) / 2
    case(
        "eigh",
        "eigh_parts",
        lambda x: (lambda l, v: (l, v @ torch.diag_embed(torch.sin(l)) @ v.mT))(*torch.linalg.eigh(symmetric(x))),
        {"x": R(2, 4, 4)},
        tol=1e-8,
    )
    for upper in [False, True]:
        for left in [False, True]:
            for unit in [False, True]:
                case(
                    f"solve_triangular_{upper}{left}{unit}",
                    "solve_triangular",
                    lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit),
                    {"a": R(2, 3, 3) + 3 * torch.eye(3), "b": R(2, 3, 2) if left else R(2, 2, 3)},
                    {"upper": upper, "left": left, "unit": unit},
                )
    definite = lambda x: x @ x.mT + torch.eye(3)
    case("cholesky_upper", "cholesky_upper", lambda x: torch.linalg.cholesky(definite(x), upper=True), {"x": R(3, 3)})
    case("logdet", "logdet", lambda x: torch.logdet(definite(x)), {"x": R(3, 3)})
    for which in ["fro", "nuc"]:
        case(f"matrix_norm_{which}", "matrix_norm", lambda x: torch.linalg.matrix_norm(x, which), {"x": R(2, 3, 4)}, {"which": which}, tol=1e-8)
    for which, p in {"inf": float("inf"), "one": 1, "two": 2}.items():
        case(f"matrix_norm_{which}", "matrix_norm", lambda x: torch.linalg.matrix_norm(x, p), {"x": R(2, 3, 4)}, {"which": which}, tol=1e-8)
    low = R(4, 2) @ R(2, 3)
    case("matrix_rank", "matrix_rank", lambda x: torch.linalg.matrix_rank(x), {"x": low}, {}, ("x",))
