"""Times training steps of Hero and PyTorch in turns and prints a table; started by tests/peers/train.

    train.py HERO_PROGRAM [--seconds S] [--rounds R] [--threads T...] [--setups] [CASE...]

Steps: the least of the rounds' medians, as in speed.py. With --setups they are those of Hero in
float32 and under autocast beside PyTorch's eager, compiled, under autocast and both. Memory: the peak resident set of a process
that makes ten steps. First step: from the start of the process to the end of its first step, the
least of three.
"""
import argparse
import os
import resource
import subprocess
import sys
import time

from speed import TORCH_ENVIRONMENT, Side, least_medians

CASES = ["mlp", "gpt_128", "gpt_384", "lstm", "cnn"]
LARGE = ["gpt2", "llama", "resnet18"]  # where asked for
SETUPS = [("hero", ["", "+bf16"]), ("torch", ["", "+compile", "+bf16", "+bf16+compile"])]
TORCH = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "train_torch.py")]


def alone(command, environment, case, steps):
    """Seconds to the first step and peak MiB of a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([*command, case, "1", str(steps)], stdout=subprocess.PIPE, text=True,
                               env=os.environ | environment)
    if process.stdout.readline() != "first\n":
        raise SystemExit(f"{command[0]} made no step of {case}")
    first = time.perf_counter() - start
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return first, usage.ru_maxrss / 1024


def compare_setups(sides, case, threads, options):
    """Every set-up of both in turns, and the best of each."""
    best = {}
    for _ in range(options.rounds):
        for side, (name, setups) in zip(sides, SETUPS):
            for setup in setups:
                time_of = side.median(case + setup, threads, options.seconds) / 1e6
                best[name, setup] = min(best.get((name, setup), float("inf")), time_of)
    parts = [f"{name}{setup} {time_of:.2f}" for (name, setup), time_of in best.items()]
    least = [min(best[name, setup] for setup in setups) for name, setups in SETUPS]
    alike = best["torch", ""], best["torch", "+compile"]
    print(f"{case}, ms, {threads} threads: {', '.join(parts)}; best of each {least[1] / least[0]:.2f}, "
          f"float32 alone {min(alike) / best['hero', '']:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--setups", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[*CASES, *LARGE, []])
    options = parser.parse_intermixed_args()
    commands = [[options.hero], TORCH]
    environments = [{}, TORCH_ENVIRONMENT]
    sides = [Side(c, e) for c, e in zip(commands, environments)]
    if options.setups:
        for case in options.cases or CASES:
            for threads in options.threads:
                compare_setups(sides, case, threads, options)
        return
    print(f"{'case':8} {'':14} {'hero':>10} {'torch':>10} {'ratio':>7}")
    for case in options.cases or CASES:
        for threads in options.threads:
            best = least_medians(sides, case, threads, options)
            print(f"{case:8} {f'ms, {threads} threads':14} {best[0] / 1e6:10.3f} {best[1] / 1e6:10.3f} "
                  f"{best[1] / best[0]:7.2f}", flush=True)
        # PyTorch as it comes: memory kept in huge pages would count against it
        runs = [[alone(command, {}, case, steps) for steps in (10, 1, 1)] for command in commands]
        first = [min(run[0] for run in each) for each in runs]
        peak = [each[0][1] for each in runs]
        print(f"{case:8} {'s to 1st step':14} {first[0]:10.3f} {first[1]:10.3f} {first[1] / first[0]:7.1f}")
        print(f"{case:8} {'peak MiB':14} {peak[0]:10.0f} {peak[1]:10.0f} {peak[0] / peak[1]:7.2f}", flush=True)


if __name__ == "__main__":
    main()
