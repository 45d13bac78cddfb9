# Chapter 2 in PyTorch: a line through 100 points, with its gradient by hand.
import numpy as np
import torch

# [snippet: descent]
np.random.seed(0)
x = torch.from_numpy(2 * np.random.rand(100, 1))
y = 4 + 3 * x + torch.from_numpy(np.random.randn(100, 1))
slope, intercept = np.random.randn() * 12, np.random.randn() * -9
losses = []
for step in range(1000):
    error = y - (slope * x + intercept)
    losses.append((error**2).mean().item())
    slope -= 0.05 * -2 * (error * x).mean().item()
    intercept -= 0.05 * -2 * error.mean().item()
# [end]
for step in range(0, 1000, 50):
    print(f"[{step:3d}/1000] loss: {losses[step]:.4f}")
best = torch.linalg.lstsq(torch.cat([x, torch.ones_like(x)], dim=1), y).solution
# 1000 steps leave a gradient of 2e-7
assert abs(slope - best[0].item()) < 1e-6 and abs(intercept - best[1].item()) < 1e-6
