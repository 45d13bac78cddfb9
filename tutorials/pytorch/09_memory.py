# Chapter 9 in PyTorch: a batch in parts, and a chain of layers with checkpoints.
import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


# [snippet: accumulate]
def gradients(net, images, labels, rows):
    net.zero_grad()
    for part, right in zip(images.split(rows), labels.split(rows)):
        loss = cross_entropy(net(part), right)
        (loss * (len(part) / len(images))).backward()
    return [p.grad for p in net.parameters()]
# [end]


# [snippet: checkpoint]
def run_chain(chain, keep, x):  # chain: a list of layers
    if keep == "all":
        return torch.nn.Sequential(*chain)(x)
    if keep == "sqrt(n)":
        return checkpoint_sequential(chain, int(len(chain) ** 0.5), x, use_reentrant=False)
    for at in range(0, len(chain), 4):
        x = checkpoint(torch.nn.Sequential(*chain[at:at + 4]), x, use_reentrant=False)
    return x
# [end]


torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                          torch.nn.Linear(512, 10))
for batch, rows in (512, 256), (1024, 256), (1000, 100):
    images, labels = torch.rand(batch, 784), torch.randint(0, 10, (batch,))
    for whole, parts in zip(gradients(net, images, labels, batch), gradients(net, images, labels, rows)):
        assert (whole - parts).abs().max() < 1e-6  # float32, gradients below 0.1


class Layer(torch.nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(16, 16))

    def forward(self, x):
        Layer.calls += 1
        return torch.tanh(x @ self.weight)


for n in 4, 16, 36, 64, 100, 144:
    calls = []
    for keep in "all", "blocks", "sqrt(n)":
        Layer.calls = 0
        run_chain([Layer() for _ in range(n)], keep, torch.rand(512, 16)).sum().backward()
        calls.append(str(Layer.calls))
    print(f"{n}: " + " ".join(calls))
