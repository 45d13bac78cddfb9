"""Times optimizer steps on the CPU and transfers to disk, in Hero and its peers in turns; started by
tests/peers/offload.

    offload.py HERO_PROGRAM [--rounds R] [--folder DIR]

Steps: Hero's AdamW, torch.optim.AdamW(fused=True) and DeepSpeed's CPUAdam, two threads each, over
2^24 to 2^27 float32 parameters; and with parameters and gradients of two bytes beside float32 masters
and moments: Hero's MasterWeights in one pass, CPUAdam as ZeRO-Offload uses it (gradients converted,
the step over the masters, the masters rounded into the parameters). Disk: SwapFile with two threads
and DeepSpeed's aio handle with two threads, past the page cache. A figure is the least of the rounds'
medians, milliseconds; the folder is the current one.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")
import torch  # noqa: E402  after the number of threads


def median_ms(run, runs=7):
    run()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def torch_step(n):
    x = torch.full((n,), 0.5, requires_grad=True)
    x.grad = torch.full((n,), 1e-3)
    return median_ms(torch.optim.AdamW([x], lr=1e-4, fused=True).step)


def deepspeed_step(dtype, n):
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    master = torch.nn.Parameter(torch.full((n,), 0.5))
    adam = DeepSpeedCPUAdam([master], lr=1e-4, adamw_mode=True)
    master.grad = torch.full((n,), 1e-3)
    if dtype == "float32":
        return median_ms(adam.step)
    narrow = torch.full((n,), 0.5, dtype=torch.bfloat16)
    gradient = torch.full((n,), 1e-3, dtype=torch.bfloat16)

    def step():
        master.grad.copy_(gradient)
        adam.step()
        narrow.copy_(master.data)

    return median_ms(step)


def deepspeed_swap(folder, size):
    from deepspeed.ops.op_builder import AsyncIOBuilder
    handle = AsyncIOBuilder().load().aio_handle(1 << 20, 32, False, True, 2)
    memory = handle.new_cpu_locked_tensor(size, torch.empty(0, dtype=torch.uint8))
    memory.fill_(1)
    path = os.path.join(folder, f"hero-peer-{os.getpid()}")
    try:
        write = median_ms(lambda: handle.sync_pwrite(memory, path, 0), 5)
        read = median_ms(lambda: handle.sync_pread(memory, path, 0), 5)
    finally:
        os.path.exists(path) and os.remove(path)
    return write, read


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    torch.set_num_threads(2)
    hero = subprocess.Popen([options.hero], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"HERO_NUM_THREADS": "2"})

    def ask(*words):
        print(*words, file=hero.stdin, flush=True)
        answer = hero.stdout.readline().split()
        if not answer:
            raise SystemExit(f"{options.hero} gave no answer to {words}")
        return [float(word) for word in answer]

    print(f"{'step of AdamW':26} {'Hero':>9} {'CPUAdam':>9} {'PyTorch':>9} {'ratios':>7}", flush=True)
    for dtype in ("float32", "bfloat16"):
        for power in (24, 25, 26, 27):
            n, best = 1 << power, [float("inf")] * 3
            for _ in range(options.rounds):
                best[0] = min(best[0], ask("step", dtype, n)[0])
                best[1] = min(best[1], deepspeed_step(dtype, n))
                if dtype == "float32":
                    best[2] = min(best[2], torch_step(n))
            ratios = " ".join(f"{peer / best[0]:7.2f}" for peer in best[1:] if peer < float("inf"))
            times = " ".join(f"{ms:9.1f}" if ms < float("inf") else 9 * " " for ms in best)
            print(f"{dtype:9} 2^{power:<14} {times} {ratios}", flush=True)
    print(f"{'disk, MB/s':26} {'Hero':>9} {'aio':>9} {'ratio':>7}", flush=True)
    for size in (64 << 20, 512 << 20):
        best = [[float("inf")] * 2, [float("inf")] * 2]
        for _ in range(options.rounds):
            for side, times in enumerate((ask("swap", options.folder, size),
                                          deepspeed_swap(options.folder, size))):
                best[side] = [min(pair) for pair in zip(best[side], times)]
        for what, ours, theirs in zip(("write", "read"), *best):
            print(f"{what:9} {size >> 20:5} MiB       {size / ours / 1e3:9.0f} {size / theirs / 1e3:9.0f} "
                  f"{theirs / ours:7.2f}", flush=True)
    hero.stdin.close()
    return hero.wait()


if __name__ == "__main__":
    sys.exit(main())
