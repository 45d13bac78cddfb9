"""pretrained.py PROGRAM FOLDERS WORK: PROGRAM (pretrained.cpp) copies each of the models in FOLDERS and makes some of
its own; transformers reads what it has written, with nothing missing, left over or of another shape, and computes
logits, which have to be those of Hero to 1e-5 of the largest. A copy also has the configuration that it was made from.
Folders of halves are read as float32."""

import json
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

program, folders, work = sys.argv[1:]
tokens_file, scores_file = os.path.join(work, "tokens.safetensors"), os.path.join(work, "scores.safetensors")
tokens = torch.randint(0, 61, (2, 20), generator=torch.Generator().manual_seed(3))
save_file({"tokens": tokens}, tokens_file)
failed = []


def check(name, folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    # A head that is tied to the embedding is not written.
    wrong = {key: found for key, found in info.items() if found}
    with torch.no_grad():
        theirs = model.eval()(tokens).logits
    ours = load_file(scores_file)["logits"]
    off = ((theirs - ours).abs().max() / theirs.abs().max()).item()
    files = len([f for f in os.listdir(folder) if f.endswith(".safetensors")])
    good = off < 1e-5 and not wrong
    print(f"{'ok' if good else 'WRONG'}: {name}, {type(model).__name__}, {files} files, off by {off:.1e} {wrong or ''}", flush=True)
    if not good:
        failed.append(name)
    return model


def settings(config):
    """What the model computes with, as transformers understands it."""
    left_out = ("dtype", "torch_dtype", "architectures", "transformers_version", "_name_or_path", "use_cache", "model_type",
                "sliding_window", "layer_types", "max_window_layers", "use_sliding_window")
    return {k: v for k, v in config.to_dict().items() if k not in left_out}


for name in sorted(os.listdir(folders)):
    kind = "gpt" if name.startswith("gpt") else "llama"
    origin = os.path.join(folders, name)
    for dtype in ("float32", "float16", "bfloat16"):
        folder = os.path.join(work, f"{name}-{dtype}")
        subprocess.run([program, "copy", kind, origin, folder, dtype, tokens_file, scores_file], check=True)
        copy = check(f"copy of {name} in {dtype}", folder)
        was = settings(AutoModelForCausalLM.from_pretrained(origin).config)
        now = settings(copy.config)
        other = {k: (was.get(k), now.get(k)) for k in set(was) & set(now) if was.get(k) != now.get(k)}
        if other:
            print(f"WRONG: {name}'s configuration: {other}")
            failed.append(name)
        with open(os.path.join(folder, "config.json")) as file:
            if json.load(file).get("torch_dtype") != dtype:
                failed.append(f"{name}: torch_dtype")
for kind in ("gpt", "llama"):
    for variant in ("", "bias", "tied", "grouped") if kind == "llama" else ("", "tied", "bias"):
        folder = os.path.join(work, f"new-{kind}-{variant}")
        subprocess.run([program, "new", kind, folder, "float32", tokens_file, scores_file, variant], check=True)
        check(f"{kind} made here {variant}", folder)
sys.exit(f"not read as written: {failed}" if failed else 0)
