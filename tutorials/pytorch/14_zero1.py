# Chapter 14 in PyTorch: ZeRO-1 by hand.
import torch
import torch.distributed as dist
import torch.nn.functional as F

from ranks import STEPS, loss_of, make_network, report, run_ranks


# [snippet: flat]
def flat_parameter_of(net, world_size):
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    flat = F.pad(flat, (0, -flat.numel() % world_size))
    gradients, at = torch.zeros_like(flat), 0
    for p in net.parameters():  # windows on the two flat tensors
        p.data = flat[at:at + p.numel()].view_as(p)
        p.grad = gradients[at:at + p.numel()].view_as(p)
        at += p.numel()
    return flat, gradients
# [end]


# [snippet: by_hand]
def train_by_hand(rank, world_size):
    net = make_network()
    flat, gradients = flat_parameter_of(net, world_size)
    shard = flat.chunk(world_size)[rank]  # this rank's part, as one parameter
    shard.grad = gradients.chunk(world_size)[rank]
    adam = torch.optim.Adam([shard], lr=1e-3)  # states for this part only
    for step in range(STEPS):
        gradients.zero_()
        loss_of(net, rank).backward()
        dist.reduce_scatter_tensor(shard.grad, gradients, op=dist.ReduceOp.AVG)
        adam.step()
        dist.all_gather_into_tensor(flat, shard)
    return net, flat, gradients, adam
# [end]


def body(rank, world_size):
    net, flat, gradients, adam = train_by_hand(rank, world_size)
    report("by hand", [flat], [gradients], adam, list(net.parameters()))


if __name__ == "__main__":
    run_ranks(body)
