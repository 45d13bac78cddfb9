"""Makes the reference cases of attention, Transformer, GPT, rotary embedding, recurrent layers and
parametrizations with PyTorch (2.15 made those here), all in float64:

    python make_sequence.py .

A case "name" of a .safetensors file holds name/in.<argument>, name/w.<parameter>, name/out.<i> and
the gradients name/gin.<argument>, name/gw.<parameter> of sum_i sum(out_i * sin(1, 2, 3, ...)).
"""

import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

torch.set_default_dtype(torch.float64)
files = {}


def case(file, name, module, inputs, call, weights=True):
    """Runs call(module, **inputs), which gives tensors, and stores everything."""
    torch.manual_seed(sum(map(ord, name)))
    module.eval()
    for p in module.parameters():
        p.data = torch.randn_like(p) * 0.5
    inputs = {k: v if v.dtype == torch.bool or v.dtype == torch.int64 else v.requires_grad_() for k, v in inputs.items()}
    outputs = call(module, **inputs)
    loss = sum((o * torch.sin(torch.arange(1, o.numel() + 1, dtype=o.dtype)).reshape(o.shape)).sum() for o in outputs)
    loss.backward()
    data = files.setdefault(file, {})
    for k, v in inputs.items():
        data[f"{name}/in.{k}"] = v.detach().clone().contiguous()
        if v.grad is not None:
            data[f"{name}/gin.{k}"] = v.grad.contiguous()
    for k, v in module.named_parameters():
        data[f"{name}/w.{k}"] = v.detach().clone().contiguous()
        data[f"{name}/gw.{k}"] = v.grad.contiguous()
    for k, v in module.named_buffers():
        data[f"{name}/w.{k}"] = v.clone().contiguous()
    for i, o in enumerate(outputs):
        data[f"{name}/out.{i}"] = o.detach().contiguous()


def rand(*shape):
    return torch.randn(*shape)


def attention():
    torch.manual_seed(1)
    E, H, N, T, S = 6, 2, 2, 3, 4
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    file = "attention"
    # what need_weights=False gives comes first, so that both ways are compared
    both = lambda m, q, k, v, **kw: (m(q, k, v, need_weights=False, **kw)[0], *m(q, k, v, **kw))
    case(file, "self", nn.MultiheadAttention(E, H), {"x": rand(T, N, E)},
         lambda m, x: both(m, x, x, x))
    case(file, "causal", nn.MultiheadAttention(E, H, batch_first=True),
         {"x": rand(N, T, E), "mask": causal}, lambda m, x, mask: both(m, x, x, x, attn_mask=mask))
    case(file, "padding", nn.MultiheadAttention(E, H, bias=False),
         {"q": rand(T, N, E), "k": rand(S, N, E), "padding": padding},
         lambda m, q, k, padding: both(m, q, k, k, key_padding_mask=padding))
    case(file, "added", nn.MultiheadAttention(E, H),
         {"q": rand(T, N, E), "k": rand(S, N, E), "mask": rand(N * H, T, S), "padding": rand(N, S)},
         lambda m, q, k, mask, padding: both(m, q, k, k, attn_mask=mask, key_padding_mask=padding))
    case(file, "sizes", nn.MultiheadAttention(E, H, kdim=5, vdim=3),
         {"q": rand(T, N, E), "k": rand(S, N, 5), "v": rand(S, N, 3)},
         lambda m, q, k, v: both(m, q, k, v, average_attn_weights=False))
    case(file, "single", nn.MultiheadAttention(E, H), {"q": rand(T, E), "k": rand(S, E)},
         lambda m, q, k: both(m, q, k, k))


def transformer():
    torch.manual_seed(2)
    E, H, N, T = 4, 2, 2, 3
    padding = torch.tensor([[False, False, False], [False, False, True]])
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    layer = lambda **kw: nn.TransformerEncoderLayer(E, H, dim_feedforward=6, dropout=0.0, **kw)
    file = "transformer"
    case(file, "post", layer(), {"x": rand(T, N, E)}, lambda m, x: (m(x),))
    case(file, "pre", layer(norm_first=True, activation="gelu", batch_first=True, bias=False),
         {"x": rand(N, T, E), "mask": causal}, lambda m, x, mask: (m(x, src_mask=mask),))
    encoder = nn.TransformerEncoder(layer(layer_norm_eps=1e-3), 2, norm=nn.LayerNorm(E),
                                    enable_nested_tensor=False)
    case(file, "encoder", encoder, {"x": rand(T, N, E), "padding": padding},
         lambda m, x, padding: (m(x, src_key_padding_mask=padding),))


