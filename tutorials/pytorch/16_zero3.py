# Chapter 16 in PyTorch: ZeRO-3 by hand.
import torch
import torch.distributed as dist
import torch.nn.functional as F

from ranks import STEPS, loss_of, make_network, report, run_ranks


# [snippet: unit]
class Unit:
    """The parameters of one layer: whole while it computes, otherwise only this rank's part."""

    def __init__(self, layer, rank, world_size):
        self.parameters, self.ready, at = list(layer.parameters()), 0, 0
        flat = torch.cat([p.detach().flatten() for p in self.parameters])
        self.flat = F.pad(flat, (0, -flat.numel() % world_size))
        self.shard = self.flat.chunk(world_size)[rank].clone()
        for p in self.parameters:
            p.data = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()
            p.register_post_accumulate_grad_hook(self.reduce)
        layer.register_forward_pre_hook(lambda *_: self.gather())
        layer.register_forward_hook(lambda *_: self.free())
        layer.register_full_backward_pre_hook(lambda *_: self.gather())
        self.free()

    def gather(self):
        with torch.autograd._unsafe_preserve_version_counter(self.flat):
            self.flat.untyped_storage().resize_(self.flat.numel() * 4)
            dist.all_gather_into_tensor(self.flat, self.shard)

    def free(self):
        self.flat.untyped_storage().resize_(0)

    def reduce(self, _):
        self.ready += 1
        if self.ready < len(self.parameters):
            return
        self.free()
        packed = torch.cat([p.grad.flatten() for p in self.parameters])
        packed = F.pad(packed, (0, self.flat.numel() - packed.numel()))
        self.shard.grad, self.ready = torch.empty_like(self.shard), 0
        dist.reduce_scatter_tensor(self.shard.grad, packed, op=dist.ReduceOp.AVG)
        for p in self.parameters:
            p.grad = None
# [end]


# [snippet: by_hand]
def train_by_hand(rank, world_size):
    net = make_network()
    units = [Unit(layer, rank, world_size) for layer in [*net.layers, net.head]]
    adam = torch.optim.Adam([unit.shard for unit in units], lr=1e-3)
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(net, rank).backward()
        adam.step()
    return net, units, adam
# [end]


def body(rank, world_size):
    net, units, adam = train_by_hand(rank, world_size)
    assert all(unit.flat.untyped_storage().size() == 0 for unit in units)
    shards = [unit.shard for unit in units]
    gradients = [shard.grad for shard in shards]
    for unit in units:
        unit.gather()
    report("by hand", shards, gradients, adam, list(net.parameters()))


if __name__ == "__main__":
    run_ranks(body)
