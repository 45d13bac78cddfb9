# Chapter 9a in PyTorch: autocast and a loss scaler.
import torch

SMALL = 2.0**-12  # of the loss: as in a mean over 4096 times as many rows


# [snippet: train]
def train(net, x, target, autocast_to=None, scaled=False):
    adam = torch.optim.Adam(net.parameters(), lr=2e-4, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=100, enabled=scaled)
    for step in range(400):
        adam.zero_grad()
        with torch.autocast("cpu", dtype=autocast_to, enabled=autocast_to is not None):
            y = net(x.to(net[0].weight.dtype)).float()
        loss = torch.nn.functional.mse_loss(y, target) * SMALL
        scaler.scale(loss).backward()
        scaler.step(adam)  # unless a gradient is infinite or no number
        scaler.update()
    return loss.item() / SMALL
# [end]


def make_net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64))


torch.manual_seed(2)
x = torch.rand(256, 64) * 2 - 1
target = torch.tanh(x @ (torch.rand(64, 64) - 0.5))
print(f"float32: {train(make_net(), x, target):.2f}")
print(f"float32, autocast: {train(make_net(), x, target, torch.bfloat16):.2f}")
print(f"bfloat16: {train(make_net().bfloat16(), x, target):.2f}")
print(f"float16, masters: {train(make_net(), x, target, torch.float16):.2f}")
print(f"and a scaler: {train(make_net(), x, target, torch.float16, scaled=True):.2f}")
