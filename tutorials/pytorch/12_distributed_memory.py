# Chapter 12 in PyTorch: what DDP keeps N times.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from ranks import loss_of, make_network, megabytes, run_ranks, states_of


# [snippet: copies]
def copies(rank, world_size):
    net = DDP(make_network())
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_of(net, rank).backward()
    adam.step()
    held = {"parameters": list(net.parameters()),
            "gradients": [p.grad for p in net.parameters()],
            "Adam's states": states_of(adam)}
    for what, tensors in held.items():
        mine = torch.cat([t.detach().flatten() for t in tensors])
        everyone = [torch.empty_like(mine) for _ in range(world_size)]
        dist.all_gather(everyone, mine)
        same = all(torch.equal(mine, other) for other in everyone)
        if rank == 0:
            print(f"  {what:<14} {megabytes(tensors):8.2f} MB {megabytes(tensors) * world_size:11.2f} MB   "
                  + ("the same bits" if same else "they differ"), flush=True)
# [end]


if __name__ == "__main__":
    run_ranks(copies)
