"""decode.py PROGRAM FOLDER [--threads N] [--tokens N] [--prompts LENGTH..] [--batches N..] [--rounds N]: writes two
models with random weights, GPT-2 (124 million parameters) and a Llama of its size with four heads of keys and
values, and draws the likeliest text from prompts of some lengths with transformers (sdpa attention) and with
Hero's program, in turns, both in float32 and in bfloat16. Prints tokens a second after the first token, whose time
is that of reading the prompt, the best of the rounds; and how many rows in float32 are the same text: random
weights leave scores so close together that rounding may choose. Then Hero's with quantised weights, Q8_0 and Q4_1."""

import argparse
import copy
import os
import subprocess
import time

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("folder")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--prompts", type=int, nargs="+", default=[16])
parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
parser.add_argument("--rounds", type=int, default=3)
args = parser.parse_args()
torch.set_num_threads(args.threads)
none = dict(bos_token_id=None, eos_token_id=None)
models = {
    "gpt": GPT2Config(**none, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "llama": LlamaConfig(**none, vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
                         num_attention_heads=12, num_key_value_heads=4),
}
prompts_file = os.path.join(args.folder, "prompts.safetensors")


def theirs(model, prompts):
    """Tokens a second after the first, and the text."""
    seconds = []
    for tokens in (1, args.tokens):
        start = time.perf_counter()
        with torch.inference_mode():
            text = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False,
                                  max_new_tokens=tokens, pad_token_id=0)
        seconds.append(time.perf_counter() - start)
    return len(prompts) * (args.tokens - 1) / (seconds[1] - seconds[0]), text


def ours(kind, folder, batch, weights):
    out = subprocess.run([args.program, kind, folder, prompts_file, str(args.tokens), str(batch), weights], check=True,
                         capture_output=True, text=True, env=os.environ | {"HERO_NUM_THREADS": str(args.threads)}).stdout
    first, all_of_them, text = out.split("\n", 2)
    speed = batch * (args.tokens - 1) / (float(all_of_them) - float(first))
    return speed, torch.tensor([int(t) for t in text.split()]).reshape(batch, -1)


for kind, config in models.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    folder = os.path.join(args.folder, kind)
    model.save_pretrained(folder)
    peers = {"float32": model, "bfloat16": copy.deepcopy(model).to(torch.bfloat16)}
    for length in args.prompts:
        prompts = torch.randint(0, 30000, (max(args.batches), length), generator=torch.Generator().manual_seed(1))
        save_file({"prompts": prompts}, prompts_file)
        for batch in args.batches:
            best = dict.fromkeys(("float32", "bfloat16", "Q8_0", "Q4_1"), 0.0)
            peer = dict.fromkeys(peers, 0.0)
            same = 0
            for name in peers:
                theirs(peers[name], prompts[:batch])
            for _ in range(args.rounds):
                for weights in best:
                    speed, text = ours(kind, folder, batch, weights)
                    best[weights] = max(best[weights], speed)
                    if weights in peers:
                        speed, expected = theirs(peers[weights], prompts[:batch])
                        peer[weights] = max(peer[weights], speed)
                    if weights == "float32":
                        same = (text == expected).all(1).sum().item()
            pairs = [f"{name} {best[name]:.1f} beside {peer[name]:.1f}, {best[name] / peer[name]:.2f}" for name in peers]
            quantised = [f"{name} {best[name]:.1f}" for name in best if name not in peers]
            print(f"{kind:5} prompt {length:4} batch {batch}, tokens/s: {'; '.join(pairs + quantised)}; "
                  f"{same} of {batch} texts the same", flush=True)
