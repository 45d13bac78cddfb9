"""The GPT of gpt.cpp in PyTorch: same model, batches, optimizer and schedule.

    gpt.py FOLDER SEED SEED ...

Trains with PyTorch's own first values for each seed and compares the validation losses with those
of Hero (hero_SEED.safetensors): the means may differ by no more than the noise of the seeds. Then
starts from Hero's first values (start_SEED.safetensors): the losses must agree step by step while
rounding has not grown.
"""

import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

V, T, L, H, C, RATE = 1024, 64, 4, 4, 128, 3e-3
COMPARED = 20  # steps from the same start
# float32 rounds to 6e-8; over 20 steps of AdamW, whose first steps divide by tiny gradients'
# magnitudes, differences of the losses grow to some 1e-5
CLOSE = 2e-4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        B, N, _ = x.shape
        q, k, v = (y.view(B, N, H, C // H).transpose(1, 2) for y in self.attn.c_attn(self.ln_1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(B, N, C))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(V, C), nn.Embedding(T, C)
        self.transformer.h = nn.ModuleList(Block() for _ in range(L))
        self.transformer.ln_f = nn.LayerNorm(C)
        self.lm_head = nn.Linear(C, V, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif "ln_" not in name:
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * L) if name.endswith("c_proj.weight") else 0.02)

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe(torch.arange(tokens.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


def loss_of(model, batch):
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def train(model, batches, steps):
    """Losses of the first `steps` of a run over all batches, and its seconds."""
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))
    warm = len(batches) // 20 + 1
    schedule = torch.optim.lr_scheduler.SequentialLR(adamw, [
        torch.optim.lr_scheduler.LinearLR(adamw, 1 / warm, total_iters=warm),
        torch.optim.lr_scheduler.CosineAnnealingLR(adamw, len(batches) - warm, RATE / 10)], [warm])
    begin, losses = time.monotonic(), []
    for batch in batches[:steps]:
        adamw.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        schedule.step()
        losses.append(loss.item())
    return losses, time.monotonic() - begin


folder, seeds = sys.argv[1], sys.argv[2:]
torch.set_num_threads(1)
data = load_file(folder + "/batches.safetensors")
steps = len(data["train"])
found = {"Hero": [], "PyTorch": []}
print(f"{steps} steps; validation loss per token, seconds")
for seed in seeds:
    hero = load_file(f"{folder}/hero_{seed}.safetensors")
    torch.manual_seed(int(seed))
    model = GPT()
    _, seconds = train(model, data["train"], steps)
    with torch.no_grad():
        loss = statistics.fmean(loss_of(model, batch).item() for batch in data["validation"])
    found["Hero"].append(hero["validation"].item())
    found["PyTorch"].append(loss)
    print(f"seed {seed}   Hero {hero['validation'].item():.4f} {hero['seconds'].item():6.1f} s"
          f"   PyTorch {loss:.4f} {seconds:6.1f} s", flush=True)

mean = {who: statistics.fmean(losses) for who, losses in found.items()}
spread = {who: statistics.stdev(losses) for who, losses in found.items()}
for who in found:
    print(f"{who:8} {mean[who]:.4f} +- {spread[who]:.4f}")
# The difference of two means of n has the deviation sqrt((a^2 + b^2) / n). Four of those, because
# deviations from three values are themselves known to a factor of two only.
noise = math.sqrt((spread["Hero"] ** 2 + spread["PyTorch"] ** 2) / len(seeds))
difference = mean["Hero"] - mean["PyTorch"]
print(f"difference {difference:+.4f}, noise of a difference {noise:.4f}")

model = GPT()
start = load_file(f"{folder}/start_{seeds[0]}.safetensors")
start.setdefault("lm_head.weight", start["transformer.wte.weight"])
model.load_state_dict(start)
losses, _ = train(model, data["train"], COMPARED)
hero = load_file(f"{folder}/hero_{seeds[0]}.safetensors")["losses"].tolist()
largest = max(abs(a - b) for a, b in zip(losses, hero))
print(f"from the same start, largest difference of the losses in {COMPARED} steps: {largest:.1e}")
if abs(difference) > 4 * noise or largest > CLOSE:
    sys.exit("the two do not agree")
