"""Times Hero and PyTorch in turns and prints a table; started by tests/peers/run.

    speed.py HERO_PROGRAM TORCH_PROGRAM [--seconds S] [--rounds R] [CASE...]

Each program waits asleep while the other one is timed. Every case is timed `rounds` times by each
for S seconds; CASE may be a pattern. The figures are the least of the rounds' medians, so that other work on the machine
counts as little as it can.
"""
import argparse
import fnmatch
import os
import subprocess

NANOSECONDS = ("op_no_grad", "op_no_grad_scalar", "op_recording", "op_forward_backward")  # on one thread; else milliseconds


# PyTorch leaves large blocks to malloc, which by default returns them to the system: each result
# would be paid for with page faults. With these it keeps them, in huge pages.
TORCH_ENVIRONMENT = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
                      "glibc.malloc.trim_threshold=8589934592",
}


class Side:
    def __init__(self, command, environment):
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            env=os.environ | environment)
        except OSError as error:
            raise SystemExit(f"speed.py: cannot start {command[0]}: {error.strerror}")

    def names(self):
        print("list 0 0", file=self.process.stdin, flush=True)
        return self.process.stdout.readline().split()

    def median(self, case, threads, seconds):
        print(case, threads, seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"{self.process.args[0]} gave no time for {case}")
        return float(answer[0])


def least_medians(sides, case, threads, options):
    """For each side the least of the medians of options.rounds rounds, in which the sides take turns, in nanoseconds."""
    rounds = [[side.median(case, threads, options.seconds) for side in sides] for _ in range(options.rounds)]
    return [min(times) for times in zip(*rounds)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("torch")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--threads", type=int, choices=(1, 2), help="only so many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    sides = [Side([options.hero], {}), Side([options.torch], TORCH_ENVIRONMENT)]
    names, others = (side.names() for side in sides)
    if names != others:
        raise SystemExit(f"only one side has the cases {' '.join(sorted(set(names) ^ set(others)))}")
    for case in options.cases:
        if not fnmatch.filter(names, case):
            parser.error(f"no case {case}; there are: {' '.join(names)}")
    print(f"{'case':24} {'threads':>7} {'hero':>12} {'torch':>12} {'torch/hero':>10}")
    for name in names:
        if options.cases and not any(fnmatch.fnmatch(name, case) for case in options.cases):
            continue
        unit, unit_name, all_threads = (1, "ns", (1,)) if name in NANOSECONDS else (1e6, "ms", (1, 2))
        for threads in all_threads if options.threads is None else (options.threads,):
            best = least_medians(sides, name, threads, options)
            hero, torch = (f"{t / unit:.3g} {unit_name}" for t in best)
            print(f"{name:24} {threads:7} {hero:>12} {torch:>12} {best[1] / best[0]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
