"""How the makers of reference cases of operators state and write a case; see make_ops.py."""

import json
import struct

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)

cases, arrays = [], {}
DTYPES = {torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}


def store(name, tensor):
    arrays[name] = tensor.detach().contiguous()
    return name


def case(name, op, function, inputs, attrs=None, fixed=(), second=True, tol=None):
    try:
        make_case(name, op, function, inputs, attrs, fixed, second)
        if tol:
            cases[-1]["tol"] = tol
    except RuntimeError as error:
        if not second:
            print(name, "left out:", str(error)[:100])
        else:
            case(name, op, function, inputs, attrs, fixed, False, tol)


def make_case(name, op, function, inputs, attrs, fixed, second):
    """inputs: name -> tensor; floating ones get gradients unless in fixed."""
    args, listed = {}, []
    for key, value in inputs.items():
        wants = value.is_floating_point() and key not in fixed
        args[key] = value.clone().requires_grad_(wants)
        listed.append({"name": key, "tensor": store(f"{name}/{key}", value), "grad": wants})
    outs = function(**args)
    outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    outputs, smooth, gos = [], [], []
    for i, out in enumerate(outs):
        entry = {"tensor": store(f"{name}/out{i}", out)}
        if out.requires_grad:
            go = torch.randn_like(out).requires_grad_()
            entry["grad_output"] = store(f"{name}/go{i}", go)
            smooth.append(out)
            gos.append(go)
        outputs.append(entry)
    wanted = [k for k, v in args.items() if v.requires_grad]
    one = {"name": name, "op": op, "attrs": attrs or {}, "inputs": listed, "outputs": outputs}
    grads = {}
    if smooth:
        got = torch.autograd.grad(
            smooth, [args[k] for k in wanted], gos, create_graph=True, allow_unused=True
        )
        got = [torch.zeros_like(args[k]) if g is None else g for k, g in zip(wanted, got)]
        for key, g in zip(wanted, got):
            grads[key] = store(f"{name}/grad.{key}", g)
        if second:
            v = {k: torch.randn_like(args[k]) for k in wanted}
            total = sum((v[k] * g).sum() for k, g in zip(wanted, got))
            if total.requires_grad:
                twice = torch.autograd.grad(
                    total, [args[k] for k in wanted] + gos, allow_unused=True
                )
                of = [args[k] for k in wanted] + gos
                twice = [torch.zeros_like(o) if t is None else t for o, t in zip(of, twice)]
                one["second"] = {
                    "v": {k: store(f"{name}/v.{k}", v[k]) for k in wanted},
                    "grads": {k: store(f"{name}/grad2.{k}", t) for k, t in zip(wanted, twice)},
                    "grad_go": [
                        store(f"{name}/jvp{i}", t) for i, t in enumerate(twice[len(wanted) :])
                    ],
                }
    one["grads"] = grads
    cases.append(one)


def R(*shape):
    return torch.randn(shape)


def P(*shape):
    return torch.rand(shape) + 0.5


def write(folder):
    header, chunks, at = {}, [], 0
    for kind in (torch.float64, torch.int64, torch.bool):
        for name, t in arrays.items():
            if t.dtype != kind:
                continue
            raw = bytes(t.numpy(force=True).tobytes())
            header[name] = {
                "dtype": DTYPES[kind],
                "shape": list(t.shape),
                "data_offsets": [at, at + len(raw)],
            }
            chunks.append(raw)
            at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/ops.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))
    with open(folder + "/ops.json", "w") as f:
        f.write(
            '{"file": "ops.safetensors", "cases": [\n'
            + ",\n".join(json.dumps(c) for c in cases)
            + "\n]}\n"
        )