def decoder():
    torch.manual_seed(5)
    E, H, N, T, S = 4, 2, 2, 3, 5
    padding = torch.arange(S) >= torch.tensor([[5], [3]])
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    layer = lambda **kw: nn.TransformerDecoderLayer(E, H, dim_feedforward=6, dropout=0.0, **kw)
    file = "decoder"
    case(file, "post", layer(), {"x": rand(T, N, E), "memory": rand(S, N, E)},
         lambda m, x, memory: (m(x, memory),))
    case(file, "pre", layer(norm_first=True, activation="gelu", batch_first=True, bias=False),
         {"x": rand(N, T, E), "memory": rand(N, S, E), "mask": causal, "padding": padding},
         lambda m, x, memory, mask, padding: (m(x, memory, mask, memory_key_padding_mask=padding),))
    case(file, "decoder", nn.TransformerDecoder(layer(layer_norm_eps=1e-3), 2, nn.LayerNorm(E)),
         {"x": rand(T, N, E), "memory": rand(S, N, E), "scores": rand(T, S)},
         lambda m, x, memory, scores: (m(x, memory, memory_mask=scores),))
    case(file, "transformer", nn.Transformer(E, H, 1, 2, 6, 0.0, batch_first=True),
         {"src": rand(N, S, E), "tgt": rand(N, T, E), "mask": causal, "padding": padding},
         lambda m, src, tgt, mask, padding: (m(src, tgt, tgt_mask=mask, src_key_padding_mask=padding,
                                               memory_key_padding_mask=padding),))


def packed():
    torch.manual_seed(6)
    I, H, N, T = 3, 2, 5, 6
    lengths = torch.tensor([2, 6, 1, 6, 4])
    file = "packed"
    deep = {"num_layers": 2, "bidirectional": True, "batch_first": True}

    def run(m, x, *state):
        x = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, last = m(x, *state)
        padded, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, padding_value=0.5)
        return (y.data, padded, *(last if isinstance(last, tuple) else [last]))

    case(file, "rnn", nn.RNN(I, H, batch_first=True), {"x": rand(N, T, I)}, run)
    case(file, "gru", nn.GRU(I, H, **deep), {"x": rand(N, T, I), "h": rand(4, N, H)},
         lambda m, x, h: run(m, x, h))
    case(file, "lstm", nn.LSTM(I, H, **deep),
         {"x": rand(N, T, I), "h": rand(4, N, H), "c": rand(4, N, H)},
         lambda m, x, h, c: run(m, x, (h, c)))


def parametrized():
    torch.manual_seed(7)
    file = "parametrized"
    spectral, weight = nn.utils.parametrizations.spectral_norm, nn.utils.parametrizations.weight_norm
    run = lambda m, x: (m(x),)
    case(file, "spectral_linear", spectral(nn.Linear(3, 4)), {"x": rand(2, 3)}, run)
    case(file, "spectral_conv", spectral(nn.Conv2d(2, 3, 2)), {"x": rand(1, 2, 3, 3)}, run)
    case(file, "spectral_transposed", spectral(nn.ConvTranspose1d(2, 3, 2)), {"x": rand(1, 2, 3)}, run)
    case(file, "weight_linear", weight(nn.Linear(3, 4)), {"x": rand(2, 3)}, run)
    case(file, "weight_conv", weight(nn.Conv1d(2, 3, 2), dim=1), {"x": rand(1, 2, 3)}, run)
    case(file, "weight_whole", weight(nn.Linear(3, 4), dim=None), {"x": rand(2, 3)}, run)


