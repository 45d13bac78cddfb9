"""PyTorch's side of parallel_hero.cpp: the same GPT and steps on processes joined by Gloo.

    parallel_torch.py RUNG MODEL STEPS RANKS THREADS     RUNG: none, ddp or fsdp

Prints a line of JSON with the median milliseconds of a step of rank 0.
"""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from train_torch import GPT

SIZES = {"gpt_128": (4, 4, 128, 64, 12), "gpt_384": (6, 6, 384, 128, 4)}
VOCABULARY = 512


def on_rung(model, rung):
    if rung == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if rung == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def optimizer_of(model):
    try:
        return torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    except (RuntimeError, NotImplementedError):
        return torch.optim.AdamW(model.parameters(), lr=3e-4)


def work(rank, rung, name, steps, ranks, threads, meeting):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if ranks > 1:
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=ranks)
    layers, heads, width, block, batch = SIZES[name]
    batch = 2 * batch // ranks
    model = on_rung(GPT(layers, heads, width, block, VOCABULARY), rung)
    x = torch.randint(0, VOCABULARY, (batch, block))
    y = torch.randint(0, VOCABULARY, (batch * block,))
    adamw = optimizer_of(model)
    times = []
    for _ in range(steps + 3):
        start = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        F.cross_entropy(model(x).flatten(0, 1), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        print(json.dumps({"ms": statistics.median(times[3:])}), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


def main():
    rung, name, steps, ranks, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    with tempfile.TemporaryDirectory() as folder:
        arguments = (rung, name, steps, ranks, threads, os.path.join(folder, "meeting"))
        if ranks == 1:
            work(0, *arguments)
        else:
            torch.multiprocessing.spawn(work, arguments, nprocs=ranks)


if __name__ == "__main__":
    main()
