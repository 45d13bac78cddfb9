"""decode.py PROGRAM FOLDER [--threads N] [--tokens N] [--rounds N]: writes two models with random weights, GPT-2
(124 million parameters) and a Llama of its size with four heads of keys and values, and draws the likeliest text
from prompts of 16 tokens with transformers (sdpa attention, float32) and with Hero's program, in turns. Prints
tokens a second, the best of the rounds, and how many rows are the same text; random weights leave scores so close
together that rounding may choose. Then the same of Hero with other weights, in turns: bfloat16, and quantised to Q8_0 and Q4_1."""

import argparse
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
prompts = torch.randint(0, 30000, (8, 16), generator=torch.Generator().manual_seed(1))
save_file({"prompts": prompts}, prompts_file)


def theirs(model, batch):
    start = time.perf_counter()
    with torch.inference_mode():
        text = model.generate(prompts[:batch], attention_mask=torch.ones(batch, 16, dtype=torch.int64), do_sample=False,
                              max_new_tokens=args.tokens, pad_token_id=0)
    return batch * args.tokens / (time.perf_counter() - start), text


def ours(kind, folder, batch, weights="float32"):
    out = subprocess.run([args.program, kind, folder, prompts_file, str(args.tokens), str(batch), weights], check=True,
                         capture_output=True, text=True, env=os.environ | {"HERO_NUM_THREADS": str(args.threads)}).stdout
    seconds, text = out.split("\n", 1)
    return batch * args.tokens / float(seconds), torch.tensor([int(t) for t in text.split()]).reshape(batch, -1)


for kind, config in models.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    folder = os.path.join(args.folder, kind)
    model.save_pretrained(folder)
    for batch in (1, 8):
        theirs(model, batch)
        peer, hero = 0.0, 0.0
        for _ in range(args.rounds):
            speed, expected = theirs(model, batch)
            peer = max(peer, speed)
            speed, text = ours(kind, folder, batch)
            hero = max(hero, speed)
        same = (text == expected).all(1).sum().item()
        print(f"{kind:5} batch {batch}: Hero {hero:6.1f} tokens/s, transformers {peer:6.1f}, ratio {hero / peer:.2f}, "
              f"{same} of {batch} texts the same", flush=True)
        best = dict.fromkeys(("float32", "bfloat16", "Q8_0", "Q4_1"), 0.0)
        for _ in range(args.rounds):
            for weights in best:
                best[weights] = max(best[weights], ours(kind, folder, batch, weights)[0])
        print(f"{kind:5} batch {batch}: " + ", ".join(f"{weights} {speed:.1f}" for weights, speed in best.items()) + " tokens/s", flush=True)
