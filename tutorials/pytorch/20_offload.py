# Chapter 20 in PyTorch: activations that wait in files.
import pathlib
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


# [snippet: activations]
class OnDisk:
    """Writes what forward saves, and reads it when backward asks for it."""

    def __init__(self, folder):
        self.folder, self.written = folder, 0

    def write(self, tensor):
        if tensor.is_leaf and tensor.requires_grad:
            return tensor  # a parameter is in memory anyway
        self.written += 1
        file = self.folder / f"{self.written}.pt"
        torch.save(tensor, file)
        return file

    def read(self, kept):
        return kept if isinstance(kept, torch.Tensor) else torch.load(kept)


def backward_of(net, x, target, disk):
    with saved_tensors_hooks(disk.write, disk.read):
        loss = F.cross_entropy(net(x), target)
    loss.backward()
# [end]


def train(backward):
    torch.manual_seed(1)
    net = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())))
    adamw = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(5):
        adamw.zero_grad()
        backward(net, torch.randn(16, 64), torch.randint(0, 64, (16,)))
        adamw.step()
    return list(net.parameters())


def main():
    in_memory = train(lambda net, x, target: F.cross_entropy(net(x), target).backward())
    with tempfile.TemporaryDirectory() as folder:
        disk = OnDisk(pathlib.Path(folder))
        from_disk = train(lambda net, x, target: backward_of(net, x, target, disk))
        assert disk.written >= 5 * 8  # an activation of each layer in each step
    same = all(map(torch.equal, in_memory, from_disk))
    print("  disk, activations too   " + ("the bits of the run without a limit" if same else "OTHER bits"))


if __name__ == "__main__":
    main()
