"""Loss curves and bytes of Hero's 1-bit Adam beside DeepSpeed's, on CPUs; started by tests/peers/onebit.

    onebit.py HERO_PROGRAM [--ranks N] [--seeds S] [--steps N]

The task: a network of two layers learns the classes that another one gives to random points. Both
sides begin with the same weights and see the same batches, which lie in a file. Adam and 1-bit Adam
take the same options on both sides, and the first --freeze steps of 1-bit Adam are Adam's; DeepSpeed's
has no bias correction, so its first steps are longer.

DeepSpeed's "nccl" and "mpi" backends of 1-bit Adam need CuPy; its "compressed" one needs an operator
that packs bits, which it has for Intel's GPUs alone. Here that operator is given to it in NumPy, and
all else is DeepSpeed's, over Gloo. Its bytes are those of the calls that it makes: of an
all_to_all the parts for others, of an all_gather the own part to each other rank.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import types

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402  after the number of threads
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed  # noqa: E402
import torch.multiprocessing  # noqa: E402

LR, EPS, BETAS, FREEZE = 2e-3, 1e-6, (0.9, 0.95), 60
INPUTS, HIDDEN, CLASSES, BATCH = 64, 128, 10, 16


def make_task(path, seed, ranks, steps):
    torch.manual_seed(seed)
    teacher = torch.nn.Sequential(torch.nn.Linear(INPUTS, 32), torch.nn.Tanh(), torch.nn.Linear(32, CLASSES))
    student = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(),
                                  torch.nn.Linear(HIDDEN, CLASSES))
    x = torch.randn(steps, ranks, BATCH, INPUTS)
    with torch.no_grad():
        y = (4 * teacher(x)).argmax(-1)
    safetensors.torch.save_file({"x": x, "y": y,
                                 "fc1.weight": student[0].weight.data, "fc1.bias": student[0].bias.data,
                                 "fc2.weight": student[2].weight.data, "fc2.bias": student[2].bias.data}, path)


class NumpyPackbits:
    """The operator that DeepSpeed lacks on a CPU: bits of x >= 0, and 1 or -1 for them."""

    def load(self):
        return self

    def packbits(self, buffer, _size, _rank):
        return torch.from_numpy(np.packbits(buffer.numpy() >= 0))

    def unpackbits(self, buffer, _size, _rank):
        return torch.from_numpy(np.unpackbits(buffer.numpy()).astype(np.float32) * 2 - 1)


def deepspeed_adam(parameters, rank):
    """DeepSpeed's OnebitAdam, what its engine would tell it, and a count of its bytes."""
    import deepspeed
    from deepspeed.runtime.comm import compressed
    from deepspeed.runtime.fp16.onebit.adam import OnebitAdam
    compressed.PackbitsBuilder = NumpyPackbits
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    sent = [0]
    others = torch.distributed.get_world_size() - 1
    all_to_all, all_gather = compressed.dist.all_to_all_single, compressed.dist.all_gather

    def counted_all_to_all(output, tensor, **options):
        sent[0] += tensor.nbytes * others // (others + 1)
        return all_to_all(output, tensor, **options)

    def counted_all_gather(tensors, tensor, **options):
        sent[0] += tensor.nbytes * others
        return all_gather(tensors, tensor.reshape(tensors[0].shape), **options)  # Gloo compares shapes

    compressed.dist.all_to_all_single = counted_all_to_all
    compressed.dist.all_gather = counted_all_gather
    engine = types.SimpleNamespace(mpu=None, local_rank=rank, enable_backward_allreduce=True)
    adam = OnebitAdam(parameters, engine, lr=LR, freeze_step=FREEZE, betas=BETAS, eps=EPS,
                      comm_backend_name="compressed")
    return adam, engine, sent


def worker(rank, ranks, path, method, port, queue):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank),
                   "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what DeepSpeed prints
    torch.distributed.init_process_group("gloo")
    task = safetensors.torch.load_file(path)
    model = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(),
                                torch.nn.Linear(HIDDEN, CLASSES))
    with torch.no_grad():
        for layer, name in ((model[0], "fc1"), (model[2], "fc2")):
            layer.weight.copy_(task[f"{name}.weight"])
            layer.bias.copy_(task[f"{name}.bias"])
    parameters = list(model.parameters())
    engine, sent = types.SimpleNamespace(enable_backward_allreduce=True), [0]
    if method == "adam":
        adam = torch.optim.Adam(parameters, lr=LR, betas=BETAS, eps=EPS)
    else:
        adam, engine, sent = deepspeed_adam(parameters, rank)
        # its first step only makes buffers
        for p in parameters:
            p.grad = torch.zeros_like(p)
        adam.step()
        for p in parameters:
            adam.state[p]["step"] = 0
    losses = []
    for step in range(len(task["x"])):
        sent[0] = 0
        loss = torch.nn.functional.cross_entropy(model(task["x"][step, rank]), task["y"][step, rank])
        model.zero_grad()
        loss.backward()
        if engine.enable_backward_allreduce:
            for p in parameters:
                torch.distributed.all_reduce(p.grad)
                p.grad /= ranks
                sent[0] += 2 * p.grad.nbytes * (ranks - 1) // ranks
        adam.step()
        shown = loss.detach().clone()
        torch.distributed.all_reduce(shown)
        losses.append(shown.item() / ranks)
    if rank == 0:
        queue.put((losses, sent[0]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train_peer(path, ranks, method, port):
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    spawned = torch.multiprocessing.spawn(worker, (ranks, path, method, port, queue), ranks, join=False)
    result = None
    while not spawned.join(timeout=0.1):  # raises what a process raised
        result = queue.get() if not queue.empty() else result
    return result or queue.get()


def train_hero(program, path, ranks, method):
    said = subprocess.run([program, path, str(ranks), str(FREEZE), str(LR), str(EPS), method], check=True,
                          capture_output=True, text=True, env=os.environ | {"HERO_NUM_THREADS": "1"})
    *losses, sent = said.stdout.split()
    return [float(loss) for loss in losses], int(sent)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hero")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    port = 29500 + os.getpid() % 1000
    curves, sent = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "task.safetensors")
        for seed in range(options.seeds):
            make_task(path, seed, options.ranks, options.steps)
            for name, run in (
                    ("Hero, Adam", lambda: train_hero(options.hero, path, options.ranks, "adam")),
                    ("Hero, 1-bit Adam", lambda: train_hero(options.hero, path, options.ranks, "onebit")),
                    ("PyTorch, Adam", lambda: train_peer(path, options.ranks, "adam", port)),
                    ("DeepSpeed, 1-bit Adam", lambda: train_peer(path, options.ranks, "onebit", port + 1))):
                losses, sent[name] = run()
                curves.setdefault(name, []).append(losses)
    marks = sorted({m for m in (10, FREEZE, FREEZE + 20, 150, 250) if m < options.steps} | {options.steps})
    print(f"{options.ranks} ranks, {options.seeds} seeds: mean loss of the ten steps up to a step, and the "
          "spread of the last over the seeds; bytes of a rank in the last step")
    print(f"{'':24}" + "".join(f"{mark:>9}" for mark in marks) + "   spread       bytes")
    for name, runs in curves.items():
        means = [[statistics.mean(run[mark - 10:mark]) for run in runs] for mark in marks]
        print(f"{name:24}" + "".join(f"{statistics.mean(mean):9.4f}" for mean in means) +
              f"{max(means[-1]) - min(means[-1]):9.4f}{sent[name]:12}")


if __name__ == "__main__":
    main()
