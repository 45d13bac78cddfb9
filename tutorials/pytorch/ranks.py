# What chapters 11 to 17 share: four processes, the network, and what a rank holds.
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

STEPS, ROWS = 5, 16


class DeepNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(10))
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.head(x)


def make_network():
    torch.manual_seed(1)
    return DeepNetwork()


def loss_of(net, rank):
    torch.manual_seed(1000 + rank)
    images, labels = torch.rand(ROWS, 256) - 0.5, torch.randint(0, 10, (ROWS,))
    return nn.functional.cross_entropy(net(images), labels)


def train_alone(world_size):
    """One process that takes the batches of all ranks and averages."""
    net = make_network()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        adam.zero_grad()
        sum(loss_of(net, rank) / world_size for rank in range(world_size)).backward()
        adam.step()
    return [p.detach() for p in net.parameters()]


def megabytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors) / 1e6


def states_of(adam):
    return [s for state in adam.state.values() for name, s in state.items() if name != "step"]


def report(name, parameters, gradients, adam, trained):
    """One line a run: what rank 0 holds after a step; and whether it trained as one process did."""
    world_size = dist.get_world_size()
    for mine, theirs in zip(trained, train_alone(world_size), strict=True):
        # float32 sums in another order, and five steps of Adam, which divides small numbers
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    if dist.get_rank() == 0:
        held = megabytes(parameters), megabytes(gradients), megabytes(states_of(adam))
        print(f"{name}: {held[0]:.2f} {held[1]:.2f} {held[2]:.2f}", flush=True)


def start(rank, world_size, body):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    body(rank, world_size)
    dist.destroy_process_group()


def run_ranks(body, world_size=4):
    mp.spawn(start, args=(world_size, body), nprocs=world_size)
