"""Compares the layers of Hero with PyTorch's: same state and inputs, then outputs, gradients and the
state afterwards. Weights travel as safetensors, both ways.

    tests/peers/layers [NAME...]

NAME picks the cases whose name begins so ("Conv2d", "LSTM.3"); the cases are in
tests/golden/layer_cases.py. In double precision every case's own tolerance holds; in float, 2e-5
relative to the largest value of a tensor: 24 bits, sums of up to some hundred terms.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
import layer_cases  # noqa: E402

FLOAT_TOLERANCE = 2e-5


def converted(value, dtype):
    return value.to(dtype) if value.is_floating_point() else value


def difference(value, expected, dtype, tol):
    """None when they agree, else what differs."""
    if value.shape != expected.shape:
        return f"shape {list(value.shape)}, not {list(expected.shape)}"
    if value.dtype != expected.dtype:
        return f"dtype {value.dtype}, not {expected.dtype}"
    if value.numel() == 0:
        return None
    value, expected = value.double(), expected.double()
    size = max(1.0, expected.abs().max().item())
    gap = ((value - expected).abs().max() / size).item()
    bound = tol if dtype == torch.float64 else FLOAT_TOLERANCE
    return None if gap <= bound else f"differs by {gap:.2g}"


def compare(got, want, dtype, tol):
    """What is missing, too much or different, as lines."""
    lines = [f"{name}: missing" for name in want if name not in got]
    for name, value in got.items():
        if name in want:
            text = difference(value, want[name], dtype, tol)
            lines += [f"{name}: {text}"] if text else []
        elif value.abs().sum() != 0:  # what PyTorch has no gradient for may be zeros
            lines.append(f"{name}: PyTorch has none")
    return lines


class Peer:
    """One case in one dtype: PyTorch's side of it."""

    def __init__(self, case, dtype):
        self.case, self.dtype = case, dtype
        self.inputs = [converted(x, dtype) for x in case.inputs]
        self.state = None
        layer = self.build()
        layer_cases.randomize(layer)
        self.state = {name: value.clone() for name, value in layer.state_dict().items()}
        self.results = case.run(layer, self.inputs)
        self.grads = [self.results[f"g{i}"] for i in range(len(self.results)) if f"g{i}" in self.results]

    def build(self):
        return self.case.build().to(self.dtype)

    def describe(self):
        return self.case.describe() | {"dtype": str(self.dtype).removeprefix("torch.")}

    def tensors(self, number):
        named = {f"i{i}": x for i, x in enumerate(self.inputs)}
        named |= {f"g{i}": g for i, g in enumerate(self.grads)}
        named |= {f"p.{name}": value for name, value in self.state.items()}
        dense = torch.contiguous_format
        return {f"{number}/{name}": x.clone(memory_format=dense) for name, x in named.items()}

    def check(self, got):
        """Lines of what differs: with our state there, and with their state here."""
        own = {k.removeprefix("own/"): v for k, v in got.items() if k.startswith("own/")}
        theirs = {k: v for k, v in got.items() if not k.startswith("own/")}
        want = {k: v for k, v in self.results.items() if k[0] != "g"}
        lines = compare(theirs, want, self.dtype, self.case.tol)
        layer = self.build()
        layer.load_state_dict({k[2:]: v for k, v in own.items() if k.startswith("p.")})
        want = self.case.run(layer, self.inputs, self.grads)
        own = {k: v for k, v in own.items() if not k.startswith("p.")}
        back = compare(own, {k: v for k, v in want.items() if k[0] != "g"}, self.dtype, self.case.tol)
        return lines + ["(our values in Python) " + line for line in back]


def main(program, names):
    warnings.simplefilter("ignore")
    cases = [c for c in layer_cases.all_cases() if not names or c.name.startswith(tuple(names))]
    peers = [Peer(case, dtype) for case in cases for dtype in (torch.float64, torch.float32)]
    with tempfile.TemporaryDirectory() as folder:
        there, back = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
        tensors = {}
        for number, peer in enumerate(peers):
            tensors |= peer.tensors(number)
        save_file(tensors, there, {"cases": json.dumps([peer.describe() for peer in peers])})
        failed = subprocess.run([program, there, back]).returncode != 0
        if not pathlib.Path(back).exists():
            return 1
        results = [{} for _ in peers]
        for name, value in load_file(back).items():
            number, rest = name.split("/", 1)
            results[int(number)][rest] = value
    different = 0
    for peer, got in zip(peers, results):
        lines = peer.check(got) if got else ["nothing came back"]
        different += bool(lines)
        for line in lines:
            print(f"{peer.case.name} {peer.describe()['dtype']} {peer.case.args}: {line}")
    print(f"{len(peers)} cases of {len({c.layer for c in cases})} layers, {different} differ")
    return 1 if different or failed else 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
