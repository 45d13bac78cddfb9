# Chapter 19a in PyTorch: the rule about tokens, of counted operations.
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


# [snippet: rule]
def tokens_to_hide(model, x, flops, bandwidth):
    """Tokens of a rank above which FSDP's messages hide: in forward, and in backward."""
    parameters = sum(p.numel() for p in model.parameters())
    with FlopCounterMode(display=False) as forward:
        y = model(x.requires_grad_())
    with FlopCounterMode(display=False) as backward:
        y.backward(torch.empty_like(y))
    for counted, sent in (forward, 2 * parameters), (backward, 4 * parameters):  # bytes in bfloat16
        seconds_of_a_token = counted.get_total_flops() / len(x) / flops
        yield sent / bandwidth / seconds_of_a_token
# [end]


def main():
    with torch.device("meta"):  # shapes are enough
        model = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(24)))
        x = torch.empty(512, 4096)
    for tokens in tokens_to_hide(model, x, 0.55 * 312e12, 25e9):
        print(f"16 ranks in two hosts: the rule says {tokens:.0f} tokens")


if __name__ == "__main__":
    main()
