# Chapter 17 in PyTorch: FSDP2 in three forms.
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ranks import STEPS, loss_of, make_network, report, run_ranks


# [snippet: library]
def train(rank, world_size, **options):
    net = make_network()
    mesh = init_device_mesh("cpu", (world_size,))
    for layer in [*net.layers, net.head]:
        fully_shard(layer, mesh=mesh, **options)  # a unit each
    fully_shard(net, mesh=mesh, **options)  # and the root's, which is empty here
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)  # of DTensors: of this rank's shards
    for step in range(STEPS):
        adam.zero_grad()
        loss_of(net, rank).backward()
        adam.step()
    return net, adam
# [end]


def local(tensors):
    return [t.to_local() for t in tensors]


def body(rank, world_size):
    forms = {"reshard after forward": {}, "keep until backward": {"reshard_after_forward": False}}
    for name, options in forms.items():
        net, adam = train(rank, world_size, **options)
        parameters = list(net.parameters())
        for state in adam.state.values():
            for key, value in state.items():
                state[key] = value.to_local() if hasattr(value, "to_local") else value
        whole = [p.full_tensor() for p in parameters]
        report(name, local(parameters), local(p.grad for p in parameters), adam, whole)


if __name__ == "__main__":
    run_ranks(body)
