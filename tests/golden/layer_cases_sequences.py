"""Cases of attention and recurrent layers for layer_cases.py."""

import itertools

import torch


def R(*shape):
    return torch.randn(shape, dtype=torch.float64)


def attention(layer, *inputs, key_padding_mask=None, attn_mask=None, **options):
    """The masks are inputs of the case, named by their number."""
    for name, number in [("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)]:
        options[name] = None if number is None else inputs[number]
    return layer(*inputs[:3], **options)


def with_state(layer, x, h=None, c=None):
    return layer(x, h if c is None else (h, c))


def encoder(layer, src, *masks, **numbers):
    return layer(src, **{name: masks[number - 1] for name, number in numbers.items()})


CALLS = {"MultiheadAttention": attention, "TransformerEncoderLayer": encoder}
CALLS |= {name: with_state for name in "RNN GRU LSTM RNNCell GRUCell LSTMCell".split()}


def sequences(add):
    attentions(add)
    encoders(add)
    recurrent(add)


def attentions(add):
    """Three sequences of 4 queries and 5 keys, model size 8."""
    q, k, v = R(4, 3, 8), R(5, 3, 8), R(5, 3, 8)
    base = dict(embed_dim=8, num_heads=2)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = padding[2, 1] = True
    hidden = torch.ones(4, 5, dtype=torch.bool).triu(1)
    for call in [{}, dict(need_weights=False), dict(average_attn_weights=False)]:
        add("MultiheadAttention", base, q, k, v, call=call)
    add("MultiheadAttention", base | dict(bias=False), q, k, v)
    add("MultiheadAttention", base | dict(batch_first=True), *(x.transpose(0, 1) for x in (q, k, v)))
    add("MultiheadAttention", base | dict(kdim=3, vdim=5), q, R(5, 3, 3), R(5, 3, 5))
    add("MultiheadAttention", base, q[:, 0], k[:, 0], v[:, 0])
    add("MultiheadAttention", base, q, k, v, padding, call=dict(key_padding_mask=3))
    add("MultiheadAttention", base, q, k, v, hidden, call=dict(attn_mask=3))
    add("MultiheadAttention", base, q, k, v, R(6, 4, 5), call=dict(attn_mask=3), fixed=[3])
    add("MultiheadAttention", base, q, k, v, padding, hidden,
        call=dict(key_padding_mask=3, attn_mask=4, need_weights=False))


def encoders(add):
    x = R(4, 3, 8)
    base = dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0)
    for first, activation in itertools.product([False, True], ["relu", "gelu"]):
        add("TransformerEncoderLayer", base | dict(norm_first=first, activation=activation), x)
    add("TransformerEncoderLayer", base | dict(dropout=0.3, batch_first=True), x, train=False)
    add("TransformerEncoderLayer", base | dict(bias=False, layer_norm_eps=1e-3), x[:, 0])
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    padding = torch.zeros(3, 4, dtype=torch.bool)
    padding[1, 2:] = True
    add("TransformerEncoderLayer", base, x, hidden, padding,
        call=dict(src_mask=1, src_key_padding_mask=2))


def recurrent(add):
    x = R(4, 2, 3)
    for layer, bias, layers, both in itertools.product(["RNN", "GRU", "LSTM"], [True, False], [1, 2],
                                                       [False, True]):
        args = dict(input_size=3, hidden_size=4, num_layers=layers, bias=bias, bidirectional=both)
        states = [R(layers * (1 + both), 2, 4) for _ in range(1 + (layer == "LSTM"))]
        add(layer, args, x)
        add(layer, args, x, *states)
        add(layer, args | dict(batch_first=True), x.transpose(0, 1), *states)
        add(layer, args, x[:, 0], *(s[:, 0] for s in states))
    add("RNN", dict(input_size=3, hidden_size=4, nonlinearity="relu"), x)
    for layer, bias in itertools.product(["RNNCell", "GRUCell", "LSTMCell"], [True, False]):
        states = [R(2, 4) for _ in range(1 + (layer == "LSTMCell"))]
        add(layer, dict(input_size=3, hidden_size=4, bias=bias), x[0])
        add(layer, dict(input_size=3, hidden_size=4, bias=bias), x[0], *states)
        add(layer, dict(input_size=3, hidden_size=4, bias=bias), x[0, 0], *(s[0] for s in states))
    add("RNNCell", dict(input_size=3, hidden_size=4, nonlinearity="relu"), x[0])
