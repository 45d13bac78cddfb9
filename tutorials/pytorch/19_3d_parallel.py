# Chapter 19 in PyTorch: a transformer on a mesh of stages, shards and slices.
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from ranks import run_ranks

WIDTH, HEADS, POSITIONS, ROWS = 32, 4, 16, 8


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(64, WIDTH), nn.Embedding(POSITIONS, WIDTH)

    def forward(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(POSITIONS))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # of this rank's heads
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.logits = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64, bias=False)

    def forward(self, x):
        return self.logits(self.norm(x))


def loss_of(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


# [snippet: axes]
SLICES = {"*.tokens": RowwiseParallel(input_layouts=Replicate()),
          "*.logits": ColwiseParallel(output_layouts=Replicate()),
          **{f"*.{name}": ColwiseParallel() for name in ("q", "k", "v", "up")},
          **{f"*.{name}": RowwiseParallel() for name in ("out", "down")}}


def divide(layers):
    """This rank's layers of six, and the schedule that runs them."""
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pipe", "data", "tensor"))
    index = mesh.get_local_rank("pipe")
    layers = layers[3 * index:3 * index + 3]
    parallelize_module(layers, mesh["tensor"], SLICES)
    for layer in layers:
        fully_shard(layer, mesh=mesh["data"], reshard_after_forward=False)
    fully_shard(layers, mesh=mesh["data"], reshard_after_forward=False)
    stage = PipelineStage(layers, index, 2, torch.device("cpu"), group=mesh.get_group("pipe"))
    return mesh, layers, Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_of)
# [end]


def batch_of(step, replica):
    torch.manual_seed(10 * step + replica)
    ids = torch.randint(0, 64, (ROWS, POSITIONS + 1))
    return ids[:, :-1], ids[:, 1:]


def body(rank, world_size):
    torch.manual_seed(1)
    alone = nn.Sequential(Embedding(), *(Block() for _ in range(4)), Head())
    mesh, layers, schedule = divide(copy.deepcopy(alone))
    adamw = torch.optim.AdamW(layers.parameters(), lr=1e-2)
    adamw_alone = torch.optim.AdamW(alone.parameters(), lr=1e-2)
    replica, is_last = mesh.get_local_rank("data"), mesh.get_local_rank("pipe") == 1
    for step in range(5):
        losses, expected = [], [loss_of(alone(tokens), target) for tokens, target in
                                (batch_of(step, 0), batch_of(step, 1))]
        tokens, target = batch_of(step, replica)
        if is_last:
            schedule.step(target=target, losses=losses)
            # float32 sums in another order, and AdamW divides small numbers
            torch.testing.assert_close(sum(losses) / 4, expected[replica], rtol=1e-3, atol=1e-3)
        else:
            schedule.step(tokens)
        (sum(expected) / 2).backward()
        for optimizer in adamw, adamw_alone:
            optimizer.step()
            optimizer.zero_grad()
    held = [None] * world_size
    dist.all_gather_object(held, sum(p.to_local().numel() for p in layers.parameters()))
    if rank == 0:
        print(f"{'  elements':<16}" + " |".join(f"{n:8d}" for n in held), flush=True)


if __name__ == "__main__":
    run_ranks(body, 8)
