"""PyTorch's side of tests/peers/gpu.py: runs and times the cases of gpu_cases.py.

    gpu_torch.py [--tiny] [--device cpu] --list | --serve | --first-step TIME | --case NAME ...

as hero_bench_gpu; the variants are "eager", "compile" (torch.compile) and "graphed" (compiled, and
the whole step with its clipping and AdamW captured in one CUDA graph).
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

ROUNDS, ROUND_SECONDS = 7, 0.05


def imports():
    """PyTorch and the cases, which take seconds to come: --help and errors need not wait for them."""
    global torch, WARM_UP, Cases
    import torch
    from gpu_cases import WARM_UP, Cases


class Clock:
    """Waits for the device before and after what it times."""

    def __init__(self, device):
        self.on_gpu = device == "cuda"

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def timed(self, call, times):
        self.wait()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        self.wait()
        return (time.perf_counter() - begin) / times

    def allocated(self):
        if not self.on_gpu:
            return 0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def peak(self):
        return torch.cuda.max_memory_allocated() if self.on_gpu else 0


class Prepared:
    def __init__(self, clock, make):
        torch.manual_seed(1)
        before = clock.allocated()  # the other variant's data
        self.clock, self.call = clock, make()
        clock.timed(self.call, 1)
        self.first = time.time()
        clock.timed(self.call, WARM_UP - 1)
        self.group = min(500, max(1, int(ROUND_SECONDS / clock.timed(self.call, 1))))
        self.peak = clock.peak() - before

    def round(self):
        return self.clock.timed(self.call, self.group)


def say(**fields):
    print(json.dumps(fields), flush=True)


def answer(name, variant, what, seconds, ready):
    say(case=name, variant=variant, what=what, seconds=seconds, peak_bytes=ready.peak, first_call=ready.first)


@contextlib.contextmanager
def errors_said(name, variant):
    try:
        yield
    except Exception as error:  # of any kind: the other cases go on
        say(case=name, variant=variant, error=f"{type(error).__name__}: {error}"[:300])


def serve(cases, clock):
    prepared, last = {}, None
    for line in sys.stdin:
        name, variant = line.split()
        with errors_said(name, variant):
            what, make = cases.all[name, variant]
            if name != last:
                prepared.clear()
                torch._dynamo.reset()
            last = name
            if variant not in prepared:
                prepared[variant] = Prepared(clock, make)
            answer(name, variant, what, prepared[variant].round(), prepared[variant])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--first-step", type=float)
    parser.add_argument("--case", action="append")
    options = parser.parse_args()
    imports()
    cases, clock = Cases(options.tiny, options.device), Clock(options.device)
    if options.list:
        for name, variant in cases.all:
            print(name, variant)
    elif options.serve:
        serve(cases, clock)
    elif options.first_step is not None:
        clock.timed(cases.all["gpt2_b16", "eager"][1](), 1)
        say(case="first_step", variant="eager", seconds=time.time() - options.first_step)
    else:
        for (name, variant), (what, make) in cases.all.items():
            if options.case is None or name in options.case:
                with errors_said(name, variant):
                    ready = Prepared(clock, make)
                    answer(name, variant, what, statistics.median(ready.round() for _ in range(ROUNDS)), ready)


if __name__ == "__main__":
    main()