def recurrent():
    torch.manual_seed(3)
    I, H, N, T = 3, 2, 2, 4
    file = "recurrent"
    deep = {"num_layers": 2, "bidirectional": True}
    flat = lambda result: (result[0], *(result[1] if isinstance(result[1], tuple) else [result[1]]))
    case(file, "rnn", nn.RNN(I, H, **deep), {"x": rand(T, N, I), "h": rand(4, N, H)},
         lambda m, x, h: flat(m(x, h)))
    case(file, "rnn_relu", nn.RNN(I, H, nonlinearity="relu", bias=False), {"x": rand(T, N, I)},
         lambda m, x: flat(m(x)))
    case(file, "lstm", nn.LSTM(I, H, **deep),
         {"x": rand(T, N, I), "h": rand(4, N, H), "c": rand(4, N, H)},
         lambda m, x, h, c: flat(m(x, (h, c))))
    case(file, "lstm_batch", nn.LSTM(I, H, batch_first=True, bias=False), {"x": rand(N, T, I)},
         lambda m, x: flat(m(x)))
    case(file, "gru", nn.GRU(I, H, **deep), {"x": rand(T, N, I), "h": rand(4, N, H)},
         lambda m, x, h: flat(m(x, h)))
    case(file, "gru_single", nn.GRU(I, H, bidirectional=True), {"x": rand(T, I)},
         lambda m, x: flat(m(x)))
    case(file, "rnn_cell", nn.RNNCell(I, H), {"x": rand(N, I), "h": rand(N, H)},
         lambda m, x, h: (m(x, h),))
    case(file, "lstm_cell", nn.LSTMCell(I, H), {"x": rand(I), "h": rand(H), "c": rand(H)},
         lambda m, x, h, c: m(x, (h, c)))
    case(file, "gru_cell", nn.GRUCell(I, H, bias=False), {"x": rand(N, I)}, lambda m, x: (m(x),))


def turned(x, offset, interleaved):
    """Su et al., equation 34, position by position, as products of complex numbers."""
    T, D = x.shape[-2:]
    rate = 10000.0 ** (-torch.arange(0, D, 2) / D)
    angle = torch.arange(offset, offset + T).unsqueeze(1) * rate
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    parts = [z.real, z.imag]
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


class Block(nn.Module):
    def __init__(self, C, H, G, rotary):
        super().__init__()
        self.H, self.G, self.rotary = H, G, rotary
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = nn.Linear(C, C + 2 * C * G // H), nn.Linear(C, C)
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        B, T, C = x.shape
        D = C // self.H
        qkv = self.attn.c_attn(self.ln_1(x)).split([C, self.G * D, self.G * D], 2)
        q, k, v = (y.view(B, T, -1, D).transpose(1, 2) for y in qkv)
        if self.rotary:
            q, k = turned(q, 0, False), turned(k, 0, False)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, V, T, L, H, C, G, rotary=False, tie=True):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(V, C)
        if not rotary:
            self.transformer.wpe = nn.Embedding(T, C)
        self.transformer.h = nn.ModuleList(Block(C, H, G, rotary) for _ in range(L))
        self.transformer.ln_f = nn.LayerNorm(C)
        self.lm_head = nn.Linear(C, V, bias=False)
        if tie:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        x = self.transformer.wte(tokens)
        if hasattr(self.transformer, "wpe"):
            x = x + self.transformer.wpe(torch.arange(tokens.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


def gpt():
    torch.manual_seed(4)
    file = "gpt"
    tokens = torch.tensor([[1, 0, 4, 2], [3, 3, 2, 1]])
    run = lambda m, tokens: (m(tokens),)
    case(file, "gpt", GPT(5, 6, 2, 2, 4, 2), {"tokens": tokens}, run)
    case(file, "grouped", GPT(5, 6, 1, 2, 8, 1, rotary=True, tie=False), {"tokens": tokens}, run)
    for name, interleaved in (("half", False), ("interleaved", True)):
        case(file, "rotary_" + name, nn.Identity(), {"x": rand(2, 3, 4, 6)},
             lambda m, x: (turned(x, 0, interleaved), turned(x, 7, interleaved)))


for part in (attention, transformer, recurrent, gpt, decoder, packed, parametrized):
    part()
for file, data in files.items():
    save_file(data, f"{sys.argv[1]}/{file}.safetensors")
    print(file, len(data), "arrays")
