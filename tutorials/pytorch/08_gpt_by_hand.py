# Chapter 8 in PyTorch: byte pairs, layer norm and attention by hand.
from collections import Counter

import torch


# [snippet: merges]
def join_byte_pairs(pieces, times):
    for _ in range(times):
        counts = Counter((left, right) for left, right in zip(pieces, pieces[1:]) if right[0] != "␣")
        left, right = min(counts, key=lambda pair: (-counts[pair], pair))
        joined = []
        for piece in pieces:
            if joined and (joined[-1], piece) == (left, right):
                joined[-1] += piece
            else:
                joined.append(piece)
        pieces = joined
        print(f"{counts[left, right]:3} times {left} + {right}, {len(pieces)} tokens")
    return pieces
# [end]


# [snippet: layer norm]
def layer_norm_by_hand(x, weight, bias):  # x [T, C]
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias
# [end]


# [snippet: attention]
def attention_by_hand(q, k, v):  # of one head, [T, d] each
    scores = q @ k.T / q.size(1) ** 0.5
    scores += torch.full_like(scores, -torch.inf).triu(1)
    weights = torch.softmax(scores, dim=1)
    return weights, weights @ v
# [end]


print(" ".join(join_byte_pairs(
    list("she sells sea shells by the sea shore the shells she sells are sea shells".replace(" ", "␣")), 8)))

x = torch.tensor([[1, 2, 3, 6], [10, 20, 30, 60], [5, 5, 5, 6], [-1, 0, 0, 0]], dtype=torch.float64)
y = layer_norm_by_hand(x, torch.ones(4), torch.zeros(4))
for row, norm in zip(x, y):
    print("%4g %4g %4g %4g    " % tuple(row) + "%6.2f %9.4f   " % (row.mean(), row.var(unbiased=False))
          + "".join(" %7.4f" % value for value in norm))
assert (y - torch.nn.functional.layer_norm(x, [4])).abs().max() < 1e-14

words = ["to", "be", "or", "not", "to", "be"]
e = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 3, 0, 1]), 4).double()
weights, result = attention_by_hand(8 * e, e, e)
for query, word in enumerate(words):
    print(f"{query} {word:4}" + "".join(" %5.1f" % (100 * share) for share in weights[query, :query + 1]))
library = torch.nn.functional.scaled_dot_product_attention(8 * e[None], e[None], e[None], is_causal=True)
assert (result - library[0]).abs().max() < 1e-14
