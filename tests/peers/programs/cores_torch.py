"""PyTorch's side of tests/peers/cores: the networks of train_torch.py, and the cases of cores_hero.cpp that it has."""
import torch

import train_loop
import train_torch


def matmul(n):
    a, b = torch.rand(n, n), torch.rand(n, n)
    return lambda: a @ b


def total():
    x = torch.rand(1 << 24)
    return lambda: x.sum()


class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.image = torch.rand(3, 256, 256)
        self.mean, self.std = torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.5

    def __len__(self):
        return 512

    def __getitem__(self, index):
        at = index % 32
        cut = self.image[:, at:at + 224, at:at + 224]
        return (cut.flip(2) - self.mean) / self.std, float(index)


def loader(workers):
    batches = torch.utils.data.DataLoader(Images(), 32, num_workers=workers, persistent_workers=True)

    def each():
        for _ in batches:
            pass
    each.calls = len(batches)
    return each


CASES = {"matmul_512": lambda _: matmul(512), "matmul_2048": lambda _: matmul(2048), "sum": lambda _: total(),
         "loader": loader}


def step_of(case, threads):
    if case not in CASES:
        return train_torch.step_of(case, threads)
    torch.set_num_threads(threads)
    return CASES[case](threads)


if __name__ == "__main__":
    train_loop.run(step_of)
