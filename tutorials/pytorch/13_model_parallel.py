# Chapter 13 in PyTorch: a pipeline of micro-batches, and an MLP cut into slices.
import torch
import torch.distributed as dist
import torch.nn.functional as F

from ranks import run_ranks


# [snippet: pipeline]
def pipeline(rank, world_size, stage, batch, target, micro_batches):
    """Forward and backward of this rank's stage: all forwards, then all backwards."""
    inputs, outputs, last = [], [], world_size - 1
    for x in batch.chunk(micro_batches):
        x = x.clone() if rank == 0 else torch.empty_like(x)
        if rank > 0:
            dist.recv(x, src=rank - 1)
        inputs.append(x.requires_grad_())
        outputs.append(stage(x))
        if rank < last:
            dist.send(outputs[-1].detach(), dst=rank + 1)
    for x, y, t in zip(inputs, outputs, target.chunk(micro_batches)):
        if rank < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, src=rank + 1)
            y.backward(gradient)
        else:
            (F.mse_loss(y, t) / micro_batches).backward()
        if rank > 0:
            dist.send(x.grad, dst=rank - 1)
# [end]


# [snippet: tensor]
def tensor_parallel(w1, w2, x, target):
    """Forward and backward of this rank's part of an MLP; returns the output."""
    summand = (x @ w1.T).relu() @ w2.T  # w1 is cut by row, w2 by column
    y = summand.detach().clone()
    dist.all_reduce(y)
    y.requires_grad_()
    F.mse_loss(y, target).backward()  # the same on every rank
    summand.backward(y.grad)
    dist.all_reduce(x.grad)
    return y
# [end]


def stage_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())


def check_pipeline(rank, world_size):
    torch.manual_seed(2)
    batch, target = torch.randn(64, 32), torch.randn(64, 32)
    stages = [stage_of(seed) for seed in range(world_size)]
    for x, t in zip(batch.chunk(4), target.chunk(4), strict=True):
        (F.mse_loss(torch.nn.Sequential(*stages)(x), t) / 4).backward()
    stage = stage_of(rank)
    pipeline(rank, world_size, stage, batch, target, 4)
    for mine, whole in zip(stage.parameters(), stages[rank].parameters(), strict=True):
        torch.testing.assert_close(mine.grad, whole.grad)
    return sum(4 * p.numel() for p in stage.parameters())


def leaf(x):
    return x.detach().clone().requires_grad_()


def check_tensor_parallel(rank, world_size):
    torch.manual_seed(1)
    w1, w2 = leaf(torch.randn(480, 32)), leaf(torch.randn(32, 480))
    x, target = leaf(torch.randn(16, 32)), torch.randn(16, 32)
    part = slice(rank * 480 // world_size, (rank + 1) * 480 // world_size)
    mine = leaf(w1[part]), leaf(w2[:, part])
    x_mine = leaf(x)
    y = tensor_parallel(*mine, x_mine, target)
    y_whole = (x @ w1.T).relu() @ w2.T
    F.mse_loss(y_whole, target).backward()
    # float32, up to 480 terms in another order
    for a, b in (y, y_whole), (x_mine.grad, x.grad), (mine[0].grad, w1.grad[part]), (mine[1].grad, w2.grad[:, part]):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    return sum(4 * w.numel() for w in mine)


def body(rank, world_size):
    for held in check_pipeline(rank, world_size), check_tensor_parallel(rank, world_size):
        if rank == 0:
            print(f"parameters held, bytes: {held}", flush=True)


if __name__ == "__main__":
    run_ranks(body)
