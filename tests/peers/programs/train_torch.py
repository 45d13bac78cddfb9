"""PyTorch's side of train_hero.cpp: the same networks and steps as train_hero.cpp, and the same
two ways to be run: lines "CASE THREADS SECONDS" on standard input, or arguments CASE THREADS STEPS.
A case is a network's name and, where wanted, "+bf16" (the loss under autocast) and "+compile".
"""
import torch
import torch.nn.functional as F
from torch import nn

import train_loop


SETUP = {"bf16": False, "compile": False}  # of what is made next


def train(model, optimizer, loss, clip=None):
    bf16, forward = SETUP["bf16"], torch.compile(loss) if SETUP["compile"] else loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            result = forward()
        result.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return step


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.rand(64, 784), torch.randint(0, 10, (64,))
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    return train(model, sgd, lambda: F.cross_entropy(model(x), y))


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, block, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(block, width) * 0.02)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.tokens(x) + self.positions
        for block in self.blocks:
            h = block(h)
        return F.linear(self.norm(h), self.tokens.weight)


def gpt(layers, heads, width, block, batch, vocabulary=512):
    model = GPT(layers, heads, width, block, vocabulary)
    x, y = torch.randint(0, vocabulary, (batch, block)), torch.randint(0, vocabulary, (batch * block,))
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    return train(model, adamw, lambda: F.cross_entropy(model(x).flatten(0, 1), y), clip=1.0)


class LlamaLayer(nn.Module):
    def __init__(self, width, hidden, heads, kv_heads):
        super().__init__()
        self.size = width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        rows = kv_heads * self.size
        self.q, self.k, self.v, self.o = (nn.Linear(width, n, bias=False) for n in (width, rows, rows, width))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def attend(self, x, cos, sin):
        def heads(rows):
            return rows.view(*x.shape[:2], -1, self.size).transpose(1, 2)

        def turn(rows):
            first, second = rows.chunk(2, -1)
            return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(rows.dtype)
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, hidden, heads, kv_heads, length, vocabulary):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.layers = nn.ModuleList(LlamaLayer(width, hidden, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
        size = width // heads
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        h = self.tokens(x)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return self.head(self.norm(h))


def llama():
    model = Llama(12, 768, 2048, 12, 4, 256, 32000)
    x, y = torch.randint(0, 32000, (4, 256)), torch.randint(0, 32000, (1024,))
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    return train(model, adamw, lambda: F.cross_entropy(model(x).flatten(0, 1), y), clip=1.0)


def lstm():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(128, 256, 2), nn.Linear(256, 64)

        def forward(self, x):
            return self.head(self.lstm(x)[0]).flatten(0, 1)
    model = Recurrent()
    x, y = torch.randn(64, 32, 128), torch.randint(0, 64, (64 * 32,))
    adam = torch.optim.Adam(model.parameters(), fused=True)
    return train(model, adam, lambda: F.cross_entropy(model(x), y), clip=1.0)


def cnn():
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y = torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,))
    adam = torch.optim.Adam(model.parameters(), fused=True)
    return train(model, adam, lambda: F.cross_entropy(model(x), y))


class BasicBlock(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm2d(outs)
        self.conv2, self.norm2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    blocks = [BasicBlock(max(64, outs // 2) if i == 0 else outs, outs, 2 if i == 0 and outs > 64 else 1)
              for outs in (64, 128, 256, 512) for i in range(2)]
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                          *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    x, y = torch.rand(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    return train(model, sgd, lambda: F.cross_entropy(model(x), y))


NETWORKS = {"mlp": mlp, "gpt_128": lambda: gpt(4, 4, 128, 64, 12), "gpt_384": lambda: gpt(6, 6, 384, 256, 8),
            "gpt2": lambda: gpt(12, 12, 768, 256, 4, 50304), "llama": llama,
            "lstm": lstm, "cnn": cnn, "resnet18": resnet18}


def step_of(case, threads):
    torch.set_num_threads(threads)
    network, *words = case.split("+")
    for word in SETUP:
        SETUP[word] = word in words
    return NETWORKS[network]()


if __name__ == "__main__":
    train_loop.run(step_of)
