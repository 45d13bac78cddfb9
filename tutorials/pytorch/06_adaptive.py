# Chapter 6 in PyTorch: Adagrad, RMSprop and Adam by hand.
import torch


# [snippet: rules]
def adagrad(x, g, state, lr):
    state["sum"] = state.get("sum", 0) + g * g
    x -= lr * g / (state["sum"].sqrt() + 1e-10)


def rmsprop(x, g, state, lr, alpha=0.99):
    state["mean"] = alpha * state.get("mean", 0) + (1 - alpha) * g * g
    x -= lr * g / (state["mean"].sqrt() + 1e-8)


def adam(x, g, state, lr, beta1=0.9, beta2=0.999):
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    x -= lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + 1e-8)
# [end]


def descend(rule, start, lr):
    x, state = torch.tensor(start, requires_grad=True), {}
    for step in range(1, 501):
        x.grad = None
        (torch.sin(x) + x**2 / 10).backward()
        if abs(x.item() + 1.30644) <= 1e-6:
            return step
        with torch.no_grad():
            rule(x, x.grad, state, lr)


for rule, lr in (adagrad, 1.0), (rmsprop, 0.1), (adam, 0.5):
    steps = descend(rule, -8.0, lr)
    print(f"Converged after {steps} steps!")
