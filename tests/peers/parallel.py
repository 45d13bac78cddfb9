"""Times training steps on two cores, in Hero and in PyTorch; started by tests/peers/parallel.

    parallel.py HERO_PROGRAM MPIEXEC [--rounds R] [--steps N] [--json FILE] [MODEL...]

Strategies: DDP, fully_shard (in Hero by a policy and block by block), tensor parallelism, and a pipeline of
eight micro-batches: 1F1B, and Hero's zero bubble, also beside PyTorch's 1F1B.
Sides: one rank of two threads, two ranks of one thread each as threads, as processes under mpirun
("" as MPIEXEC: left out), and PyTorch's processes joined by Gloo. All take the same tokens a step.
Each runs alone, one after the other; a figure is the least of the rounds' medians, milliseconds.
"""
import argparse
import json
import os
import subprocess
import sys

from collectives import mpi_flags
from speed import TORCH_ENVIRONMENT

TORCH = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "parallel_torch.py")]
MODELS = ["gpt_128", "gpt_384"]
STRATEGIES = ["ddp", "fsdp", "tensor", "pipeline"]
PEERS = {"zero_bubble": "pipeline", "fsdp_blocks": "fsdp"}  # of strategies that PyTorch is not asked for


def said_by(command, environment):
    said = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    if said.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{said.stderr}")
    return lines[-1]


def sides_of(options, model):
    """(side, strategy) to its command and environment."""
    hero, steps = options.hero, str(options.steps)
    one, two = {"HERO_NUM_THREADS": "1"}, {"HERO_NUM_THREADS": "2"}
    sides = {("1 rank, 2 threads", "none"): ([hero, "step", "none", model, steps], two)}
    for strategy in [*STRATEGIES, *PEERS]:
        sides["threads", strategy] = [hero, "step", strategy, model, steps, "--ranks", "2"], two
        if options.mpiexec:
            start = [options.mpiexec, *mpi_flags(options.mpiexec), "-n", "2"]
            sides["mpi", strategy] = [*start, hero, "step", strategy, model, steps], one
    sides["PyTorch, 2 threads", "none"] = [*TORCH, "none", model, steps, "1", "2"], TORCH_ENVIRONMENT
    for strategy in STRATEGIES:
        sides["PyTorch", strategy] = [*TORCH, strategy, model, steps, "2", "1"], TORCH_ENVIRONMENT
    return sides


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("mpiexec")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json")
    parser.add_argument("models", nargs="*", choices=[*MODELS, []])
    options = parser.parse_intermixed_args()
    sink = open(options.json, "w", encoding="utf-8") if options.json else None
    for model in options.models or MODELS:
        sides = sides_of(options, model)
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(options.rounds):
            for key, (command, environment) in sides.items():
                best[key] = min(best[key], said_by(command, environment)["ms"])
        print(f"{model}: ms per step of two ranks, and how many times as fast as PyTorch under the same strategy")
        for (side, strategy), ms in best.items():
            peer = best["PyTorch" if strategy != "none" else "PyTorch, 2 threads", PEERS.get(strategy, strategy)]
            print(f"{side:20} {strategy:11} {ms:10.2f} {peer / ms:8.2f}", flush=True)
            if sink:
                sink.write(json.dumps({"model": model, "side": side, "strategy": strategy, "ms": ms}) + "\n")
        shares = sorted(said_by([options.hero, "overhead", model, str(options.steps)],
                                {"HERO_NUM_THREADS": "1"})["share"] for _ in range(options.rounds))
        print(f"fully_shard on one rank costs {100 * shares[len(shares) // 2]:.1f} % of the step "
              f"({100 * shares[0]:.1f} to {100 * shares[-1]:.1f})", flush=True)
        if sink:
            sink.write(json.dumps({"model": model, "overhead": shares}) + "\n")


if __name__ == "__main__":
    main()
