# Chapter 15 in PyTorch: ZeRO-2 by hand.
import torch
import torch.distributed as dist

from ranks import STEPS, loss_of, make_network, report, run_ranks


# [snippet: by_hand]
def train_by_hand(rank, world_size):
    net, at = make_network(), 0
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    sizes = [chunk.numel() for chunk in flat.tensor_split(world_size)]
    begin = sum(sizes[:rank])
    shard = flat.tensor_split(world_size)[rank]
    shard.grad = torch.zeros_like(shard)  # all gradients that stay
    for p in net.parameters():
        p.data = flat[at:at + p.numel()].view_as(p)

        def reduce(p, first=at):  # its gradient is complete
            ends = [sum(sizes[:r + 1]) - first for r in range(world_size)]
            pieces = p.grad.flatten().tensor_split([max(end, 0) for end in ends[:-1]])
            for owner, piece in enumerate(pieces):
                dist.reduce(piece, dst=owner, op=dist.ReduceOp.AVG)
            mine = max(first - begin, 0)
            shard.grad[mine:mine + pieces[rank].numel()] = pieces[rank]
            p.grad = None  # freed

        p.register_post_accumulate_grad_hook(reduce)
        at += p.numel()
    adam = torch.optim.Adam([shard], lr=1e-3)
    for step in range(STEPS):
        loss_of(net, rank).backward()
        adam.step()
        for owner, part in enumerate(flat.tensor_split(world_size)):
            dist.broadcast(part, src=owner)
    return net, flat, shard, adam
# [end]


def body(rank, world_size):
    net, flat, shard, adam = train_by_hand(rank, world_size)
    report("by hand", [flat], [shard.grad], adam, list(net.parameters()))


if __name__ == "__main__":
    run_ranks(body)
