# Chapter 5 in PyTorch: Nesterov's momentum, looking ahead and in the form of the library.
import torch


# [snippet: lookahead]
def lookahead(start, lr=1.0, momentum=0.9):
    x, velocity = torch.tensor(start), torch.tensor(0.0)
    while True:
        ahead = (x + momentum * velocity).requires_grad_()  # where the momentum leads anyway
        (torch.sin(ahead) + ahead**2 / 10).backward()
        yield ahead.item()
        velocity = momentum * velocity - lr * ahead.grad
        x = x + velocity
# [end]


# [snippet: library]
def by_library(start, lr=1.0, momentum=0.9):
    x = torch.tensor(start, requires_grad=True)
    sgd = torch.optim.SGD([x], lr=lr, momentum=momentum, nesterov=True)
    while True:
        sgd.zero_grad()
        (torch.sin(x) + x**2 / 10).backward()
        yield x.item()
        sgd.step()
# [end]


def steps_to(target, path):
    for step, x in enumerate(path, 1):
        if abs(x - target) <= 1e-6:
            return step


for rule in lookahead, by_library:
    for start in -8.0, 8.0:
        print(f"Converged after {steps_to(-1.30644, rule(start))} steps!")
