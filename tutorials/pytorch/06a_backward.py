# Chapter 6a in PyTorch: operations with a derivative of your own.
import torch
import torch.nn.functional as F
from torch.autograd import Function


# [snippet: operations]
class Multiply(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


class Sqrt(Function):
    @staticmethod
    def forward(ctx, a):
        y = a.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g / (2 * ctx.saved_tensors[0])


def neuron(w, x, b):
    u = Multiply.apply(w, x) + b
    return (u / Sqrt.apply(u * u + 1) - 1)**2
# [end]


# [snippet: cross entropy]
class SoftmaxCrossEntropy(Function):
    @staticmethod
    def forward(ctx, z, target):
        log_p = z - z.logsumexp(1, keepdim=True)
        ctx.save_for_backward(log_p, target)
        return -log_p.gather(1, target[:, None]).mean()

    @staticmethod
    def backward(ctx, g):
        log_p, target = ctx.saved_tensors
        y = F.one_hot(target, log_p.size(1))
        return g * (log_p.exp() - y) / len(target), None  # none for the target
# [end]


# [snippet: forward mode]
def by_operators(w, x, b):
    u = w * x + b
    return (u / torch.sqrt(u * u + 1) - 1)**2


def forward_mode(at):
    for seeds in torch.eye(3, dtype=torch.float64):
        _, slope = torch.func.jvp(by_operators, tuple(at), tuple(seeds))
        yield slope
# [end]


def parameter(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def main():
    at = [parameter(v) for v in (0.75, 2.0, -0.75)]
    neuron(*at).backward()
    forward = forward_mode([p.detach() for p in at])
    for name, p, slope in zip("wxb", at, forward, strict=True):
        for derivative in p.grad, slope:
            print(f"d loss / d {name} = {derivative.item():.4f}")
    assert torch.autograd.gradcheck(neuron, at)

    z = parameter([[0.0, 800.0]])
    loss = SoftmaxCrossEntropy.apply(z, torch.tensor([0]))
    loss.backward()
    print(f"{'loss together':<28}{loss.item():10.4f}")
    print(f"{'gradient':<28}" + "".join(f"{g:10.4f}" for g in z.grad[0]))
    logits, target = parameter(torch.randn(3, 4).tolist()), torch.tensor([2, 0, 3])
    assert torch.autograd.gradcheck(lambda z: SoftmaxCrossEntropy.apply(z, target), [logits])


if __name__ == "__main__":
    main()
