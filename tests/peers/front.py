"""Times training steps of Hero, PyTorch, its C++ library and MLX in turns; started by tests/peers/front.

    front.py HERO_PROGRAM LIBTORCH_PROGRAM [--seconds S] [--rounds R] [CASE...]

Steps: the least of the rounds' medians at two threads, as in train.py. First step: from the start of
the process to the end of its first step, the least of three. Memory: the peak resident set of a
process that makes ten steps.
"""
import argparse
import os
import sys

from speed import TORCH_ENVIRONMENT, Side, least_medians
from train import TORCH, alone

CASES = ["mlp", "gpt_128"]
MLX = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "train_mlx.py")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("libtorch")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    options = parser.parse_intermixed_args()
    names = ["hero", "libtorch", "torch", "mlx"]
    commands = [[options.hero], [options.libtorch], TORCH, MLX]
    environments = [{}, TORCH_ENVIRONMENT, TORCH_ENVIRONMENT, {}]
    sides = [Side(c, e) for c, e in zip(commands, environments)]
    print(f"{'case':8} {'':14}" + "".join(f"{name:>10}" for name in names))
    for case in options.cases or CASES:
        best = least_medians(sides, case, 2, options)
        print(f"{case:8} {'ms, 2 threads':14}" + "".join(f"{t / 1e6:10.2f}" for t in best), flush=True)
        runs = [[alone(command, {}, case, steps) for steps in (10, 1, 1)] for command in commands]
        first = [min(run[0] for run in each) for each in runs]
        print(f"{case:8} {'s to 1st step':14}" + "".join(f"{t:10.3f}" for t in first))
        print(f"{case:8} {'peak MiB':14}" + "".join(f"{each[0][1]:10.0f}" for each in runs), flush=True)


if __name__ == "__main__":
    main()
