"""Writes promotion.txt with PyTorch's torch.result_type (2.15): for every pair of operands the dtype
of their sum. An operand is `rows:DTYPE` (a tensor with dimensions), `single:DTYPE` (one without) or
`number:KIND` (of Python)."""
import itertools
import pathlib

import torch

dtypes = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
operands = {}
for name in dtypes:
    operands[f"rows:{name}"] = torch.ones(2, dtype=getattr(torch, name))
    operands[f"single:{name}"] = torch.ones((), dtype=getattr(torch, name))
tensors = list(operands)
operands |= {"number:bool": True, "number:int": 1, "number:float": 1.0}

lines = []
for a, b in itertools.product(tensors, operands):
    result = str(torch.result_type(operands[a], operands[b])).removeprefix("torch.")
    lines.append(f"{a} {b} {result}\n")
pathlib.Path(__file__).with_name("promotion.txt").write_text("".join(lines))
