"""The same as collectives_hero.cpp in torch.distributed with Gloo: collectives_gloo.py RANKS."""
import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def seconds_of(bytes_, call):
    times = min(max((32 << 20) // bytes_, 3), 300)
    best = float("inf")
    call()
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best


def run(rank, size, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    for bytes_ in [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26]:
        x = torch.zeros(bytes_ // 4)
        part = torch.zeros(bytes_ // 4 // size)
        for name, call in [("all_reduce", lambda: dist.all_reduce(x)),
                           ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, x)),
                           ("all_gather", lambda: dist.all_gather_into_tensor(x, part))]:
            took = seconds_of(bytes_, call)
            if rank == 0:
                print(json.dumps({"op": name, "bytes": bytes_, "us": took * 1e6}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, args=(ranks, os.path.join(folder, "store")), nprocs=ranks)
