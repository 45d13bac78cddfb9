"""MLX's side of train_hero.cpp: the MLP and the GPT with the same sizes, optimizers and losses, and
the same two ways to be run. MLX chooses its own number of threads, so THREADS is not used.
"""
import mlx.core as mx
from mlx import nn, optimizers

import train_loop


def train(model, optimizer, loss, clip=None):
    gradients_of = nn.value_and_grad(model, loss)
    mx.eval(model.parameters())

    def step():
        _, gradients = gradients_of(model)
        if clip is not None:
            gradients, _ = optimizers.clip_grad_norm(gradients, clip)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
    return step


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = mx.random.uniform(shape=(64, 784)), mx.random.randint(0, 10, (64,))
    return train(model, optimizers.SGD(1e-3), lambda m: nn.losses.cross_entropy(m(x), y, reduction="mean"))


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3)
                   for part in mx.split(self.qkv(x), 3, axis=2))
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=(width // self.heads) ** -0.5, mask="causal")
        return self.out(y.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def __call__(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nn.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, block, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = mx.random.normal((block, width)) * 0.02
        self.tokens.weight = mx.random.normal((vocabulary, width)) * 0.02
        self.blocks = [Block(heads, width) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)

    def __call__(self, x):
        h = self.tokens(x) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.tokens.as_linear(self.norm(h))


def gpt():
    batch, block, vocabulary = 12, 64, 512
    model = GPT(4, 4, 128, block, vocabulary)
    x, y = mx.random.randint(0, vocabulary, (batch, block)), mx.random.randint(0, vocabulary, (batch, block))
    adamw = optimizers.AdamW(3e-4, bias_correction=True)
    return train(model, adamw, lambda m: nn.losses.cross_entropy(m(x), y, reduction="mean"), clip=1.0)


NETWORKS = {"mlp": mlp, "gpt_128": gpt}


if __name__ == "__main__":
    train_loop.run(lambda case, _: NETWORKS[case]())
