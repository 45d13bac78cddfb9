# Chapter 11 in PyTorch: data parallelism by hand, with hooks, and by the library.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from ranks import STEPS, loss_of, make_network, report, run_ranks


# [snippet: by_hand]
def train_by_hand(rank, world_size):
    net = make_network()
    for p in net.parameters():
        dist.broadcast(p.data, src=0)  # all start the same
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(net, rank).backward()  # on this rank's images
        for p in net.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        adam.step()
    return net, adam
# [end]


# [snippet: overlap]
def train_overlapped(rank, world_size):
    net, under_way = make_network(), []
    for p in net.parameters():
        dist.broadcast(p.data, src=0)
        p.register_post_accumulate_grad_hook(  # its gradient is complete
            lambda p: under_way.append(
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True)))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(net, rank).backward()
        while under_way:
            under_way.pop().wait()
        adam.step()
    return net, adam
# [end]


# [snippet: library]
def train_ddp(rank, world_size):
    net = DDP(make_network(), bucket_cap_mb=0.5)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(net, rank).backward()
        adam.step()
    return net, adam
# [end]


def body(rank, world_size):
    for name, train in ("by hand", train_by_hand), ("overlapped", train_overlapped), ("dist::DDP", train_ddp):
        net, adam = train(rank, world_size)
        parameters = list(net.parameters())
        report(name, parameters, [p.grad for p in parameters], adam, parameters)


if __name__ == "__main__":
    run_ranks(body)
