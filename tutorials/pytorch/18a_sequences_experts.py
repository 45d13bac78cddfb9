# Chapter 18a in PyTorch: experts on four ranks, to which the tokens travel.
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

from ranks import run_ranks

TOKENS, WIDTH, EXPERTS, TOP_K = 16, 16, 24, 2
# rows from rank i to rank j, as the chapter's router sends them
ROWS = [[11, 8, 6, 7], [13, 5, 5, 9], [12, 7, 6, 7], [5, 10, 9, 8]]


# [snippet: sequence]
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)
        self.up, self.down = nn.Linear(96, 384), nn.Linear(384, 96)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sequence_parallel(mlp, mesh):
    """Of inputs [rows, positions, 96] each rank has its positions: Shard(1)."""
    return parallelize_module(mlp, mesh, {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),  # all_gather
        "down": RowwiseParallel(output_layouts=Shard(1))})  # reduce_scatter
# [end]


def check_sequence(rank, world_size):
    torch.manual_seed(4)
    alone, x = Mlp(), torch.randn(2, 48, 96)
    mine = sequence_parallel(copy.deepcopy(alone), init_device_mesh("cpu", (world_size,)))
    y, expected = mine(x.chunk(world_size, dim=1)[rank]), alone(x)
    for loss in (y**2).sum(), (expected**2).sum():
        loss.backward()
    # float32, sums of 96 to 384 terms in another order
    torch.testing.assert_close(y, expected.chunk(world_size, dim=1)[rank], rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(mine.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad, rtol=1e-4, atol=1e-3)


# [snippet: experts]
class Exchange(Function):
    """Rows to other ranks; in backward their gradients travel back."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.sizes = sent, received
        y = x.new_empty(sum(received), x.size(1))
        dist.all_to_all_single(y, x, received, sent)
        return y

    @staticmethod
    def backward(ctx, g):
        sent, received = ctx.sizes
        return Exchange.apply(g.contiguous(), received, sent), None, None


def expert_parallel(x, chosen, weights, experts, world_size):
    """x is [tokens, width], chosen and weights are [tokens, k]; experts are those of this rank."""
    order = chosen.flatten().argsort(stable=True)  # rows by the number of their expert
    to = torch.bincount(chosen.flatten(), minlength=len(experts) * world_size)
    come = torch.empty_like(to)
    dist.all_to_all_single(come, to)  # how many rows will come for each expert
    sent, received = (n.view(world_size, -1).sum(1).tolist() for n in (to, come))

    rows = Exchange.apply(x[order // TOP_K], sent, received)
    expert = torch.arange(len(experts)).repeat(world_size).repeat_interleave(come)
    by = expert.argsort(stable=True)
    parts = rows[by].split(torch.bincount(expert, minlength=len(experts)).tolist())
    y = torch.cat([e(part) for e, part in zip(experts, parts)])[by.argsort()]
    back = Exchange.apply(y, received, sent)
    return torch.zeros_like(x).index_add(0, order // TOP_K, back * weights.flatten()[order, None])
# [end]


def count_bytes(rank):
    """What this rank sends to others in every all_to_all from here on."""
    sent, call = [], dist.all_to_all_single

    def counted(output, x, output_sizes=None, sizes=None):
        parts = x.split(sizes) if sizes else x.chunk(dist.get_world_size())
        sent.append(sum(part.nbytes for i, part in enumerate(parts) if i != rank))
        return call(output, x, output_sizes, sizes)

    dist.all_to_all_single = counted
    return sent


def inputs_of(rank):
    torch.manual_seed(rank)
    x, weights = torch.randn(TOKENS, WIDTH), torch.rand(TOKENS, TOP_K)
    each = EXPERTS // len(ROWS)
    chosen = torch.tensor([each * to + i % each for to, n in enumerate(ROWS[rank]) for i in range(n)])
    return x.requires_grad_(), chosen[torch.randperm(len(chosen))].view(TOKENS, TOP_K), weights


def body(rank, world_size):
    check_sequence(rank, world_size)
    torch.manual_seed(3)
    alone = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
    each = EXPERTS // world_size
    mine = copy.deepcopy(alone[each * rank:each * (rank + 1)])
    sent = count_bytes(rank)
    x, chosen, weights = inputs_of(rank)
    y = expert_parallel(x, chosen, weights, mine, world_size)
    (y**2).sum().backward()

    for other in range(world_size):  # one process has all tokens and all experts
        x_other, chosen, weights = inputs_of(other)
        results = torch.stack([alone[e](x_other[i // TOP_K]) for i, e in enumerate(chosen.flatten())])
        expected = (results.view(TOKENS, TOP_K, WIDTH) * weights[..., None]).sum(1)
        (expected**2).sum().backward()
        if other == rank:
            torch.testing.assert_close(y, expected)
            torch.testing.assert_close(x.grad, x_other.grad)
    for ours, theirs in zip(mine.parameters(), alone[each * rank:each * (rank + 1)].parameters(), strict=True):
        # float32, sums of some dozens of rows in another order
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    bytes_of = [None] * world_size
    dist.all_gather_object(bytes_of, sum(sent))
    if rank == 0:
        print(f"{'  sent, bytes':<20}" + " |".join(f"{n:8d}" for n in bytes_of), flush=True)


if __name__ == "__main__":
    run_ranks(body)
