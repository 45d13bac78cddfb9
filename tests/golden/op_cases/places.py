"""Dimensions, stacks and grids; places, searches and counts."""

import torch
import torch.nn.functional as F

from op_cases import R, case


def dimensions():
    for n, (s, d) in enumerate([(0, 2), (-1, 0), ((0, 2), (1, 0)), ((0, 1), (-1, -2))]):
        as_list = lambda v: list(v) if isinstance(v, tuple) else [v]
        case(
            f"movedim_{n}",
            "movedim",
            lambda x, s=s, d=d: torch.movedim(x, s, d),
            {"x": R(2, 3, 4)},
            {"source": as_list(s), "destination": as_list(d)},
        )
    for k in range(-1, 5):
        case(
            f"rot90_{k}",
            "rot90",
            lambda x, k=k: torch.rot90(x, k, (0, 2)),
            {"x": R(2, 3, 4)},
            {"k": k, "dims": [0, 2]},
        )
    for n, (offset, d1, d2) in enumerate([(0, -2, -1), (1, -2, -1), (-2, 0, 2), (1, 1, 0)]):
        case(
            f"diag_embed_{n}",
            "diag_embed",
            lambda x: torch.diag_embed(x, offset, d1, d2),
            {"x": R(2, 3)},
            {"offset": offset, "dim1": d1, "dim2": d2},
        )
    case("pixel_shuffle", "pixel_shuffle", lambda x: F.pixel_shuffle(x, 3), {"x": R(2, 18, 2, 3)}, {"r": 3})
    case("pixel_unshuffle", "pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), {"x": R(3, 4, 6)}, {"r": 2})
    case("channel_shuffle", "channel_shuffle", lambda x: F.channel_shuffle(x, 3), {"x": R(2, 6, 2)}, {"groups": 3})
    for op in ["hstack", "vstack", "dstack", "column_stack"]:
        for n, shapes in enumerate([((3,), (3,)), ((2, 3), (2, 3))]):
            inputs = {f"t{i}": R(*s) for i, s in enumerate(shapes)}
            case(
                f"{op}_{n}",
                op,
                lambda op=op, **t: getattr(torch, op)(list(t.values())),
                inputs,
                {"operands": list(inputs)},
            )
    for n, (sections, dim) in enumerate([(3, 0), (4, 1), ([1, 3], 0), ([-2, 1], 1), ([2, 9], 0)]):
        case(
            f"tensor_split_{n}",
            "tensor_split",
            lambda x, s=sections, d=dim: torch.tensor_split(x, s, d),
            {"x": R(5, 4)},
            {"sections": sections, "dim": dim},
        )
    for indexing in ["ij", "xy"]:
        inputs = {"t0": R(2), "t1": R(3), "t2": R(2)}
        case(
            f"meshgrid_{indexing}",
            "meshgrid",
            lambda indexing=indexing, **t: torch.meshgrid(*t.values(), indexing=indexing),
            inputs,
            {"operands": list(inputs), "indexing": indexing},
        )
    inputs = {"t0": R(2), "t1": R(3)}
    case(
        "cartesian_prod",
        "cartesian_prod",
        lambda **t: torch.cartesian_prod(*t.values()),
        inputs,
        {"operands": list(inputs)},
    )
    inputs = {"t0": R(2, 1), "t1": R(3), "t2": R()}
    case(
        "block_diag",
        "block_diag",
        lambda **t: torch.block_diag(*t.values()),
        inputs,
        {"operands": list(inputs)},
    )
    for r, again in [(1, False), (2, False), (3, True)]:
        case(
            f"combinations_{r}_{again}",
            "combinations",
            lambda x, r=r, again=again: torch.combinations(x, r, again),
            {"x": R(4)},
            {"r": r, "again": again},
        )
    for op in ["tril_indices", "triu_indices"]:
        for rows, columns, offset in [(3, 4, 0), (4, 3, 1), (3, 3, -2), (2, 5, -7), (2, 3, 9)]:
            case(
                f"{op}_{rows}{columns}{offset}",
                op,
                lambda x, op=op: getattr(torch, op)(rows, columns, offset),
                {"x": R()},
                {"rows": rows, "columns": columns, "offset": offset},
                ("x",),
            )
    case("vander", "vander", lambda x: torch.vander(x, 4), {"x": R(3)}, {"n": 4})
    repeats = torch.tensor([2, 0, 3])
    case(
        "repeat_interleave_tensor",
        "repeat_interleave_tensor",
        lambda x, repeats: torch.repeat_interleave(x, repeats, 1),
        {"x": R(2, 3), "repeats": repeats},
        {"dim": 1, "meta": False},
    )
    for mode_p in [(1, 2), (3, 3), (2, 1, 1, 2)]:
        case(
            f"pad_circular_{len(mode_p)}{mode_p[0]}",
            "pad",
            lambda x, p=mode_p: F.pad(x, p, mode="circular"),
            {"x": R(1, 2, 3) if len(mode_p) == 2 else R(1, 2, 3, 3)},
            {"pad": list(mode_p), "mode": "circular"},
        )
    for correction in [0, 1, 2, 0.5]:
        case(
            f"var_correction_{correction}",
            "var",
            lambda x, c=correction: torch.var(x, 1, correction=c),
            {"x": R(2, 5)},
            {"dim": 1, "correction": correction},
        )


def places():
    index = torch.tensor([[0, -1], [5, 2]])
    case("take", "take", lambda x, index: torch.take(x, index), {"x": R(2, 3), "index": index})
    for again in [False, True]:
        case(
            f"put_{again}",
            "put",
            lambda x, index, src, again=again: torch.Tensor.put(x, index, src, again),
            {"x": R(2, 3), "index": torch.tensor([0, -1, 3]), "src": R(3)},
            {"accumulate": again},
        )
    case(
        "take_along_dim",
        "take_along_dim",
        lambda x, index: torch.take_along_dim(x, index, 1),
        {"x": R(2, 3), "index": torch.tensor([[2, 0]])},
        {"dim": 1},
    )
    case(
        "index_fill",
        "index_fill",
        lambda x, index: torch.index_fill(x, 1, index, 7.0),
        {"x": R(2, 3), "index": torch.tensor([0, -1])},
        {"dim": 1, "value": 7.0},
    )
    case(
        "index_fill_tensor",
        "index_fill_tensor",
        lambda x, index, value: torch.index_fill(x, 1, index, value),
        {"x": R(2, 3), "index": torch.tensor([0, 2]), "value": R()},
        {"dim": 1},
    )
    case(
        "index_copy",
        "index_copy",
        lambda x, index, src: torch.index_copy(x, 1, index, src),
        {"x": R(2, 3), "index": torch.tensor([2, 0]), "src": R(2, 2)},
        {"dim": 1},
    )
    case(
        "masked_scatter",
        "masked_scatter",
        lambda x, mask, src: torch.masked_scatter(x, mask, src),
        {"x": R(2, 3), "mask": torch.tensor([[True, False, True], [False, True, True]]), "src": R(5)},
        {"meta": False},
    )
    for op, f, src in [
        ("select_scatter", lambda x, src: torch.select_scatter(x, src, 1, -1), R(2)),
        ("slice_scatter", lambda x, src: torch.slice_scatter(x, src, 1, 0, 3, 2), R(2, 2)),
        ("diagonal_scatter", lambda x, src: torch.diagonal_scatter(x, src, 1), R(2)),
    ]:
        case(op, op, f, {"x": R(2, 3), "src": src})


def searches():
    numbers = torch.tensor([1.0, 2.0, 2.0, 4.0, 7.0])
    values = torch.tensor([[0.0, 2.0, 3.0], [7.0, 9.0, 1.0]])
    for right in [False, True]:
        case(
            f"searchsorted_{right}",
            "searchsorted",
            lambda a, b, r=right: torch.searchsorted(a, b, right=r),
            {"a": numbers, "b": values},
            {"right": right},
            ("a", "b"),
        )
        case(
            f"bucketize_{right}",
            "bucketize",
            lambda a, b, r=right: torch.bucketize(b, a, right=r),
            {"a": numbers, "b": values},
            {"right": right},
            ("a", "b"),
        )
        rows = torch.randint(0, 5, (2, 6)).sort(1).values
        case(
            f"searchsorted_rows_{right}",
            "searchsorted",
            lambda a, b, r=right: torch.searchsorted(a, b, right=r),
            {"a": rows, "b": torch.randint(-1, 6, (2, 4))},
            {"right": right},
        )
    a, b = torch.randint(0, 9, (3, 4)), torch.randint(0, 9, (4,))
    for invert in [False, True]:
        case(
            f"isin_{invert}",
            "isin",
            lambda a, b, i=invert: torch.isin(a, b, invert=i),
            {"a": a, "b": b},
            {"invert": invert},
        )
    x = torch.randint(0, 4, (5, 3))
    for name, value in {"int": x, "float": x.double(), "empty": x[:0]}.items():
        case(
            f"unique_{name}",
            "unique",
            lambda x: torch.unique(x, return_inverse=True, return_counts=True),
            {"x": value},
            {"meta": False},
            ("x",),
        )
        case(
            f"unique_consecutive_{name}",
            "unique_consecutive",
            lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
            {"x": value},
            {"meta": False},
            ("x",),
        )
    for dim in [0, 1]:
        case(
            f"unique_dim_{dim}",
            "unique",
            lambda x, d=dim: torch.unique(x, return_inverse=True, return_counts=True, dim=d),
            {"x": torch.randint(0, 2, (6, 3))},
            {"meta": False, "dim": dim},
        )
    numbers = torch.randint(0, 6, (9,))
    case("bincount", "bincount", lambda x: torch.bincount(x), {"x": numbers}, {"meta": False})
    case(
        "bincount_weights",
        "bincount",
        lambda x, weights: torch.bincount(x, weights, 8),
        {"x": numbers, "weights": R(9)},
        {"meta": False, "minlength": 8},
        ("weights",),
    )
    for n, (bins, low, high) in enumerate([(5, -1.0, 1.0), (4, 0.0, 0.0), (1, -2.0, 2.0)]):
        case(
            f"histc_{n}",
            "histc",
            lambda x: torch.histc(x, bins, low, high),
            {"x": R(20)},
            {"meta": False, "bins": bins, "low": low, "high": high},
            ("x",),
        )
