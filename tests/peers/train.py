"""Trains the same networks in Hero and in PyTorch, in turns, and prints a table; started by
tests/peers/train.

    train.py HERO_PROGRAM [--seconds S] [--rounds R] [--threads 1,2] [--no-speed] [--no-memory] [CASE...]

Milliseconds are the least of the rounds' medians. Memory is the largest resident size of a process
that makes five steps, `first` the time from its start to the end of its first step.
"""
import argparse
import os
import subprocess
import sys
import time

from speed import TORCH_ENVIRONMENT, Side

CASES = ["mlp", "gpt_128", "gpt_384", "lstm", "cnn"]
HERE = os.path.dirname(os.path.abspath(__file__))


class TorchSide(Side):
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "train_torch.py")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=os.environ | TORCH_ENVIRONMENT)


def speed(options):
    hero, torch = Side(options.hero, {}), TorchSide()
    print(f"{'case':10} {'threads':>7} {'hero ms':>9} {'torch ms':>9} {'torch/hero':>10}  of the floor")
    for name in options.cases or CASES:
        for threads in map(int, options.threads.split(",")):
            names = [(hero, name), (torch, name)] + ([(hero, "mlp_floor")] if name == "mlp" else [])
            best = [float("inf")] * len(names)
            for _ in range(options.rounds):
                for i, (side, case) in enumerate(names):
                    best[i] = min(best[i], side.median(case, threads, options.seconds) / 1e6)
            floor = f"  {best[0] / best[2]:.2f}" if len(best) > 2 else ""
            print(f"{name:10} {threads:7} {best[0]:9.3f} {best[1]:9.3f} {best[1] / best[0]:10.2f}{floor}", flush=True)


def one_process(command, environment):
    """Seconds to the first step, and the peak of resident memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    line = process.stdout.readline()
    first = time.perf_counter() - start
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if line != "first\n" or status != 0:
        raise SystemExit(f"{command[0]} failed")
    return first, usage.ru_maxrss / 1024


def memory(options):
    print(f"{'case':10} {'hero MiB':>9} {'torch MiB':>9} {'hero/torch':>10} {'first s':>9} {'torch':>9} {'torch/hero':>10}")
    for name in options.cases or CASES:
        arguments = [name, "2", "5"]
        hero = one_process([options.hero, *arguments], {})
        # PyTorch as it comes: settings for speed keep freed memory.
        torch = one_process([sys.executable, os.path.join(HERE, "train_torch.py"), *arguments], {})
        print(f"{name:10} {hero[1]:9.0f} {torch[1]:9.0f} {hero[1] / torch[1]:10.2f} {hero[0]:9.3f} {torch[0]:9.3f} "
              f"{torch[0] / hero[0]:10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    if not options.no_speed:
        speed(options)
    if not options.no_memory:
        memory(options)


if __name__ == "__main__":
    main()
