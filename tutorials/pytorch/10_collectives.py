# Chapter 10 in PyTorch: the collectives, an all_reduce in two halves, and the ring of messages.
import torch
import torch.distributed as dist

from ranks import run_ranks


# [snippet: collectives]
def collectives(rank, world_size, x):
    """What a rank has after each call, if it had x before."""
    is_root, one, all_ranks = rank == 0, torch.empty(1), torch.empty(world_size)
    dist.broadcast(mine := x.clone(), src=0)
    yield "broadcast", mine
    dist.scatter(one, list(x.split(1)) if is_root else None, src=0)
    yield "scatter", one
    dist.gather(x[:1].clone(), list(all_ranks.split(1)) if is_root else None, dst=0)
    yield "gather", all_ranks if is_root else None
    dist.all_reduce(mine := x.clone())
    yield "all_reduce", mine
    dist.reduce_scatter_tensor(one, x)
    yield "reduce_scatter", one
    dist.all_gather_into_tensor(all_ranks, x[:1].clone())
    yield "all_gather", all_ranks
    dist.all_to_all_single(all_ranks, x)
    yield "all_to_all", all_ranks
# [end]


# [snippet: ring]
def ring(rank, world_size, x):
    received = torch.empty_like(x)
    sending = dist.isend(x, dst=(rank + 1) % world_size)  # go on, do not wait
    dist.recv(received, src=(rank - 1) % world_size)
    sending.wait()
    return received
# [end]


def print_row(rank, world_size, after):
    cells = [None] * world_size
    text = "-" if after is None else "".join(f"{int(v):4d}" for v in after)
    dist.all_gather_object(cells, f"{text:>16}")
    if rank == 0:
        print(f"{'  after':<16}" + " |".join(cells), flush=True)


def body(rank, world_size):
    x = torch.arange(world_size) + 10.0 * rank
    for _, after in collectives(rank, world_size, x):
        print_row(rank, world_size, after)
    print_row(rank, world_size, ring(rank, world_size, x))


if __name__ == "__main__":
    run_ranks(body)
