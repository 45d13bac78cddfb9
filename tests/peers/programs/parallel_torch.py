"""PyTorch's side of parallel_hero.cpp: the same GPT and steps on processes joined by Gloo.

    parallel_torch.py STRATEGY MODEL STEPS RANKS THREADS     STRATEGY: none, ddp, fsdp, tensor or pipeline

tensor: parallelize_module over each block's products; the embedding and its tied head, 2 % of the
work, stay whole, which spares communication. pipeline: Schedule1F1B, weights not tied. Prints a line of JSON with the median milliseconds of a step of rank 0.
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

from train_torch import GPT, Block

SIZES = {"gpt_128": (4, 4, 128, 64, 12), "gpt_384": (6, 6, 384, 128, 4)}
VOCABULARY = 512
MICRO_BATCHES = 8


def mean_loss(scores, y):
    return F.cross_entropy(scores.flatten(0, 1), y.flatten())


class SlicedBlock(Block):
    """A block of which each rank holds some heads: the width of q, k and v is their product's."""

    def attend(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


def sliced(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        block.__class__ = SlicedBlock
        block.heads //= dist.get_world_size()
        parallelize_module(block, mesh, {"qkv": ColwiseParallel(), "out": RowwiseParallel(),
                                         "up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


class Stage(nn.Module):
    """One rank's links of a GPT whose head is not tied."""

    def __init__(self, model, rank, ranks):
        super().__init__()
        layers = len(model.blocks)
        self.first, self.last = rank == 0, rank == ranks - 1
        if self.first:
            self.tokens, self.positions = model.tokens, model.positions
        self.blocks = model.blocks[rank * layers // ranks:(rank + 1) * layers // ranks]
        if self.last:
            self.norm, width = model.norm, model.norm.weight.numel()
            self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, x):
        if self.first:
            x = self.tokens(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


class Pipeline:
    def __init__(self, model, rank, ranks):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        self.module, self.rank, self.ranks = Stage(model, rank, ranks), rank, ranks
        stage = PipelineStage(self.module, rank, ranks, torch.device("cpu"))
        self.schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=mean_loss)

    def step(self, x, y):
        last = self.rank == self.ranks - 1
        self.schedule.step(*([x] if self.rank == 0 else []), **({"target": y, "losses": []} if last else {}))


def clip(parameters, everywhere, most=1.0):
    """Clips by the norm of all: of DTensors it is whole, and of a stage's, summed over the ranks."""
    from torch.distributed.tensor import DTensor
    cut = [p.grad for p in parameters if isinstance(p.grad, DTensor)]
    whole = [p.grad for p in parameters if not isinstance(p.grad, DTensor)]
    squares = [nn.utils.get_total_norm(grads) ** 2 for grads in (cut, whole) if grads]
    total = sum(s.full_tensor() if isinstance(s, DTensor) else s for s in squares)
    if everywhere:
        dist.all_reduce(total)
    for grads in filter(None, (cut, whole)):
        torch._foreach_mul_(grads, torch.clamp(most / (total.sqrt() + 1e-6), max=1.0))


def under_strategy(model, strategy):
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if strategy == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return sliced(model) if strategy == "tensor" else model


def optimizers_of(parameters):
    """One for DTensors and one for the others, which it does not take together."""
    from torch.distributed.tensor import DTensor
    cut = [p for p in parameters if isinstance(p, DTensor)]
    whole = [p for p in parameters if not isinstance(p, DTensor)]
    return [torch.optim.AdamW(some, lr=3e-4, fused=True) for some in (cut, whole) if some]


def work(rank, strategy, name, steps, ranks, threads, rendezvous):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if ranks > 1:
        dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=ranks)
    layers, heads, width, block, batch = SIZES[name]
    batch = 2 * batch // (1 if strategy in ("tensor", "pipeline") else ranks)
    model = GPT(layers, heads, width, block, VOCABULARY)
    pipe = Pipeline(model, rank, ranks) if strategy == "pipeline" else None
    model = pipe.module if pipe else under_strategy(model, strategy)
    parameters = list(model.parameters())
    x = torch.randint(0, VOCABULARY, (batch, block))
    y = torch.randint(0, VOCABULARY, (batch, block))
    optimizers = optimizers_of(parameters)
    times = []
    for _ in range(steps + 3):
        start = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        if pipe:
            pipe.step(x, y)
        else:
            mean_loss(model(x), y).backward()
        if strategy in ("tensor", "pipeline"):
            clip(parameters, everywhere=strategy == "pipeline")
        else:
            nn.utils.clip_grad_norm_(parameters, 1.0)
        for optimizer in optimizers:
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        print(json.dumps({"ms": statistics.median(times[3:])}), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


def main():
    strategy, name, steps, ranks, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    with tempfile.TemporaryDirectory() as folder:
        arguments = (strategy, name, steps, ranks, threads, os.path.join(folder, "rendezvous"))
        if ranks == 1:
            work(0, *arguments)
        else:
            torch.multiprocessing.spawn(work, arguments, nprocs=ranks)


if __name__ == "__main__":
    main()
