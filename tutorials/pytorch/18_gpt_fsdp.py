# Chapter 18 in PyTorch: a transformer saved in shards, and resumed on other numbers of ranks.
import pathlib
import tempfile
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ranks import run_ranks, states_of

VOCAB, WIDTH, STEPS = 60, 64, 60


# [snippet: checkpoint]
def save(folder, model, adamw, step):
    parameters, states = get_state_dict(model, adamw)
    dcp.save({"model": parameters, "optimizer": states, "step": step}, checkpoint_id=folder)


def resume(folder, model, adamw):
    parameters, states = get_state_dict(model, adamw)  # this run's shards, to be filled
    state = {"model": parameters, "optimizer": states, "step": 0}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, adamw, model_state_dict=parameters, optim_state_dict=states)
    return state["step"]
# [end]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, activation="gelu", batch_first=True,
                                       norm_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return F.linear(self.norm(x), self.tokens.weight)


def start(world_size):
    torch.manual_seed(1)
    model, mesh = GPT(), init_device_mesh("cpu", (world_size,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def whole(model):
    return [p.full_tensor().detach() for p in model.parameters()]


def print_row(title, value, rank, world_size):
    values = [None] * world_size
    dist.all_gather_object(values, value)
    if rank == 0:
        print(f"{title:<18}" + " |".join(f"{v:8d}" for v in values), flush=True)


def nbytes(tensors):
    return sum(t.to_local().nbytes for t in tensors)


def first_run(folder, rank, world_size):
    model, adamw = start(world_size)
    for step in range(STEPS):
        torch.manual_seed(world_size * step + rank)
        ids = torch.randint(0, VOCAB, (4, 65))
        adamw.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        adamw.step()
    print_row("  parameters", nbytes(model.parameters()), rank, world_size)
    print_row("  optimizer", nbytes(states_of(adamw)), rank, world_size)
    save(folder / "checkpoint", model, adamw, STEPS)
    parameters = whole(model)
    if rank == 0:
        torch.save(parameters, folder / "whole.pt")


def second_run(folder, rank, world_size):
    model, adamw = start(world_size)
    step = resume(folder / "checkpoint", model, adamw)
    same = all(map(torch.equal, whole(model), torch.load(folder / "whole.pt")))
    if rank == 0:
        print(f"resumed at step {step} on {world_size} rank{'s' * (world_size > 1)}: "
              + ("the bits that were saved" if same else "OTHER bits"), flush=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run_ranks(partial(first_run, folder), 4)
        for world_size in 2, 1:
            run_ranks(partial(second_run, folder), world_size)


if __name__ == "__main__":
    main()
