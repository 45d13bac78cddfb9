"""Writes numpy_random.json with NumPy itself (1.26.4): draws of RandomState in sequences that mix
32- and 64-bit draws. Doubles are stored as hexadecimal so that they compare bit for bit."""
import json
import pathlib

import numpy as np

RANGES = [(0, 1), (0, 2), (0, 10), (-5, 5), (0, 256), (3, 1000), (0, 2**31), (0, 2**32 - 1),
          (0, 2**32), (0, 2**32 + 1), (-2**40, 2**45), (-2**63, 2**63 - 1), (-2**62, 2**62)]


def hexes(values):
    return [float(v).hex() for v in np.atleast_1d(values)]


def sequence(seed):
    rng = np.random.RandomState(seed)
    steps = []
    add = lambda op, args, values: steps.append({"op": op, "args": args, "values": values})
    add("rand", [5], hexes(rng.rand(5)))
    add("randn", [3], hexes(rng.randn(3)))  # odd: one number is kept
    for low, high in RANGES:
        add("randint", [low, high, 6], [int(v) for v in rng.randint(low, high, 6)])
    add("randn", [2], hexes(rng.randn(2)))
    add("randint", [0, 7, 1], [int(rng.randint(0, 7))])
    add("permutation", [13], [int(v) for v in rng.permutation(13)])
    add("normal", [1.5, 0.3, 5], hexes(rng.normal(1.5, 0.3, 5)))
    add("uniform", [-3.0, 0.7, 5], hexes(rng.uniform(-3.0, 0.7, 5)))
    shuffled = np.array([10.0 * i for i in range(9)])
    rng.shuffle(shuffled)
    add("shuffle", [9], hexes(shuffled))
    add("permutation", [1], [int(v) for v in rng.permutation(1)])
    add("random_sample", [3], hexes(rng.random_sample(3)))
    rng.rand(1200)  # past the next refill
    add("skip", [1200], [])
    add("randn", [4], hexes(rng.randn(4)))
    add("permutation", [100], [int(v) for v in rng.permutation(100)])
    return {"seed": seed, "steps": steps}


SEEDS = [0, 1, 42, 123456789, 2**31, 2**32 - 1, [1, 2, 3], [0], list(range(700))]
path = pathlib.Path(__file__).with_name("numpy_random.json")
path.write_text(json.dumps({"numpy": np.__version__, "cases": [sequence(s) for s in SEEDS]},
                           separators=(",", ":")) + "\n")
