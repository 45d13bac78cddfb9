# Chapter 4 in PyTorch: momentum by hand.
import torch


# [snippet: momentum]
def descend(start, lr, momentum=0.9, target=-1.30644, tolerance=1e-6):
    x = torch.tensor(start, requires_grad=True)
    velocity = torch.zeros_like(x)
    for step in range(1, 1000):
        x.grad = None
        (torch.sin(x) + x**2 / 10).backward()
        if abs(x.item() - target) <= tolerance:
            return step
        with torch.no_grad():
            velocity = momentum * velocity - lr * x.grad
            x += velocity
# [end]


for start, lr in (8.0, 0.1), (-8.0, 1.0):
    print(f"Converged after {descend(start, lr)} steps!")
