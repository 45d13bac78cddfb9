"""Writes layers.safetensors: layers of PyTorch (2.15 made those here) with their parameters, inputs,
outputs and gradients, replayed by tests/nn/test_golden_layers.cpp.

    python make_layers.py layers.safetensors

The metadata's "cases" describes the layers as JSON, see layer_cases.py. Tensors of case n: n/i0 (an
input), n/p.weight (the state to load), n/o0 (an output), n/g0 (the gradient given to it), n/di0 and
n/dp.weight (gradients), n/s.running_mean (state afterwards, where it is another).
"""

import json
import sys

import torch
from safetensors.torch import save_file

import layer_cases

tensors, described = {}, []
for number, case in enumerate(layer_cases.small()):
    layer = case.build()
    layer_cases.randomize(layer)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    result = case.run(layer, case.inputs)
    result = {
        name: value
        for name, value in result.items()
        if not name.startswith("s.") or not torch.equal(value, before[name[2:]])
    }
    result |= {f"i{i}": x for i, x in enumerate(case.inputs)}
    result |= {f"p.{name}": value for name, value in before.items()}
    tensors |= {f"{number}/{name}": value.clone() for name, value in result.items()}
    described.append(case.describe())
save_file(tensors, sys.argv[1], {"cases": json.dumps(described)})
print(len(described), "cases")
