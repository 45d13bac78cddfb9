"""Indexing and shapes."""

import torch
import torch.nn.functional as F

from op_cases import R, case


def indexing():
    for shape in [(), (3,), (2, 3), (0,)]:
        for pad in [None, 1, -1]:
            i = torch.randint(0, 5, shape)
            if pad is not None and i.numel() > 1:
                i.view(-1)[0] = pad % 5
            a = {} if pad is None else {"padding_idx": pad}
            case(
                f"embedding_{len(shape)}{i.numel()}_{pad}",
                "embedding",
                lambda weight, index: F.embedding(index, weight, pad),
                {"weight": R(5, 3), "index": i},
                a,
            )
    for d in [0, 1, -1, -2]:
        idx = torch.stack([torch.randperm(4)[:2] for _ in range(3)])
        idx = (
            idx
            if d in (1, -1)
            else torch.stack([torch.randperm(3)[:2] for _ in range(4)]).t().contiguous()
        )
        case(
            f"gather_{d}",
            "gather",
            lambda x, index: torch.gather(x, d, index),
            {"x": R(3, 4), "index": idx},
            {"dim": d},
        )
        case(
            f"scatter_{d}",
            "scatter",
            lambda x, index, src: torch.scatter(x, d, index, src),
            {"x": R(3, 4), "index": idx, "src": R(*idx.shape)},
            {"dim": d},
        )
        rep = torch.randint(0, 3, idx.shape)
        case(
            f"scatter_add_{d}",
            "scatter_add",
            lambda x, index, src: torch.scatter_add(x, d, index, src),
            {"x": R(3, 4), "index": rep, "src": R(*idx.shape)},
            {"dim": d},
        )
        case(
            f"gather_rep_{d}",
            "gather",
            lambda x, index: torch.gather(x, d, index),
            {"x": R(3, 4), "index": rep},
            {"dim": d},
        )
        i1 = torch.randint(0, 3, (5,))
        case(
            f"index_select_{d}",
            "index_select",
            lambda x, index: torch.index_select(x, d, index),
            {"x": R(3, 4), "index": i1},
            {"dim": d},
        )
        for alpha in [1, -2, 0.5]:
            src = R(5, 4) if d in (0, -2) else R(3, 5)
            case(
                f"index_add_{d}_{alpha}",
                "index_add",
                lambda x, index, src: torch.index_add(x, d, index, src, alpha=alpha),
                {"x": R(3, 4), "index": i1, "src": src},
                {"dim": d, "alpha": alpha},
            )
    case(
        "gather_3d",
        "gather",
        lambda x, index: torch.gather(x, 1, index),
        {"x": R(2, 3, 4), "index": torch.randint(0, 3, (2, 5, 3))},
        {"dim": 1},
    )
    case(
        "index_select_empty",
        "index_select",
        lambda x, index: torch.index_select(x, 0, index),
        {"x": R(3, 4), "index": torch.zeros(0, dtype=torch.int64)},
        {"dim": 0},
    )


