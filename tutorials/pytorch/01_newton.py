# Chapter 1 in PyTorch: Newton's method with two derivatives by autograd.
import torch


# [snippet: newton]
def f(x):
    return torch.sin(x) + x**2 / 10


def newton(start, steps):
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    path = []
    for _ in range(steps):
        y = f(x)
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, x)
        with torch.no_grad():
            x -= slope / curvature
        path.append((x.item(), y.item(), slope.item(), curvature.item()))
    return path
# [end]


for i, (x, y, slope, curvature) in enumerate(newton(-5.0, 12)):
    print(f"[{i:2d}/12] x = {x:.8f}, f(x) = {y:.5f}, f'(x) = {slope:.5f}, f''(x) = {curvature:.5f}")
