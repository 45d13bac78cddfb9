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

CASES = [  # name, threads, unit in nanoseconds, unit's name
    ("op_no_grad", (1,), 1, "ns"), ("op_no_grad_scalar", (1,), 1, "ns"), ("op_recording", (1,), 1, "ns"),
    ("op_forward_backward", (1,), 1, "ns"), ("exp", (1, 2), 1e6, "ms"), ("tanh", (1, 2), 1e6, "ms"),
    ("gelu_erf", (1, 2), 1e6, "ms"), ("gelu_tanh", (1, 2), 1e6, "ms"), ("add", (1, 2), 1e6, "ms"),
    ("sum_all", (1, 2), 1e6, "ms"), ("sum_rows", (1, 2), 1e6, "ms"), ("sum_columns", (1, 2), 1e6, "ms"),
    ("softmax", (1, 2), 1e6, "ms"), ("matmul_512", (1, 2), 1e6, "ms"), ("matmul_1024", (1, 2), 1e6, "ms"),
    ("linear_64x784x512", (1, 2), 1e6, "ms"),
    ("linear_1x4096x4096", (1, 2), 1e6, "ms"), ("linear_8x4096x4096", (1, 2), 1e6, "ms"),
    ("norm_56", (1, 2), 1e6, "ms"), ("norm_14", (1, 2), 1e6, "ms"), ("norm_28", (1, 2), 1e6, "ms"),
    ("norm_56_back", (1, 2), 1e6, "ms"), ("norm_14_back", (1, 2), 1e6, "ms"), ("norm_28_back", (1, 2), 1e6, "ms"),
    ("adamw", (1, 2), 1e6, "ms"),
    ("bilinear_x2", (1, 2), 1e6, "ms"), ("bicubic_x2", (1, 2), 1e6, "ms"), ("nearest_x2", (1, 2), 1e6, "ms"),
    ("conv3d", (1, 2), 1e6, "ms"), ("conv3d_back", (1, 2), 1e6, "ms"), ("unique", (1, 2), 1e6, "ms"), ("svd_256", (1, 2), 1e6, "ms"),
]
CONVOLUTIONS = [  # of speed_convolutions.h
    "conv_3x3", "conv_3x3_s2", "conv_3x3_s2_14", "conv_7x7_s2", "conv_1x1_s2", "conv_4x4_s4", "conv_groups_56", "conv_groups_14",
    "conv_groups_s2", "depthwise_3x3_112", "depthwise_3x3_28", "depthwise_3x3_14", "depthwise_3x3_7", "depthwise_3x3_s2",
    "depthwise_7x7_56", "depthwise_7x7_14", "depthwise_line", "transposed_4x4_s2", "transposed_2x2_s2",
]
CASES += [(name + part + half, (1, 2), 1e6, "ms") for half in ("", "_bf16") for name in CONVOLUTIONS for part in ("", "_dx", "_dw")]


# PyTorch leaves large blocks to malloc, which by default returns them to the system: each result
# would be paid for with page faults. With these it keeps them, in huge pages.
TORCH_ENVIRONMENT = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
                      "glibc.malloc.trim_threshold=8589934592",
}


class Side:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | environment)

    def median(self, case, threads, seconds):
        print(case, threads, seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"{self.process.args[0]} gave no time for {case}")
        return float(answer[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("torch")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--threads", type=int, choices=(1, 2), help="only so many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    for case in options.cases:
        if not any(fnmatch.fnmatch(name, case) for name, *_ in CASES):
            parser.error(f"no case {case}; there are: {' '.join(name for name, *_ in CASES)}")
    sides = [Side([options.hero], {}), Side([options.torch], TORCH_ENVIRONMENT)]
    print(f"{'case':20} {'threads':>7} {'hero':>12} {'torch':>12} {'torch/hero':>10}")
    for name, all_threads, unit, unit_name in CASES:
        if options.cases and not any(fnmatch.fnmatch(name, case) for case in options.cases):
            continue
        for threads in all_threads if options.threads is None else (options.threads,):
            best = [float("inf")] * 2
            for _ in range(options.rounds):
                for i, side in enumerate(sides):
                    best[i] = min(best[i], side.median(name, threads, options.seconds))
            hero, torch = (f"{t / unit:.3g} {unit_name}" for t in best)
            print(f"{name:20} {threads:7} {hero:>12} {torch:>12} {best[1] / best[0]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
