# Chapter 22 in PyTorch: gradients in eight bits, by a hook of DDP.
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ranks import run_ranks


# [snippet: codec]
def encode(x):
    """Rows of floats as rows of bytes: a scale for every 256 elements, and eight bits for each."""
    blocks = x.view(len(x), -1, 256)
    scales = blocks.abs().amax(2, keepdim=True).clamp_min(1e-30) / 127
    codes = (blocks / scales).round().to(torch.int8)
    return torch.cat([codes.flatten(1), scales.flatten(1).view(torch.int8)], dim=1)


def decode(rows):
    n = rows.size(1) // 260  # blocks of a row
    codes, scales = rows[:, :256 * n], rows[:, 256 * n:].contiguous().view(torch.float32)
    return (codes.view(-1, n, 256) * scales[..., None]).flatten(1)
# [end]


# [snippet: hook]
class Int8Hook:
    """Gradients as rows of bytes, by encode() and decode() of this file."""

    def __init__(self):
        self.errors, self.sent = {}, 0

    def encode(self, key, x):
        """Encodes what is due; what the bytes leave out is due at the next step."""
        due = x + self.errors.get(key, 0)
        rows = encode(due)
        self.errors[key] = due - decode(rows)
        return rows

    def reduce(self, _, bucket):
        world_size, flat, i = dist.get_world_size(), bucket.buffer(), bucket.index()
        x = F.pad(flat, (0, -flat.numel() % (256 * world_size)))
        parts = self.encode((i, "mine"), x.view(world_size, -1))
        received = torch.empty_like(parts)
        dist.all_to_all_single(received, parts)  # each part to the rank that adds it up
        mean = self.encode((i, "mean"), decode(received).mean(0, keepdim=True))
        dist.all_gather_into_tensor(received, mean)
        self.sent = (world_size - 1) * (parts[0].nbytes + mean.nbytes)
        done = torch.futures.Future()
        done.set_result(decode(received).flatten()[:flat.numel()])
        return done
# [end]


def train(rank, hook):
    torch.manual_seed(1)
    net = DDP(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
    if hook:
        net.register_comm_hook(None, hook.reduce)
    teacher = torch.randn(784, 10)
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    torch.manual_seed(2 + rank)
    for _ in range(100):
        x = torch.randn(32, 784)
        adam.zero_grad()
        loss = F.cross_entropy(net(x), (x @ teacher).argmax(1))
        loss.backward()
        adam.step()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def body(rank, world_size):
    hook = Int8Hook()
    compressed, exact = train(rank, hook), train(rank, None)
    assert abs(compressed - exact) < 0.02 * exact, (compressed, exact)
    if rank == 0:
        print(f"int8 gradients: {hook.sent}", flush=True)


if __name__ == "__main__":
    run_ranks(body)
