# Chapter 7 in PyTorch: a network for images of clothes, five epochs of plain SGD.
import gzip
import pathlib

import numpy as np
import torch
from torch import nn

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian: dataset-fashion-mnist


# [snippet: network]
class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))
# [end]


# [snippet: step]
def take_step(model, optimizer, images, labels):
    optimizer.zero_grad()  # forget the old gradients
    loss = nn.functional.cross_entropy(model(images), labels)  # how wrong is the network?
    loss.backward()  # the gradient of each parameter
    optimizer.step()  # a step against it
    return loss.item()
# [end]


def read(name):
    images = np.frombuffer(gzip.open(FOLDER / f"{name}-images-idx3-ubyte.gz").read(), np.uint8, offset=16)
    labels = np.frombuffer(gzip.open(FOLDER / f"{name}-labels-idx1-ubyte.gz").read(), np.uint8, offset=8)
    return torch.tensor(images.reshape(-1, 1, 28, 28)) / 255, torch.tensor(labels, dtype=torch.long)


def main():
    torch.manual_seed(1)
    model = NeuralNetwork()
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = read("train")
    for _ in range(5):
        for i, j in zip(images.split(64), labels.split(64), strict=True):
            take_step(model, sgd, i, j)
    images, labels = read("t10k")
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    print(f"parameters: {sum(p.numel() for p in model.parameters())}")
    print(f"Accuracy: {100 * right:.1f}%")


if __name__ == "__main__":
    main()