def shapes():
    for n, (shape, p) in enumerate(
        [
            ((2, 3, 4), [1, 2]),
            ((2, 3, 4), [1, 2, 3, 0]),
            ((2, 3, 4), [0, 1, 1, 0, 2, 1]),
            ((4, 5), [-1, -1]),
            ((4, 5), [-1, 2, 1, -2]),
            ((4,), [2, 2]),
        ]
    ):
        for value in [0.0, -1.5]:
            case(
                f"pad_c{n}_{value}",
                "pad",
                lambda x: F.pad(x, p, value=value),
                {"x": R(*shape)},
                {"pad": p, "mode": "constant", "value": value},
            )
    for mode in ["reflect", "replicate"]:
        for n, (shape, p) in enumerate(
            [
                ((2, 3, 4), [1, 2]),
                ((2, 3, 4, 5), [2, 1, 1, 2]),
                ((3, 4), [2, 3]),
                ((2, 3, 4), [3, 0]),
                ((2, 3, 4, 5), [0, 0, 1, 0]),
            ]
        ):
            case(
                f"pad_{mode}_{n}",
                "pad",
                lambda x: F.pad(x, p, mode=mode),
                {"x": R(*shape)},
                {"pad": p, "mode": mode, "value": 0.0},
            )
    for d in [0, 1, -1]:
        parts = {k: R(*[2 + j if i == d % 3 else 3 for i in range(3)]) for j, k in enumerate("abd")}
        case(
            f"cat_{d}",
            "cat",
            lambda **k: torch.cat(list(k.values()), d),
            parts,
            {"dim": d, "operands": ["a", "b", "d"]},
        )
        same = {k: R(2, 3) for k in "abd"}
        case(
            f"stack_{d}",
            "stack",
            lambda **k: torch.stack(list(k.values()), d),
            same,
            {"dim": d, "operands": ["a", "b", "d"]},
        )
        case(
            f"split_n_{d}",
            "split",
            lambda x: torch.split(x, 2, d),
            {"x": R(5, 5, 5)},
            {"sizes": 2, "dim": d},
        )
        case(
            f"split_l_{d}",
            "split",
            lambda x: torch.split(x, [1, 0, 4], d),
            {"x": R(5, 5, 5)},
            {"sizes": [1, 0, 4], "dim": d},
        )
        for c in [2, 3, 4, 7]:
            case(
                f"chunk_{d}_{c}",
                "chunk",
                lambda x: torch.chunk(x, c, d),
                {"x": R(5, 5, 5)},
                {"chunks": c, "dim": d},
            )
        case(f"unbind_{d}", "unbind", lambda x: torch.unbind(x, d), {"x": R(2, 3, 4)}, {"dim": d})
        case(
            f"select_{d}",
            "select",
            lambda x: torch.select(x, d, -2),
            {"x": R(2, 3, 4)},
            {"dim": d, "index": -2},
        )
        case(
            f"unfold_{d}",
            "unfold",
            lambda x: x.unfold(d, 2, 1),
            {"x": R(4, 5, 3)},
            {"dim": d, "size": 2, "step": 1},
        )
        case(
            f"unfold_s_{d}",
            "unfold",
            lambda x: x.unfold(d, 3, 2),
            {"x": R(4, 5, 3)},
            {"dim": d, "size": 3, "step": 2},
        )
        case(
            f"repeat_interleave_{d}",
            "repeat_interleave",
            lambda x: torch.repeat_interleave(x, 2, d),
            {"x": R(2, 3, 2)},
            {"repeats": 2, "dim": d},
        )
        case(f"flip_{d}", "flip", lambda x: torch.flip(x, [d]), {"x": R(2, 3, 4)}, {"dims": [d]})
        case(
            f"roll_{d}",
            "roll",
            lambda x: torch.roll(x, 4, d),
            {"x": R(2, 3, 4)},
            {"shifts": [4], "dims": [d]},
        )
    case("cat_one", "cat", lambda a: torch.cat([a]), {"a": R(2, 3)}, {"dim": 0, "operands": ["a"]})
    case(
        "cat_empty",
        "cat",
        lambda a, b: torch.cat([a, b], 1),
        {"a": R(2, 0), "b": R(2, 3)},
        {"dim": 1, "operands": ["a", "b"]},
    )
    for n, sl in enumerate(
        [
            [[0, None, None, 2]],
            [[1, -3, -1, 1]],
            [[0, 1, None, 1], [2, 0, 10, 3]],
            [[0, 3, 2, 1]],
            [[2, -100, 3, 2]],
        ]
    ):

        def f(x):
            for d, a, b, s in sl:
                ix = [slice(None)] * 3
                ix[d] = slice(a, b, s)
                x = x[tuple(ix)]
            return x

        case(f"slice_{n}", "slice", f, {"x": R(4, 5, 6)}, {"slices": sl})
    case(
        "permute_neg",
        "permute",
        lambda x: x.permute(-1, 0, 1),
        {"x": R(2, 3, 4)},
        {"dims": [-1, 0, 1]},
    )
    for n, s in enumerate([[6, 4], [-1], [2, 2, -1, 3], [24, 1]]):
        case(f"reshape_{n}", "reshape", lambda x: x.reshape(s), {"x": R(2, 3, 4)}, {"shape": s})
    case("reshape_scalar", "reshape", lambda x: x.reshape([]), {"x": R(1, 1)}, {"shape": []})
    case(
        "expand_neg", "expand", lambda x: x.expand(4, -1, 3), {"x": R(2, 1)}, {"shape": [4, -1, 3]}
    )
    case("expand_scalar", "expand", lambda x: x.expand(2, 3), {"x": R()}, {"shape": [2, 3]})
    case("repeat_more", "repeat", lambda x: x.repeat(2, 3), {"x": R(2)}, {"repeats": [2, 3]})
    case("repeat_zero", "repeat", lambda x: x.repeat(0, 3), {"x": R(2, 2)}, {"repeats": [0, 3]})
    case(
        "roll_neg",
        "roll",
        lambda x: torch.roll(x, [-1, 5], [1, 0]),
        {"x": R(3, 4)},
        {"shifts": [-1, 5], "dims": [1, 0]},
    )
    case(
        "roll_same",
        "roll",
        lambda x: torch.roll(x, [1, 1], [0, 0]),
        {"x": R(3, 4)},
        {"shifts": [1, 1], "dims": [0, 0]},
    )
    for k in [-2, -1, 1, 3]:
        for op in ["tril", "triu"]:
            case(
                f"{op}_{k}",
                op,
                lambda x: getattr(torch, op)(x, k),
                {"x": R(2, 3, 4)},
                {"diagonal": k},
            )
    for o, a, b in [(0, 0, 1), (1, 0, 1), (-1, 1, 2), (2, -1, 0), (0, 2, 0)]:
        case(
            f"diagonal_{o}{a}{b}",
            "diagonal",
            lambda x: torch.diagonal(x, o, a, b),
            {"x": R(3, 4, 3)},
            {"offset": o, "dim1": a, "dim2": b},
        )
    case(
        "permute_reshape_1",
        "permute_reshape",
        lambda x: x.permute(2, 1, 0).reshape(4, -1),
        {"x": R(2, 3, 4)},
        {"dims": [2, 1, 0], "shape": [4, -1]},
    )
    for n, (size, stride, off) in enumerate(
        [([3, 3], [1, 1], 0), ([2, 2, 2], [4, 0, 1], 1), ([5], [2], 0), ([4, 3], [2, 1], 3)]
    ):
        case(
            f"as_strided_{n}",
            "as_strided",
            lambda x: torch.as_strided(x, size, stride, off),
            {"x": R(12)},
            {"size": size, "stride": stride, "offset": off},
        )
    case(
        "squeeze_unsqueeze_n",
        "squeeze_unsqueeze",
        lambda x: x.squeeze(-1).unsqueeze(1),
        {"x": R(2, 3, 1)},
        {"squeeze": -1, "unsqueeze": 1},
    )
    case(
        "squeeze_unsqueeze_m",
        "squeeze_unsqueeze",
        lambda x: x.squeeze(0).unsqueeze(-1),
        {"x": R(2, 3, 1)},
        {"squeeze": 0, "unsqueeze": -1},
    )
    case(
        "strided_mul_sum_1",
        "strided_mul_sum",
        lambda a, b: (a.t()[::2] * b[:, 1::2]).sum(1),
        {"a": R(3, 6), "b": R(3, 6)},
        {"dim": 1},
    )
