# Chapter 3 in PyTorch: gradient descent by hand.
import torch


# [snippet: sgd]
def descend(start, lr=1.0, steps=20):
    x = torch.tensor(start, requires_grad=True)
    for step in range(steps):
        x.grad = None
        y = torch.sin(x) + x**2 / 10
        y.backward()
        yield x.item(), y.item(), x.grad.item()
        with torch.no_grad():
            x -= lr * x.grad
# [end]


def slope_by_hand(x):
    return (torch.cos(torch.tensor(x)) + x / 5).item()


for start, steps in (-8.0, 17), (8.0, 20):
    for x, y, slope in descend(start, steps=steps):
        print(f"x: {x:.4f}, y: {y:.4f}, dy/dx: {slope:.4f}, manual dy/dx: {slope_by_hand(x):.4f}")
